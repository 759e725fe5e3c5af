"""Decompressing what is received. A Python that was built on a bare image has no zlib: it is sent the bytes as they are."""

from __future__ import annotations

from typing import Any

zlib: Any
try:
    import zlib
    DAMAGED: Any = zlib.error
except ImportError:
    zlib, DAMAGED = None, ()


def takes_plain_bytes() -> bool:
    return zlib is None


def reader() -> Any:
    """As `zlib.decompressobj()`."""
    return _Plain() if zlib is None else zlib.decompressobj()


class _Plain:
    """Bytes as they came."""

    unconsumed_tail = b""
    eof = True

    def decompress(self, data: bytes, _most: int) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""
