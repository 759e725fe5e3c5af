"""The doctor's findings: as lines for people, and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cloudrun.app.doctor import Examination
from cloudrun.cli.render.doctor_words import found_words, hint_words, name_words
from cloudrun.i18n import _

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failure": ("✗", "bold red")}


def doctor_document(examination: Examination) -> dict[str, Any]:
    """The JSON of `doctor`, frozen by a test."""
    return {
        "host": examination.host,
        "checks": [
            {"name": check.name, "status": check.status, "found": found_words(check, examination.host),
             "hint": hint_words(check, examination.host, local=examination.local)}
            for check in examination.checks
        ],
    }


def doctor_lines(examination: Examination) -> RenderableType:
    """One line per check; below one that is not well, what to type."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in examination.checks:
        mark, style = _MARKS.get(check.status, ("?", "bold"))
        body = Text(found_words(check, examination.host))
        hint = hint_words(check, examination.host, local=examination.local)
        if hint:
            body.append("\n" + _("try: ") + hint, style="dim")
        table.add_row(Text(mark, style=style), Text(name_words(check), style="bold"), body)
    return table
