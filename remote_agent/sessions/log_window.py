"""The log window: the newest attempt's last lines, then what comes, on into later parts and attempts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from remote_agent import layout
from remote_agent.words import _

if TYPE_CHECKING:
    from remote_agent.sessions.windows import Window

_LAST_LINES = 200
_TAIL_BYTES = 64 * 1024
_CHUNK_BYTES = 64 * 1024
_POLL_S = 0.5


def follow(window: "Window", run_dir: str) -> int:
    """Shows until the window is not wanted any more."""
    reader = Reader(layout.Run(run_dir))
    while True:
        data = reader.read()
        if data:
            window.write(data)
        elif not window.wait(_POLL_S):
            return 0


@dataclass
class _Place:
    attempt: int
    offset: int


class Reader:
    """Bytes of a run's log, from the end of its newest attempt on. Notes of its own stand between the attempts."""

    def __init__(self, run: layout.Run) -> None:
        self._run = run
        self._place: Optional[_Place] = None

    def read(self) -> bytes:
        """The next bytes; b"" where there is nothing new."""
        if self._place is None:
            return self._begin()
        data = self._next(self._place)
        if data:
            return data
        later = [number for number in self._run.logged_attempts() if number > self._place.attempt]
        if not later:
            return b""
        # The old attempt is over now that the next one has a log: what it wrote last is read before we go on.
        data = self._next(self._place)
        if data:
            return data
        self._place = _Place(later[0], 0)
        return b"\r\n" + _heading(later[0])

    def _begin(self) -> bytes:
        attempts = self._run.logged_attempts()
        if not attempts:
            return b""
        newest = attempts[-1]
        parts = self._run.log_parts(newest)
        end = parts[-1].offset + _size(parts[-1].path) if parts else 0
        start = max(parts[-1].offset if parts else 0, end - _TAIL_BYTES)
        self._place = _Place(newest, start)
        data = b""
        while len(data) < end - start:
            piece = self._next(self._place)
            if not piece:
                break
            data += piece
        lines = data.split(b"\n")[-_LAST_LINES - 1:]
        return _heading(newest) + b"\n".join(lines)

    def _next(self, place: _Place) -> bytes:
        """Bytes at the place, which moves on; a part that rotation took away is said and stepped over."""
        parts = self._run.log_parts(place.attempt)
        here = [part for part in parts if part.offset <= place.offset]
        data = _read(here[-1].path, place.offset - here[-1].offset) if here else b""
        if data:
            place.offset += len(data)
            return data
        later = [part for part in parts if part.offset > place.offset]
        if not later:
            return b""
        lost, place.offset = later[0].offset - place.offset, later[0].offset
        return ("\r\n[%s]\r\n" % _("{count} bytes of the log were not kept").format(count=lost)).encode()


def _heading(attempt: int) -> bytes:
    return ("----- %s -----\r\n" % _("attempt {number}").format(number=attempt)).encode()


def _read(path: str, offset: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(fd, _CHUNK_BYTES, offset)
    finally:
        os.close(fd)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
