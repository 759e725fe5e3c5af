"""What is wanted of the supervisor: the word that the user's commands write, and signals."""

from __future__ import annotations

import os
from typing import Dict, Optional, Tuple

from remote_agent import layout, wishes
from remote_agent.protocol import DEFAULT_GRACE_S, Desired
from remote_agent.supervise.wakeup import Wakeup


class Orders:
    """Whether the run is to end, and why. The user's word counts before a signal: `stop` sends one to be quick."""

    def __init__(self, run: layout.Run, signals: Wakeup) -> None:
        self._places = wishes.places(run)
        self._signals = signals
        self._seen: Dict[str, Tuple[int, int, int]] = {}
        self._stop: Optional[Desired] = None

    def heed(self) -> None:
        """Reads what changed; a later stop may have another grace."""
        for path in self._places:
            try:
                found = os.stat(path)
            except OSError:
                continue
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen != self._seen.get(path):
                self._seen[path] = seen
                desired = layout.read_record(Desired, path)
                if desired is not None and desired.want == "stop":
                    self._stop = desired

    @property
    def to_end(self) -> Optional[str]:
        """Why the run is to end, as a cause; None while it is not."""
        if self._stop is None and self._signals.asked_by is not None:
            self.heed()  # the word was written before the signal was sent, perhaps after we last looked
        if self._stop is not None:
            return "user"
        return "session-killed" if self._signals.asked_by is not None else None

    @property
    def grace_s(self) -> float:
        return self._stop.grace_s if self._stop is not None else DEFAULT_GRACE_S
