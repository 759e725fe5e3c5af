"""What a training may send to the user's terminal: text, colours, the movements that progress bars are made of.

Everything that acts on the terminal or makes it answer is taken out: titles, clipboard, queries, modes, character
sets, clearing the screen. A sequence that the end of a piece cuts is held until the rest comes. Text is never lost:
a sequence that is not finished where it should be gives its text back, without the control that began it.
"""

from __future__ import annotations

import re

#: A string sequence (title, clipboard, …) longer than this, or with a line end inside, is no sequence: it is text.
LONGEST_STRING = 4096
_LONGEST_PARAMETERS = 64

# C0 but tab, newline, return and backspace; delete; C1, which terminals take as sequences of one character.
_SPECIAL = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_CSI = re.compile(r"(?:\x1b\[|\x9b)(?P<body>[0-?]{0,64}[ -/]{0,8}(?P<final>[@-~]))")
_CSI_CUT = re.compile(r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}\Z")
_STRING = re.compile(r"(?:\x1b[\]PX^_k]|[\x90\x98\x9d-\x9f])[^\x00-\x08\x0a-\x1f\x7f-\x9f]{0,4096}(?:\x07|\x9c|\x1b\\)")
_STRING_CUT = re.compile(r"(?:\x1b[\]PX^_k]|[\x90\x98\x9d-\x9f])[^\x00-\x08\x0a-\x1f\x7f-\x9f]{0,4096}\x1b?\Z")
_STRING_START = re.compile(r"\x1b[\]PX^_k]|[\x90\x98\x9d-\x9f]")
_CSI_START = re.compile(r"\x1b\[|\x9b")
_OTHER = re.compile(r"\x1b[ -/]{0,8}[0-~]")
_OTHER_CUT = re.compile(r"\x1b[ -/]{0,8}\Z")
# Colours; cursor up, down, right, left, line starts, column; erase in line; erase below.
_ALLOWED = re.compile(r"[0-9;:]*m|[0-9]{0,3}[ABCDEFGK]|0?J")


class TerminalFilter:
    """Takes text in pieces, gives what may be shown; the cut between pieces makes no difference.

    With `plain` no sequence passes at all, and no control but tab, newline, return and backspace.
    """

    def __init__(self, *, plain: bool = False) -> None:
        self._plain = plain
        self._held = ""

    def feed(self, text: str) -> str:
        """What of this, and of what was held, can be shown now."""
        return self._pass(self._held + text, final=False)

    def flush(self) -> str:
        """The end: what was held is text."""
        return self._pass(self._held, final=True)

    def _pass(self, text: str, *, final: bool) -> str:
        out, at, self._held = [], 0, ""
        while True:
            special = _SPECIAL.search(text, at)
            if special is None:
                out.append(text[at:])
                return "".join(out)
            out.append(text[at:special.start()])
            at = special.start()
            if not final and _is_cut(text, at):
                self._held = text[at:]
                return "".join(out)
            shown, at = self._sequence(text, at)
            out.append(shown)

    def _sequence(self, text: str, at: int) -> tuple[str, int]:
        """What of the sequence at this place is shown, and where the text goes on."""
        found = _CSI.match(text, at)
        if found:
            allowed = not self._plain and _ALLOWED.fullmatch(found["body"])
            return ("\x1b[" + found["body"] if allowed else "", found.end())
        if not _CSI_START.match(text, at):
            found = _STRING.match(text, at)
            if found is None and not _STRING_START.match(text, at):
                found = _OTHER.match(text, at)
            if found:
                return "", found.end()
        return "", at + 1  # a control by itself, or the beginning of what is no sequence: the rest is text


def _is_cut(text: str, at: int) -> bool:
    """Whether the text ends inside a sequence that begins here."""
    return any(cut.match(text, at) for cut in (_CSI_CUT, _STRING_CUT, _OTHER_CUT))


def plain(text: str) -> str:
    """A whole text without any sequence."""
    whole = TerminalFilter(plain=True)
    return whole.feed(text) + whole.flush()


def last_state(line: str) -> str:
    """What of a line drawn over and over with `\\r` is left: the last state that says something."""
    if "\r" not in line:
        return line
    return next((state for state in reversed(line.split("\r")) if state), "")
