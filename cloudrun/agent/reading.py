"""Lines, frames and the hello out of a channel, each with a deadline."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.transport.base import Channel
from remote_agent import protocol

#: An answer longer than this is no answer of ours.
MAX_LINE_BYTES = 64 << 20
MOST_AT_ONCE_BYTES = 256 * 1024
#: What the box's shell may still print between our words (a job of its start-up files') before it is no longer noise.
LATE_NOISE_BYTES = 64 * 1024


class ChannelReader:
    """Buffers what a channel gives. Every wait raises TimeoutError at its deadline, EOFError at the stream's end."""

    def __init__(self, channel: Channel, clock: Callable[[], float] = time.monotonic) -> None:
        self.channel = channel
        self._clock = clock
        self._held = bytearray()
        self._noise_left = LATE_NOISE_BYTES

    def hello(self, nonce: str, timeout_s: float) -> dict[str, Any]:
        """The hello, wherever it stands. Raises ValueError for another protocol or when the window is full of noise."""
        deadline = self._clock() + timeout_s
        while True:
            found = protocol.find_hello(bytes(self._held), nonce)
            if found:
                self._held = bytearray(found[1])
                return found[0]
            if len(self._held) > protocol.HELLO_WINDOW_BYTES:
                raise ValueError("no hello")
            self._more(deadline)

    @property
    def heard(self) -> bytes:
        """What came and belonged to nothing."""
        return bytes(self._held)

    def message(self, timeout_s: float) -> dict[str, Any]:
        """The next JSON object on a line; noise before it and glued to it is skipped."""
        deadline = self._clock() + timeout_s
        while True:
            line = self._line(deadline)
            message = _object_in(line)
            if message is not None:
                return message
            self._skip(line)

    def waiting_message(self) -> dict[str, Any] | None:
        """A message that has come already; waits for nothing."""
        try:
            return self.message(0.0)
        except TimeoutError:
            return None

    def frame(self, timeout_s: float) -> tuple[dict[str, Any], bytes]:
        """The next frame. Noise is skipped before the first one only: inside the stream it would be data.

        `timeout_s`: the longest silence. Of a log's bytes what came before the connection's end is a shorter frame: a link that
        breaks again and again still gets further. The next call raises.
        """
        deadline = self._clock() + timeout_s
        while True:
            line = self._line(deadline)
            header = _object_in(line)
            if header is None or not isinstance(header.get("kind"), str):
                self._skip(line)
                continue
            self._noise_left = 0
            length = header.get("length", 0)
            if not isinstance(length, int) or not 0 <= length <= protocol.MAX_PAYLOAD_BYTES:
                raise ValueError(_("a frame of length {length!r}").format(length=length))
            try:
                while len(self._held) < length:
                    self._more(self._clock() + timeout_s)
            except (EOFError, CloudrunError):
                if header["kind"] != "data" or not self._held:
                    raise
                length = len(self._held)
            with memoryview(self._held) as held:
                payload = bytes(held[:length])
            del self._held[:length]
            return header, payload

    def _line(self, deadline: float) -> bytes:
        searched = 0
        while True:
            end = self._held.find(b"\n", searched)
            if end >= 0:
                line = bytes(self._held[:end])
                del self._held[:end + 1]
                return line
            searched = len(self._held)
            if searched > MAX_LINE_BYTES:
                raise ValueError(_("a line longer than any answer"))
            self._more(deadline)

    def _skip(self, line: bytes) -> None:
        self._noise_left -= len(line)
        if self._noise_left < 0:
            raise ValueError(_("not our words: {line!r}").format(line=line[:80]))

    def _more(self, deadline: float) -> None:
        data = self.channel.receive(MOST_AT_ONCE_BYTES, max(0.0, deadline - self._clock()))
        if not data:
            raise EOFError
        self._held += data


def _object_in(line: bytes) -> dict[str, Any] | None:
    """The JSON object that ends this line. Something may be glued to its front: a prompt, a banner without newline."""
    start = line.find(b"{")
    for _attempt in range(16):
        if start < 0:
            return None
        try:
            value = json.loads(line[start:].decode("utf-8"))
        except ValueError:
            start = line.find(b"{", start + 1)
            continue
        return value if isinstance(value, dict) else None
    return None


def printable(data: bytes, *, last: bool = False) -> str:
    """The first (or last) line of this with something to read in it, at most 200 characters, without controls."""
    near = data[-LATE_NOISE_BYTES:] if last else data[:LATE_NOISE_BYTES]
    lines = near.decode("utf-8", "replace").splitlines()
    for line in reversed(lines) if last else lines:
        shown = "".join(c for c in line if c.isprintable()).strip()
        if shown:
            return shown[:200]
    return ""


def ended_early(reader: ChannelReader, code: str, after: bytes = b"", **params: Any) -> CloudrunError:
    """The error for a command that ended without our words: the first that it said instead after those, or where they did
    not come, the last."""
    _before, found, rest = reader.heard.rpartition(after) if after else (b"", after, reader.heard)
    said = printable(rest, last=found != after)
    stderr = _last_of_stderr(reader.channel)
    return CloudrunError(code, said=said or ("" if stderr else _("nothing")), stderr=stderr, **params)


def _last_of_stderr(channel: Channel) -> str:
    """The last line on stderr, which may arrive a moment after stdout's end."""
    with contextlib.suppress(TimeoutError, CloudrunError):
        channel.exit_status(1.0)
    for _attempt in range(10):
        lines = [line for line in channel.stderr_tail().splitlines() if line.strip()]
        if lines:
            return printable(lines[-1])
        time.sleep(0.02)
    return ""
