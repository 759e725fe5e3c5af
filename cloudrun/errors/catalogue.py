"""The shape of an entry. An error is a reference (code), a message, and a hint that says what to type next."""

from __future__ import annotations

from dataclasses import dataclass

from cloudrun.errors.exit_codes import Exit


@dataclass(frozen=True)
class Entry:
    """Templates in `str.format` syntax over the error's parameters; marked with `N_`, translated where shown."""

    exit_code: Exit
    message: str
    hint: str
