"""How a log reaches stdout: raw, as a terminal shows it, line by line into a pipe, or as JSON lines."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from cloudrun.cli.terminal_filter import TerminalFilter, last_state, plain

#: A line longer than this leaves in pieces; of a bar that never ends its line, only the last state is kept.
LONGEST_LINE_BYTES = 1 << 20
#: Bytes whose lines are not shown just as they are: controls, but tab and newline.
_CONTROLS = bytes([*range(9), *range(11, 32), 127])
_C1 = re.compile("[\x80-\x9f]")


class Sink(Protocol):
    """Takes the log as it comes."""

    def data(self, attempt: int, offset: int, data: bytes) -> None: ...

    def cut(self) -> None:
        """What comes next does not continue what came: another attempt, or a gap."""

    def aside(self) -> None:
        """A line of talk comes on the same terminal: the line that stands there ends first."""

    def release(self) -> None:
        """What was there when the log was asked for has come: what was held back for it goes out."""

    def close(self) -> None: ...


class Out:
    """stdout as bytes; text that its encoding cannot say is replaced, never an error. Each write goes out at once."""

    def __init__(self, stream: BinaryIO | None = None, encoding: str | None = None) -> None:
        self._stream = stream or sys.stdout.buffer
        self._encoding = encoding or sys.stdout.encoding or "utf-8"

    def write(self, data: bytes) -> None:
        self._stream.write(data)
        self._stream.flush()

    def text(self, text: str) -> None:
        if text:
            self.write(text.encode(self._encoding, "replace"))


class RawSink:
    """Byte for byte."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._in_line = False

    def data(self, attempt: int, offset: int, data: bytes) -> None:
        self._out.write(data)
        self._in_line = not data.endswith(b"\n") if data else self._in_line

    def cut(self) -> None: ...

    def aside(self) -> None:
        if self._in_line:
            self._out.write(b"\n")
            self._in_line = False

    def release(self) -> None: ...

    def close(self) -> None: ...


class TerminalSink:
    """For a terminal: text, colours and bars; nothing that acts on it."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._begin()
        self._in_line = self._coloured = False

    def data(self, attempt: int, offset: int, data: bytes) -> None:
        self._show(self._filter.feed(self._decoder.decode(data)))

    def cut(self) -> None:
        self._show(self._filter.feed(self._decoder.decode(b"", final=True)) + self._filter.flush())
        if self._coloured:
            self._out.text("\x1b[0m")
        if self._in_line:
            self._out.text("\n")
        self._begin()
        self._in_line = self._coloured = False

    def aside(self) -> None:
        if self._in_line:
            self._out.text("\n")
            self._in_line = False

    def release(self) -> None: ...

    def close(self) -> None:
        self.cut()

    def _begin(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._filter = TerminalFilter()

    def _show(self, text: str) -> None:
        if text:
            self._in_line = not text.endswith("\n")
            self._coloured = self._coloured or "\x1b" in text
            self._out.text(text)


@dataclass(frozen=True)
class Line:
    """A line as a reader sees it. Not `whole`: a piece of one that is too long, or the log's last words."""

    attempt: int
    offset: int
    text: str
    whole: bool


