"""Sends the code: an offer, and the contents that the box lacks in one compressed stream."""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from cloudrun.errors import CloudrunError
from cloudrun.units import size
from remote_agent.protocol import CodeOffer, CodeWanted, FileEntry, Spec, decode, dump_frame, encode

LARGE_BYTES = 200_000_000
_SHOWN = 10
_READ_BYTES = 1 << 18
#: Text halves at this level, at a speed that no link to a box exceeds.
_LEVEL = 3
#: The box looks through every tree of the project.
_OFFER_TIMEOUT_S = 300.0
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)

Progress = Callable[[int, int], None]


class Client(Protocol):
    """What is needed of `AgentClient`."""

    def call(self, op: str, params: dict[str, Any], on_event: Callable[[dict[str, Any]], None] | None = None,
             timeout_s: float = 60.0) -> Any: ...

    def call_with_stream(self, op: str, params: dict[str, Any], chunks: Iterator[bytes],
                         on_event: Callable[[dict[str, Any]], None] | None = None, timeout_s: float = 60.0) -> Any: ...


class Sendable(Protocol):
    """What is needed of a manifest."""

    @property
    def root(self) -> Path: ...

    @property
    def files(self) -> tuple[FileEntry, ...]: ...


def send_code(client: Client, manifest: Sendable, spec: Spec, progress: Progress, *, allow_large: bool = False) -> str:
    """Offers the manifest and sends what is wanted; gives the staging area that `launch` applies. `progress` gets the bytes sent
    and all there are to send (before compression).

    Raises CloudrunError: "code-too-large", "code-changing" (a file is no longer what was hashed: build the manifest anew),
    "code-unreadable", and the box's own. Whatever is raised, nothing of it stays on the box.
    """
    offer = CodeOffer(spec.run, spec.project, spec.project_id, list(manifest.files))
    wanted = decode(CodeWanted, client.call("code.offer", encode(offer), timeout_s=_OFFER_TIMEOUT_S))
    by_content = {entry.sha256: entry for entry in manifest.files if entry.link is None}
    entries = [by_content[sha256] for sha256 in wanted.sha256]
    total = sum(entry.size_bytes for entry in entries)
    sending = _Sending(manifest.root, entries, progress, total)
    sending.plain = wanted.plain
    if total > LARGE_BYTES and not allow_large:
        sending.failure = _too_large(entries, total)
    _stream(client, wanted.staging, sending)
    return wanted.staging


def _stream(client: Client, staging: str, sending: _Sending) -> None:
    try:
        client.call_with_stream("code.receive", {"staging": staging}, sending.frames(), sending.heard)
    except CloudrunError as error:
        if sending.failure is not None and error.code == "code-given-up":
            raise sending.failure from error
        raise


class _Sending:
    """One stream of frames. When it cannot go on it ends with `abort`, so that the box drops what came; `failure` says why."""

    def __init__(self, root: Path, entries: list[FileEntry], progress: Progress, total: int) -> None:
        self.failure: CloudrunError | None = None
        self.plain = False
        self._root, self._entries, self._progress, self._total = root, entries, progress, total
        self._sent = 0
        self._refused = False

    def heard(self, event: dict[str, Any]) -> None:
        """The box cannot take the rest; its answer to the last frame says why."""
        self._refused = self._refused or event.get("event") == "code-refused"

    def frames(self) -> Iterator[bytes]:
        deflate = _Plain() if self.plain else zlib.compressobj(_LEVEL)
        try:
            if self.failure is not None:
                raise self.failure
            for piece in self._pieces():
                packed = deflate.compress(piece)
                if packed:
                    yield dump_frame({"kind": "data"}, packed)
                self._sent += len(piece)
                self._progress(self._sent, self._total)
                if self._refused:
                    break
            else:
                yield dump_frame({"kind": "data"}, deflate.flush())
                yield dump_frame({"kind": "end"})
                return
        except CloudrunError as error:
            self.failure = error
        yield dump_frame({"kind": "abort"})

    def _pieces(self) -> Iterator[bytes]:
        for entry in self._entries:
            yield from _content(self._root / entry.path, entry)


class _Plain:
    """In a compressor's place: bytes as they are."""

    def compress(self, data: bytes) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


def _content(place: Path, entry: FileEntry) -> Iterator[bytes]:
    """The file's bytes. Raises CloudrunError("code-changing") when they are not the ones that were hashed."""
    whole, size = hashlib.sha256(), 0
    try:
        fd = os.open(place, os.O_RDONLY | _NO_FOLLOW)
        with open(fd, "rb", buffering=0) as stream:  # noqa: PTH123 (opened without following a link)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise CloudrunError("code-changing", path=str(place))
            while size <= entry.size_bytes and (piece := stream.read(_READ_BYTES)):
                size += len(piece)
                if size > entry.size_bytes:
                    break
                whole.update(piece)
                yield piece
    except FileNotFoundError as error:
        raise CloudrunError("code-changing", path=str(place)) from error
    except OSError as error:
        raise CloudrunError("code-unreadable", path=str(place), reason=error.strerror or str(error)) from error
    if size != entry.size_bytes or whole.hexdigest() != entry.sha256:
        raise CloudrunError("code-changing", path=str(place))


def _too_large(entries: list[FileEntry], total: int) -> CloudrunError:
    largest = sorted(entries, key=lambda entry: entry.size_bytes, reverse=True)[:_SHOWN]
    lines = [f"{size(entry.size_bytes):>12}  {_printable(entry.path)}" for entry in largest]
    return CloudrunError("code-too-large", size=size(total), limit=size(LARGE_BYTES), largest="\n".join(lines))


def _printable(path: str) -> str:
    """The path where no control character can act on the terminal."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in path)
