"""Quoting for bash, in the one place where it happens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cloudrun.errors import CloudrunError

_PLAIN = re.compile(r"[A-Za-z0-9@%_+=:,./-]+\Z")
#: As the first word `a=b` would be an assignment, `%1` a job and `+x` no program's name worth a risk.
_PLAIN_FIRST = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9@_+:,./-]*\Z")
_RESERVED = frozenset((
    "if", "then", "elif", "else", "fi", "time", "for", "in", "until", "while", "do", "done", "case", "esac", "coproc",
    "select", "function",
))


def shell_word(value: str) -> str:
    """One word for bash that is exactly `value`, whatever stands in it. Raises CloudrunError("nul-character")."""
    return value if _PLAIN.match(value) else _quoted(value)


def shell_command(argv: Sequence[str]) -> str:
    """Bash text that runs exactly this argv."""
    program, *arguments = argv
    plain = _PLAIN_FIRST.match(program) and program not in _RESERVED
    return " ".join([program if plain else _quoted(program), *map(shell_word, arguments)])


def heredoc_delimiter(text: str) -> str:
    """A word that stands nowhere in the text, so that no line of it can end the here-document."""
    delimiter = "CLOUDRUN_TEXT"
    number = 1
    while delimiter in text:
        number += 1
        delimiter = f"CLOUDRUN_TEXT_{number}"
    return delimiter


def _quoted(value: str) -> str:
    if "\0" in value:
        raise CloudrunError("nul-character", value=value.replace("\0", "\\0"))
    return "'" + value.replace("'", "'\\''") + "'"