class LineReader:
    """Cuts a log into lines. Memory is bounded whatever comes."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._attempt = self._offset = 0
        #: Bytes of the line that are no longer held: states of a bar that later ones replaced.
        self._dropped = 0

    @property
    def in_line(self) -> bool:
        """Whether the beginning of a line is held."""
        return bool(self._held or self._dropped)

    def feed(self, attempt: int, offset: int, data: bytes) -> Iterator[Line]:
        """Lines that are finished now. `offset` is that of the first byte of `data`."""
        if not self._held and not self._dropped:
            self._attempt, self._offset = attempt, offset
        searched = len(self._held)
        self._held += data
        while (end := self._held.find(b"\n", searched)) >= 0:
            yield self._take(end, whole=True, skip=1)
            searched = 0
        if len(self._held) > LONGEST_LINE_BYTES:
            yield from self._shorten()

    def flush(self) -> Iterator[Line]:
        """What is held without a line end."""
        if self._held:
            yield self._take(len(self._held), whole=False, skip=0)

    def _take(self, end: int, *, whole: bool, skip: int) -> Line:
        text = last_state(plain(self._held[:end].decode("utf-8", "replace"))).replace("\b", "")
        line = Line(self._attempt, self._offset, text, whole)
        del self._held[:end + skip]
        self._offset += self._dropped + end + skip
        self._dropped = 0
        return line

    def _shorten(self) -> Iterator[Line]:
        last = self._held.rfind(b"\r", 0, len(self._held) - 1)
        if last >= 0:
            del self._held[:last]
            self._dropped += last
        if len(self._held) > LONGEST_LINE_BYTES:
            yield self._take(_character_start(self._held), whole=False, skip=0)


def as_it_is(data: bytes) -> str | None:
    """The text of whole lines in which nothing has to be left out or replaced; None where something has. Most logs are such,
    and line by line their gigabytes would take many times longer."""
    if len(data.translate(None, _CONTROLS)) != len(data):
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if not data.isascii() and _C1.search(text) else text


def _character_start(held: bytearray) -> int:
    """The end of the last whole UTF-8 character; where there is none nearby, the end."""
    for back in range(1, 4):
        if held[-back] >= 0xC0:
            return len(held) - back
        if held[-back] < 0x80:
            break
    return len(held)


class Matching:
    """Lines that match, counted in `found`. With `last` only the last so many of them, held back until `release`."""

    def __init__(self, pattern: re.Pattern[str], last: int | None = None) -> None:
        self.found = 0
        self._pattern = pattern
        self._held: deque[Line] | None = None if last is None else deque(maxlen=last)

    def among(self, attempt: int, offset: int, text: str) -> Iterator[Line]:
        """Lines of a text of whole lines that match; they are not counted yet (see `pick`)."""
        for line in text.split("\n")[:-1]:
            if self._pattern.search(line):
                yield Line(attempt, offset, line, whole=True)
            offset += len(line.encode()) + 1

    def pick(self, lines: Iterator[Line]) -> Iterator[Line]:
        """Those that may be shown now."""
        for line in lines:
            if not self._pattern.search(line.text):
                continue
            self.found += 1
            if self._held is None:
                yield line
            else:
                self._held.append(line)

    def release(self) -> Iterator[Line]:
        """What was held back; from now on nothing is."""
        held, self._held = self._held, None
        return iter(held or ())


class LineSink:
    """For a pipe: one line each, a bar as its last state; with `wanted` those that match."""

    def __init__(self, out: Out, wanted: Matching | None = None) -> None:
        self._out = out
        self._wanted = wanted
        self._lines = LineReader()
        self._in_line = False

    def data(self, attempt: int, offset: int, data: bytes) -> None:
        # The line that is held ends at `first`; what comes behind `last` begins one.
        first, last = data.find(b"\n") + 1 if self._lines.in_line else 0, data.rfind(b"\n") + 1
        text = as_it_is(data[first:last]) if first < last else None
        if text is None:
            self._show(self._lines.feed(attempt, offset, data))
            return
        if first:
            self._show(self._lines.feed(attempt, offset, data[:first]))
        if self._wanted is not None:
            self._show(self._wanted.among(attempt, offset + first, text))
        else:
            self._out.text(text)
            self._in_line = False
        self._show(self._lines.feed(attempt, offset + last, data[last:]))

    def cut(self) -> None:
        self._show(self._lines.flush())
        if self._in_line:
            self._out.text("\n")
            self._in_line = False

    def close(self) -> None:
        self._show(self._lines.flush())
        self.release()

    def aside(self) -> None: ...

    def release(self) -> None:
        """The last matches are known now: they go out, and so does every one that follows."""
        if self._wanted is not None:
            self._out.text("".join(line.text + "\n" for line in self._wanted.release()))

    def _show(self, lines: Iterator[Line]) -> None:
        if self._wanted is not None:
            self._out.text("".join(line.text + "\n" for line in self._wanted.pick(lines)))
            return
        text = ""
        for line in lines:
            text += line.text + ("\n" if line.whole else "")
            self._in_line = not line.whole
        self._out.text(text)


class JsonSink:
    """JSON: a line of `{"attempt", "offset", "line"}` each, or (`kept`) gathered for one document."""

    def __init__(self, out: Out, wanted: Matching | None = None, *, kept: bool = False) -> None:
        self._out = out
        self._wanted = wanted
        self._lines = LineReader()
        self.kept: list[dict[str, Any]] | None = [] if kept else None

    def data(self, attempt: int, offset: int, data: bytes) -> None:
        self._show(self._lines.feed(attempt, offset, data))

    def cut(self) -> None:
        self._show(self._lines.flush())

    def close(self) -> None:
        self.cut()
        self.release()

    def aside(self) -> None: ...

    def release(self) -> None:
        """As `LineSink.release`."""
        if self._wanted is not None:
            self._say_lines(self._wanted.release())

    def _show(self, lines: Iterator[Line]) -> None:
        self._say_lines(lines if self._wanted is None else self._wanted.pick(lines))

    def _say_lines(self, lines: Iterator[Line]) -> None:
        for line in lines:
            said = {"attempt": line.attempt, "offset": line.offset, "line": line.text}
            if self.kept is None:
                self.say(said)
            else:
                self.kept.append(said)

    def say(self, document: dict[str, Any]) -> None:
        """One JSON line of its own."""
        self._out.write(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
