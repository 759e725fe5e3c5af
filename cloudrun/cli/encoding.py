"""What a terminal or a file cannot hold in its encoding is written as near as can be: it is no reason to fail."""

from __future__ import annotations

import codecs
import io
import sys

#: Signs of ours that ASCII, GBK or a Western code page lack.
_NEAR = {"✓": "+", "✗": "x", "×": "x", "→": "->", "…": "...", "–": "-", "•": "*"}
_HANDLER = "cloudrun-near"


def accept_every_letter() -> None:
    """From now on stdout and stderr take every letter."""
    codecs.register_error(_HANDLER, _near)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _near(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_NEAR.get(letter, "?") for letter in error.object[error.start:error.end]), error.end
