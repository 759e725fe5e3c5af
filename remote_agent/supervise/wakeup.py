"""Sleeping until something happens: a child ends, somebody signals, or the time is over."""

from __future__ import annotations

import ctypes
import os
import select
import signal
from typing import Any, Dict, Optional

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: Ends of children whose meaning is not known yet; the oldest are forgotten.
_KEPT_STATUSES = 1024
#: A supervisor is not typed at.
IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
           signal.SIGUSR1, signal.SIGUSR2)


class Wakeup:
    """The supervisor's signals and children. One per process: it installs the handlers."""

    def __init__(self) -> None:
        self._reading, writing = os.pipe()
        for fd in (self._reading, writing):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        #: HUP or TERM, the first that came; None while nobody asked.
        self.asked_by: Optional[int] = None
        #: Wait statuses by pid, of children and of those whom we inherited.
        self.statuses: Dict[int, int] = {}
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, self._note)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)

    def wait(self, timeout_s: float) -> None:
        """Returns after the time, or earlier when a signal came. Children that ended are reaped."""
        select.select([self._reading], [], [], max(0.0, timeout_s))
        try:
            while os.read(self._reading, 4096):
                pass
        except BlockingIOError:
            pass
        self.reap()

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.statuses[pid] = status
            if len(self.statuses) > _KEPT_STATUSES:
                self.statuses.pop(next(iter(self.statuses)))

    def deafen(self) -> None:
        """From now on nobody's HUP or TERM cuts our last words short."""
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _note(self, number: int, frame: Any) -> None:
        if self.asked_by is None:
            self.asked_by = number


def become_subreaper() -> bool:
    """Orphans below us become our children, whatever session they made for themselves. False where the kernel refuses."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_on_parent_death(number: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> bool:
    library = ctypes.CDLL(None, use_errno=True)
    return bool(library.prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0)
