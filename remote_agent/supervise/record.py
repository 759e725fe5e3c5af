"""The run's `state.json`, as its supervisor keeps it: a disk that is full now may have space later."""

from __future__ import annotations

import time
from typing import Callable, Optional

from remote_agent import atomic, layout
from remote_agent.protocol import State, encode
from remote_agent.supervise.journal import Journal

FIRST_RETRY_S = 0.2
LAST_RETRY_S = 5.0


class Record:
    """Holds the state and sees to it that the file says the same, sooner or later."""

    def __init__(self, run: layout.Run, state: State, journal: Journal,
                 now: Callable[[], float] = time.monotonic) -> None:
        self.state = state
        self._path = run.state
        self._journal = journal
        self._now = now
        self._retry_s = FIRST_RETRY_S
        self._due: Optional[float] = None

    @property
    def written(self) -> bool:
        """Whether the file says what `state` says."""
        return self._due is None

    def publish(self) -> None:
        """Writes the state; where that fails, `tend` tries again."""
        try:
            atomic.write_json(self._path, encode(self.state))
        except OSError as error:
            if self._due is None:
                self._journal.say("state-not-written", reason=error.strerror or str(error))
            self._due = self._now() + self._retry_s
            self._retry_s = min(LAST_RETRY_S, self._retry_s * 2)
            return
        self._due, self._retry_s = None, FIRST_RETRY_S

    def tend(self) -> None:
        """Tries again where a write is due."""
        if self._due is not None and self._now() >= self._due:
            self.publish()
