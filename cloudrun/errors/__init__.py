"""Every error a user can meet: code, exit code, words. The catalogue is assembled from one file per subject."""

from __future__ import annotations

from typing import Any

from cloudrun.errors import agent, box, general, hosts, project, runs, transport
from cloudrun.errors.catalogue import Entry
from cloudrun.errors.exit_codes import Exit
from cloudrun.errors.shown import Shown
from cloudrun.i18n import _

__all__ = ["CATALOGUE", "CloudrunError", "Entry", "Exit"]


def _assemble() -> dict[str, Entry]:
    whole: dict[str, Entry] = {}
    for part in (general, hosts, transport, agent, project, runs, box):
        twice = whole.keys() & part.ENTRIES.keys()
        if twice:
            raise AssertionError(f"error codes defined twice: {sorted(twice)}")
        whole.update(part.ENTRIES)
    return whole


CATALOGUE = _assemble()


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
        params = self.params
        if self.code not in CATALOGUE:  # a newer agent may know codes that this laptop does not
            params = {"detail": f"{self.code} {self.params}"}
        return _(template).format_map(Shown(params)).rstrip()

    def __str__(self) -> str:
        return self.message
