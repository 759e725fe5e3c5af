"""Text in columns: how many cells a letter takes, and lines broken where each language breaks them."""

from __future__ import annotations

import unicodedata

#: What may not begin a line in Chinese.
_CLOSING = "，。；：、！？）》」』”’…"


def cells(text: str) -> int:
    """Columns that the text takes on a terminal: a Chinese letter takes two."""
    return sum(map(_cell, text))


def _cell(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells, broken at blanks and between wide letters; a longer word stands alone."""
    lines, line = [], ""
    for piece in _pieces(text):
        if line and cells(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece if line else piece.lstrip()
    return [*lines, line.rstrip()]


def _pieces(text: str) -> list[str]:
    """What may not be broken within: a word with the blank behind it, a wide letter with the closing signs behind it."""
    pieces: list[str] = []
    for letter in text.replace("\n", " "):
        last = pieces[-1] if pieces else " "
        joined = letter == " " or letter in _CLOSING or not (last.endswith(" ") or _cell(letter) == 2 or _cell(last[-1]) == 2)
        if pieces and joined:
            pieces[-1] += letter
        else:
            pieces.append(letter)
    return pieces
