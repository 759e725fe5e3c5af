"""Waits for a change in folders: inotify where the file system tells, short looks where it does not."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import time
from types import TracebackType
from typing import List, Optional, Sequence, Type

_IN_MODIFY, _IN_MOVED_TO, _IN_CREATE, _IN_DELETE = 0x2, 0x80, 0x100, 0x200
_MASK = _IN_MODIFY | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE
#: The longest wait. A network file system takes the watch and tells nothing of what another machine wrote.
LONGEST_S = 0.25
#: The wait where nobody tells, for as long as things keep happening.
ACTIVE_S = 0.03
_ACTIVE_FOR_S = 5.0


class Watch:
    """Changes in these folders; one that is not there yet is watched once it is.

    `wait` says nothing about what changed: whoever waits looks again, and tells by `saw` whether there was anything.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._unwatched = list(folders)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._begin()
        self._told = True
        self._moved_at = time.monotonic()
        #: Whether the file system was never caught changing in silence.
        self.trusted = self._fd is not None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def wait(self, timeout_s: float, fds: Sequence[int]) -> List[int]:
        """Those of `fds` that can be read; [] when something may have changed or it is time to look."""
        if self._subscribe():
            return []  # what came before the watch stood is seen by looking
        active = time.monotonic() - self._moved_at < _ACTIVE_FOR_S
        longest = ACTIVE_S if active and not self.trusted else LONGEST_S
        watched = list(fds) if self._fd is None else [*fds, self._fd]
        ready = select.select(watched, [], [], max(0.0, min(timeout_s, longest)))[0]
        self._told = self._fd in ready
        if self._told:
            self._drain()
        return [fd for fd in ready if fd != self._fd]

    def saw(self, moved: bool) -> None:
        """What the look after the last wait found."""
        if moved:
            self._moved_at = time.monotonic()
            self.trusted = self.trusted and self._told
        self._told = True

    def _begin(self) -> Optional[int]:
        try:
            fd: int = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        except AttributeError:  # a C library without inotify
            return None
        return fd if fd >= 0 else None

    def _subscribe(self) -> bool:
        """Watches what was not there before; whether anything was added."""
        added = []
        for folder in self._unwatched if self._fd is not None else []:
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), ctypes.c_uint32(_MASK))
            if number >= 0:
                added.append(folder)
            elif ctypes.get_errno() == errno.ENOSPC:  # the box's limit of watches is used up
                self.trusted = False
        self._unwatched = [folder for folder in self._unwatched if folder not in added]
        return bool(added)

    def _drain(self) -> None:
        assert self._fd is not None
        try:
            while os.read(self._fd, 65536):
                pass
        except BlockingIOError:
            pass
