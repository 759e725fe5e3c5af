"""Reads an attempt's log across its parts by offset: no byte twice, none lost, what rotation took is a gap."""

from __future__ import annotations

import os
from typing import BinaryIO, List, Optional, Tuple

from remote_agent import layout
from remote_agent.records import dataclass

_BLOCK_BYTES = 64 * 1024
_TRIES = 8
#: Looking back for line ends stops here: a bar that draws for days without a newline is one line of gigabytes.
MAX_TAIL_BYTES = 16 << 20
#: Who asks for very many lines gets as far back as this for each.
MAX_LINE_BYTES = 1 << 10


@dataclass(frozen=True)
class Position:
    """A byte of a run's output: the attempt, and the offset in all that the attempt wrote."""

    attempt: int
    offset: int


@dataclass(frozen=True)
class Piece:
    """Bytes at a position, or (`gap_to`) the news that the bytes from here to there are not to be had."""

    at: Position
    data: bytes = b""
    gap_to: Optional[int] = None


class LogReader:
    """Stands at a position and reads on. A part stays open while it is read: it may be deleted meanwhile."""

    def __init__(self, run: layout.Run, position: Position) -> None:
        self._run = run
        self.position = position
        self._fd: Optional[int] = None
        self._part_offset = 0
        self._path = ""

    def move(self, position: Position) -> None:
        self._close()
        self.position = position

    def read(self, max_bytes: int) -> Optional[Piece]:
        """The next piece; None where there is none yet (or no log yet). Raises OSError."""
        if self._fd is None:
            return self._open(max_bytes)
        data = os.pread(self._fd, max_bytes, self.position.offset - self._part_offset)
        if data:
            return self._advance(data)
        return self._at_end(max_bytes)

    def _advance(self, data: bytes) -> Piece:
        at = self.position
        self.position = Position(at.attempt, at.offset + len(data))
        return Piece(at, data)

    def _at_end(self, max_bytes: int) -> Optional[Piece]:
        """The open part gives nothing more: it grew meanwhile, was cut, is over, or has to be waited for."""
        assert self._fd is not None
        later = [part for part in self._parts() if part.offset > self._part_offset]
        # Listed first, read after: once a next part is there, this one has no writer any more.
        data = os.pread(self._fd, max_bytes, self.position.offset - self._part_offset)
        if data:
            return self._advance(data)
        found = os.fstat(self._fd)
        if later:
            self._close()
            return self._open(max_bytes)
        if found.st_size < self.position.offset - self._part_offset:
            return self._jump(self._part_offset)
        if found.st_nlink == 0 and os.path.exists(self._path):  # deleted and begun anew under the same name
            self._close()
            return self._jump(self._part_offset)
        return None

    def _open(self, max_bytes: int) -> Optional[Piece]:
        """Opens the part that holds the position, or the first one after it."""
        for _attempt in range(_TRIES):
            part = next((part for part, end in _with_ends(self._parts()) if end is None or self.position.offset < end), None)
            if part is None:
                return None
            try:
                self._fd = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:  # rotated away since it was listed: look again
                continue
            self._part_offset, self._path = part.offset, part.path
            if part.offset > self.position.offset:
                return self._jump(part.offset)
            return self.read(max_bytes)
        return None

    def _jump(self, to: int) -> Piece:
        at = self.position
        self.position = Position(at.attempt, to)
        return Piece(at, gap_to=to)

    def _parts(self) -> List[layout.Part]:
        return self._run.log_parts(self.position.attempt)

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _with_ends(parts: List[layout.Part]) -> List[Tuple[layout.Part, Optional[int]]]:
    """Each part with the offset its bytes end at; None for the newest, which grows, and for one that is gone."""
    ends = []
    for part in parts[:-1]:
        ends.append((part, part.offset + _size(part.path)))
    return ends + [(part, None) for part in parts[-1:]]


def end_of(run: layout.Run, attempt: int) -> int:
    """Offset behind the last byte of an attempt's log; 0 where there is none."""
    parts = run.log_parts(attempt)
    return parts[-1].offset + _size(parts[-1].path) if parts else 0


def start_of_tail(run: layout.Run, end: Position, lines: int, one: bool = False) -> Position:
    """Where the last `lines` lines before `end` begin; into earlier attempts where this one has fewer, unless `one`.

    Reads back by blocks, and no further than `MAX_TAIL_BYTES`, or `MAX_LINE_BYTES` for each line where that is more.
    """
    whole = _no_more_than(run, end, lines, one)
    if whole is not None:
        return whole
    wanted, budget, attempt = lines, max(MAX_TAIL_BYTES, lines * MAX_LINE_BYTES), end.attempt
    start = end
    earlier = [number for number in run.logged_attempts() if number < attempt]
    for number in [attempt] + ([] if one else earlier[::-1]):
        last = end if number == attempt else Position(number, end_of(run, number))
        offset, found, read = _back(run, last, wanted, budget)
        if found or number == attempt:
            start = Position(number, offset)
        wanted, budget = wanted - found, budget - read
        if wanted <= 0 or budget <= 0:
            break
    return start


def _no_more_than(run: layout.Run, end: Position, most_bytes: int, one: bool) -> Optional[Position]:
    """The beginning of all that there is before `end`, where that is no more than so many bytes and so many lines at most."""
    numbers = [end.attempt] if one else [number for number in run.logged_attempts() if number <= end.attempt]
    first, size = end, 0
    for number in sorted(numbers, reverse=True):
        last = end.offset if number == end.attempt else end_of(run, number)
        parts = [part for part in run.log_parts(number) if part.offset < last]
        if parts:
            first, size = Position(number, parts[0].offset), size + last - parts[0].offset
        if size > most_bytes:
            return None
    return first if size else None


def _back(run: layout.Run, last: Position, lines: int, budget: int) -> Tuple[int, int, int]:
    """Looks back from there for the start of the attempt's last `lines` lines: offset, lines found, bytes read."""
    end = last.offset
    start, found, read = end, 0, 0
    if lines <= 0:
        return end, 0, 0
    for part in reversed(run.log_parts(last.attempt)):
        stream = _opened(part) if part.offset < end else None
        if stream is None:
            continue
        with stream:
            at = min(os.fstat(stream.fileno()).st_size, end - part.offset)
            while at > 0 and read < budget:
                size = min(_BLOCK_BYTES, at, budget - read)
                stream.seek(at - size)
                block = stream.read(size)
                at, read = at - size, read + size
                cut, found = _cut(block, lines, found, last=part.offset + at + size == end)
                if cut is not None:
                    return part.offset + at + cut, lines, read
            start = part.offset + at
            if read >= budget:
                return start, found + 1, read
    return start, found + (1 if read else 0), read


def _cut(block: bytes, lines: int, found: int, last: bool) -> Tuple[Optional[int], int]:
    """Where in this block the wanted lines begin, if they do; and the newlines counted so far.

    The newline that ends the very last line (`last`: the block ends the log) begins none.
    """
    end = len(block) - 1 if last and block.endswith(b"\n") else len(block)
    here = block.count(b"\n", 0, end)
    if found + here < lines:
        return None, found + here
    while True:
        end = block.rfind(b"\n", 0, end)
        if end < 0:
            return None, found
        found += 1
        if found == lines:
            return end + 1, found


def _opened(part: layout.Part) -> Optional[BinaryIO]:
    """None: rotated away since it was listed. Its lines are gone, and those before it may be there."""
    try:
        return open(part.path, "rb")
    except FileNotFoundError:
        return None


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
