"""`events.jsonl`: what the supervisor did and saw, one JSON line each, bounded."""

from __future__ import annotations

import os
from typing import Any

from remote_agent import atomic, clock
from remote_agent.protocol import dump_line

LIMIT_BYTES = 1 << 20


class Journal:
    """Appends events. A full disk costs events, which is said when it has space again, and never more."""

    def __init__(self, path: str, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._missed = 0

    def say(self, event: str, **params: Any) -> None:
        line = dump_line(dict(params, at=clock.now_utc(), event=event))
        if self._missed:
            line = dump_line({"at": clock.now_utc(), "event": "events-missed", "count": self._missed}) + line
        try:
            self._append(line)
            self._missed = 0
        except OSError:
            self._missed += 1

    def _append(self, line: bytes) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = b"\n" + line  # the disk was full in the middle of one: what is half is not glued to the next
            os.write(fd, line)
        finally:
            os.close(fd)
        if size + len(line) > self._limit_bytes:
            self._halve()

    def _halve(self) -> None:
        """Keeps the newest half, whole lines."""
        with open(self._path, "rb") as stream:
            stream.seek(-self._limit_bytes // 2, os.SEEK_END)
            stream.readline()
            newest = stream.read()
        atomic.write_bytes(self._path, newest)
