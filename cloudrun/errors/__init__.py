"""Every error a user can meet: code, exit code, words. The words lie in a catalogue, one file per subject."""

from __future__ import annotations

from typing import Any

from cloudrun.errors.catalogue import Entry
from cloudrun.errors.exit_codes import Exit
from cloudrun.i18n import _

__all__ = ["CloudrunError", "Entry", "Exit"]


class CloudrunError(Exception):
    """What went wrong, as a code of the catalogue and its parameters; the words are made when they are asked for.

    Raise it with `from` where it translates another exception.
    """

    def __init__(self, code: str, **params: Any) -> None:
        super().__init__(code, params)
        self.code = code
        self.params = params

    @property
    def entry(self) -> Entry:
        from cloudrun.errors.assembled import CATALOGUE

        return CATALOGUE.get(self.code) or CATALOGUE["internal"]

    @property
    def exit_code(self) -> Exit:
        return self.entry.exit_code

    @property
    def message(self) -> str:
        return self._words(self.entry.message)

    @property
    def hint(self) -> str:
        return self._words(self.entry.hint)

    def _words(self, template: str) -> str:
        from cloudrun.errors.assembled import CATALOGUE
        from cloudrun.errors.shown import Shown

        params = self.params
        if self.code not in CATALOGUE:  # a newer agent may know codes that this laptop does not
            params = {"detail": f"{self.code} {self.params}"}
        return _(template).format_map(Shown(params)).rstrip()

    def __str__(self) -> str:
        return self.message
