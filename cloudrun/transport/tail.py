"""The end of a stream that may be long."""

from __future__ import annotations

import threading

TAIL_BYTES = 16 * 1024


class Tail:
    """Keeps the last `TAIL_BYTES` of what is added; one thread adds, another looks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._content = bytearray()

    def add(self, data: bytes) -> None:
        with self._lock:
            self._content += data
            del self._content[:-TAIL_BYTES]

    def content(self) -> bytes:
        with self._lock:
            return bytes(self._content)
