"""`code.receive`: the wanted contents as one compressed stream of frames, each content checked by its sha256."""

from __future__ import annotations

import hashlib
import os
from typing import BinaryIO, Callable, List, Optional, Tuple

from remote_agent.code import inflate, staging
from remote_agent.code.staging import Staging
from remote_agent.protocol import AgentError, read_frame
from remote_agent.words import _

_PIECE_BYTES = 1 << 20


def receive(path: str, stream: BinaryIO, refuse: Callable[[], None] = lambda: None) -> None:
    """Reads frames until `end`; then every wanted content lies in the staging area, verified.

    On any failure, and on the sender's `abort` (AgentError("code-given-up")), the staging area is gone; `refuse` is called at
    once, so that the sender may stop, and the stream is read to its last frame, so that the next request is found.
    """
    frames = _Frames(stream)
    try:
        area = staging.find(path)[1]
        with staging.whole_or_gone(area, lambda: frames.needed_bytes):
            _unpack(area, frames)
    except (AgentError, OSError):
        if not frames.ended:
            refuse()
            frames.drain()
        raise


class _Frames:
    """The payloads up to the last frame."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.ended = False
        self.needed_bytes = 0

    def next(self) -> Optional[bytes]:
        """The next payload; None at the end. Raises AgentError when the sender gives up, or the stream is cut."""
        try:
            frame = read_frame(self._stream)
        except (EOFError, ValueError) as error:
            self.ended = True
            raise AgentError("code-cut", detail=str(error)) from error
        if frame is None:
            self.ended = True
            raise AgentError("code-cut", detail=_("the stream ended"))
        header, payload = frame
        if header.get("kind") in ("end", "abort"):
            self.ended = True
            if header["kind"] == "abort":
                raise AgentError("code-given-up")
            return None
        return payload if header.get("kind") == "data" else b""

    def drain(self) -> None:
        """Reads on to the last frame, so that the next request is found."""
        while not self.ended:
            try:
                self.ended = self.next() is None
            except AgentError:
                return


def _unpack(area: Staging, frames: _Frames) -> None:
    staged = area.read()
    sizes = staged.sizes()
    files = _Files(area, [(sha256, sizes[sha256]) for sha256 in staged.wanted])
    frames.needed_bytes = sum(sizes[sha256] for sha256 in staged.wanted)
    reader = inflate.reader()
    try:
        while True:
            payload = frames.next()
            if payload is None:
                break
            while payload:
                files.write(reader.decompress(payload, _PIECE_BYTES))
                payload = reader.unconsumed_tail
        files.write(reader.flush())
    except inflate.DAMAGED as error:
        raise AgentError("code-damaged", detail=str(error)) from error
    finally:
        files.close()
    if not files.complete or not reader.eof:
        raise AgentError("code-damaged", detail=_("fewer bytes than were announced"))


class _Files:
    """Cuts the stream into the contents."""

    def __init__(self, area: Staging, contents: List[Tuple[str, int]]) -> None:
        self._area = area
        self._left = contents
        self._fd: Optional[int] = None
        self._missing = 0
        self._hash = hashlib.sha256()
        self._next()

    @property
    def complete(self) -> bool:
        return self._fd is None and not self._left

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self._fd is None:
                raise AgentError("code-damaged", detail=_("more bytes than were announced"))
            written = os.write(self._fd, view[:self._missing])
            self._hash.update(view[:written])
            self._missing -= written
            view = view[written:]
            if not self._missing:
                self._finish()
                self._next()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _next(self) -> None:
        """Opens the next content; one of no bytes is finished at once."""
        while self._left:
            self._sha256, self._missing = self._left[0]
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self._area.blob(self._sha256), flags, 0o600)
            self._hash = hashlib.sha256()
            if self._missing:
                return
            self._finish()

    def _finish(self) -> None:
        self.close()
        if self._hash.hexdigest() != self._sha256:
            raise AgentError("code-damaged", detail=_("a file's content is not what was announced"))
        self._left.pop(0)


