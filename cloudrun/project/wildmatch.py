"""Git's own pattern language, exactly: lines of an ignore file, and a translation of `wildmatch` to regular expressions.

Source of the rules: git's `dir.c` (`parse_path_pattern`, `match_basename`, `match_pathname`) and `wildmatch.c`. All of it
works on bytes, as git does: `?` is one byte, and `é` is two. The `pathspec` package was held against `git check-ignore`
first and answered otherwise for one pattern in ten (character classes, `a/**/`, bytes, a trailing backslash).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SPECIAL = b"*?[\\"
_CLASSES = {
    b"alnum": rb"0-9A-Za-z", b"alpha": rb"A-Za-z", b"blank": rb" \t", b"cntrl": rb"\x00-\x1f\x7f", b"digit": rb"0-9",
    b"graph": rb"\x21-\x7e", b"lower": rb"a-z", b"print": rb"\x20-\x7e", b"punct": rb"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    b"space": rb"\t-\r ", b"upper": rb"A-Z", b"xdigit": rb"0-9A-Fa-f",
}


class _NeverMatches(Exception):
    """A pattern that git's matcher gives up on."""


@dataclass(frozen=True)
class Pattern:
    """One line. `regex` is held against the name where `basename`, else against the path below the file's folder."""

    negated: bool
    only_folders: bool
    basename: bool
    regex: re.Pattern[bytes]

    def matches(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        if self.only_folders and not is_folder:
            return False
        return self.regex.fullmatch(name if self.basename else path) is not None


def parse(text: bytes, ignore_case: bool = False) -> list[Pattern]:
    """The patterns of an ignore file, in order. Lines that can never match are left out."""
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    patterns = (_parse_line(line, ignore_case) for line in lines if line and not line.startswith(b"#"))
    return [pattern for pattern in patterns if pattern is not None]


def _parse_line(line: bytes, ignore_case: bool) -> Pattern | None:
    line = _without_trailing_spaces(line.removesuffix(b"\r").split(b"\0")[0])
    negated = line.startswith(b"!")
    line = line[negated:]
    only_folders = line.endswith(b"/")
    line = line[: len(line) - only_folders]
    basename = b"/" not in line
    anchored = line.removeprefix(b"/")
    if not anchored:
        return None
    try:
        expression = _translate(anchored)
    except _NeverMatches:
        return None
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
    return Pattern(negated, only_folders, basename, re.compile(expression, flags))


def _without_trailing_spaces(line: bytes) -> bytes:
    """Trailing spaces go, unless a backslash holds them."""
    end, at = 0, 0
    while at < len(line):
        if line[at:at + 1] == b"\\":
            if at + 1 == len(line):
                return line
            at += 1
            end = at + 1
        elif line[at:at + 1] != b" ":
            end = at + 1
        at += 1
    return line[:end]


def _translate(pattern: bytes) -> bytes:
    """A regular expression that matches what wildmatch does. The literal beginning is taken off first, as git does:
    so `a**/b` is `a`, then a `**` that stands at the beginning and crosses folders."""
    literal = re.match(rb"[^*?\[\\]*", pattern)
    at = start = literal.end() if literal else 0
    parts = [re.escape(pattern[:start])]
    while at < len(pattern):
        char = pattern[at:at + 1]
        if char == b"*":
            part, at = _stars(pattern, at, start)
        elif char == b"[":
            part, at = _bracket(pattern, at + 1)
        elif char == b"?":
            part, at = b"[^/]", at + 1
        else:
            if char == b"\\":
                at += 1
            if at == len(pattern):
                raise _NeverMatches
            part, at = re.escape(pattern[at:at + 1]), at + 1
        parts.append(part)
    return b"".join(parts)


def _stars(pattern: bytes, at: int, start: int) -> tuple[bytes, int]:
    end = at
    while pattern[end:end + 1] == b"*":
        end += 1
    rest = pattern[end:]
    own_segment = (at == start or pattern[at - 1:at] == b"/") and (not rest or rest.startswith((b"/", b"\\/")))
    if end - at == 1 or not own_segment:
        return b"[^/]*", end
    if rest.startswith(b"/"):
        return b"(?:.*/)?", end + 1
    return b".*", end


def _bracket(pattern: bytes, at: int) -> tuple[bytes, int]:
    """A set, from behind its `[`. Never matches a slash. Gives the expression and where the pattern goes on."""
    negated = pattern[at:at + 1] in (b"!", b"^")
    at += negated
    items: list[bytes] = []
    previous = b""
    first = True
    while first or pattern[at:at + 1] != b"]":
        first = False
        char = pattern[at:at + 1]
        if not char:
            raise _NeverMatches
        if char == b"-" and previous and pattern[at + 1:at + 2] not in (b"", b"]"):
            last, at = _member(pattern, at + 1)
            if previous <= last:
                items.append(_byte(previous) + b"-" + _byte(last))
            previous = b""
        elif char == b"[" and pattern[at + 1:at + 2] == b":":
            item, previous, at = _named_class(pattern, at)
            items.append(item)
        else:
            previous, at = _member(pattern, at)
            items.append(_byte(previous))
    inside = b"".join(items)
    if negated:
        return b"[^/" + inside + b"]", at + 1
    return (b"(?!/)[" + inside + b"]" if inside else b"(?!)"), at + 1


def _member(pattern: bytes, at: int) -> tuple[bytes, int]:
    if pattern[at:at + 1] == b"\\":
        at += 1
        if at == len(pattern):
            raise _NeverMatches
    return pattern[at:at + 1], at + 1


def _named_class(pattern: bytes, at: int) -> tuple[bytes, bytes, int]:
    """`[:alpha:]` at `at`, or a plain `[`. Gives the items, the byte a range may begin with, and where to go on."""
    close = pattern.find(b"]", at + 2)
    if close < 0:
        raise _NeverMatches
    if close - at - 3 < 0 or pattern[close - 1:close] != b":":
        return _byte(b"["), b"[", at + 1
    name = pattern[at + 2:close - 1]
    if name not in _CLASSES:
        raise _NeverMatches
    return _CLASSES[name], b"", close + 1


def _byte(char: bytes) -> bytes:
    return b"\\x%02x" % char[0]
