"""The attempt's log, as the supervisor sees it: the tee writes it, we read its end and add a line where no tee can."""

from __future__ import annotations

import os

from remote_agent import atomic, layout
from remote_agent.supervise.journal import Journal
from remote_agent.verdict import TAIL_BYTES


class AttemptLog:
    """One attempt's log; it need not exist."""

    def __init__(self, run: layout.Run, attempt: int) -> None:
        self._run = run
        self._attempt = attempt

    @property
    def path(self) -> str:
        """Its first part."""
        return self._run.log(self._attempt)

    @property
    def newest_part(self) -> str:
        parts = self._run.log_parts(self._attempt)
        return parts[-1].path if parts else self.path

    def say(self, text: str) -> None:
        """Lines of our own, while no tee is writing. A full disk costs them."""
        try:
            fd = os.open(self.newest_part, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            return
        try:
            os.write(fd, b"".join(b"[cloudrun] " + line + b"\n" for line in text.encode("utf-8").splitlines()))
        except OSError:
            pass
        finally:
            os.close(fd)

    def tail(self) -> str:
        """Its last 64 KiB."""
        return self._run.log_tail(self._attempt, TAIL_BYTES)

    def make_current(self, journal: Journal) -> None:
        """`logs/current` points at its newest part, where there is one."""
        newest = self.newest_part
        if os.path.exists(newest):
            try:
                atomic.replace_link(os.path.basename(newest), self._run.current_log)
            except OSError as error:
                journal.say("link-not-written", reason=error.strerror or str(error))
