"""The doctor's findings: as lines for people, and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cloudrun.app.doctor import Examination
from cloudrun.cli.render.doctor_words import found_words, hint_words, name_words
from cloudrun.i18n import N_, _
from remote_agent.protocol import Check

#: Sign, word and colour: each of the first two says it alone.
_MARKS = {
    "ok": ("✓", N_("ok"), "green"), "warning": ("!", N_("warning"), "bold yellow"), "failure": ("✗", N_("failure"), "bold red"),
}
Here = Callable[[str], str]


def doctor_document(examination: Examination, here: Here = str) -> dict[str, Any]:
    """The JSON of `doctor`, frozen by a test. `here` makes a hint's commands go to the host that was meant."""
    return {
        "host": examination.host,
        "status": examination.worst,
        "checks": [
            {"name": check.name, "status": check.status, "code": check.found, "found": found_words(check, examination.host),
             "hint": _hint(check, examination, here), "params": check.params}
            for check in examination.checks
        ],
    }


def doctor_lines(examination: Examination, here: Here = str) -> RenderableType:
    """One line per check; below one that is not well, what to type. The end, which is what one sees first, says the worst."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in examination.checks:
        sign, word, style = _MARKS.get(check.status, ("?", check.status, "bold"))
        body = Text(found_words(check, examination.host))
        hint = _hint(check, examination, here)
        if hint:
            body.append("\n" + _("try: ") + hint, style="dim")
        table.add_row(Text(f"{sign} {_(word)}", style=style), Text(name_words(check), style="bold"), body)
    return Group(table, Text(), _closing(examination, here))


def _closing(examination: Examination, here: Here) -> Text:
    """The worst line once more, with what to type first."""
    failures = [check for check in examination.checks if check.status == "failure"]
    warnings = [check for check in examination.checks if check.status == "warning"]
    sign, _word, style = _MARKS[examination.worst]
    text = Text(f"{sign} {_summary(examination, len(failures), len(warnings))}", style=style)
    for check in [*failures, *warnings][:1]:
        told = _("first: {name}: {found}").format(name=name_words(check), found=found_words(check, examination.host))
        text.append("\n" + told, style="default not bold")
        hint = _hint(check, examination, here)
        if hint:
            text.append("\n" + _("try: ") + hint, style="bold default")
    return text


def _summary(examination: Examination, failures: int, warnings: int) -> str:
    if failures:
        words = _("{host}: {failures} × failure, {warnings} × warning, {well} × ok, in {took_s:.1f} s")
    elif warnings:
        words = _("{host}: no failure, {warnings} × warning, {well} × ok, in {took_s:.1f} s")
    else:
        words = _("{host}: all is well, {well} × ok, in {took_s:.1f} s")
    well = len(examination.checks) - failures - warnings
    return words.format(host=examination.host, failures=failures, warnings=warnings, well=well, took_s=examination.took_s)


def _hint(check: Check, examination: Examination, here: Here) -> str | None:
    hint = hint_words(check, examination.host, local=examination.local)
    return here(hint) if hint else None
