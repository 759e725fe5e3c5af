"""The end of a stream that may be long."""

from __future__ import annotations

import threading
from collections.abc import Callable

TAIL_BYTES = 16 * 1024
#: After the command's end its last words are on their way still; a child that holds the stream open is not waited for longer.
SETTLE_S = 0.5


class Tail:
    """Keeps the last `TAIL_BYTES` of a stream that a thread of its own drains. `drain` reads to the end and calls `add`."""

    def __init__(self, drain: Callable[[Tail], None]) -> None:
        self._lock = threading.Lock()
        self._content = bytearray()
        self._thread = threading.Thread(target=drain, args=(self,), name="stderr-tail", daemon=True)
        self._thread.start()

    def add(self, data: bytes) -> None:
        with self._lock:
            self._content += data
            del self._content[:-TAIL_BYTES]

    def content(self, *, ended: bool) -> bytes:
        """What there is; where the command has `ended`, to the end of the stream."""
        if ended:
            self._thread.join(SETTLE_S)
        with self._lock:
            return bytes(self._content)
