"""The cards: as a table for people, and as JSON. What nobody could tell shows as n/a, never as 0."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cloudrun.app.gpu import HostGpus
from cloudrun.cli.render.doctor_words import found_words, gpu_check, hint_words
from cloudrun.cli.render.units import memory
from cloudrun.errors import CloudrunError, Exit
from cloudrun.i18n import _
from remote_agent import protocol

#: Below this use, with more than this part of its memory held, a card mostly waits for data.
_LITTLE_USE_PERCENT = 15
_MUCH_MEMORY = 0.3


def gpu_document(answer: HostGpus) -> dict[str, Any]:
    """The JSON of `gpu`, frozen by a test. Unknown is null, sizes are bytes."""
    return {
        "gpus": [
            {"host": answer.host, "index": card.index, "name": card.name, "utilization_percent": card.utilization_percent,
             "memory_used_bytes": card.memory_used_bytes, "memory_total_bytes": card.memory_total_bytes,
             "temperature_c": card.temperature_c, "power_w": card.power_w, "runs": card.runs}
            for card in answer.report.gpus
        ],
        "state": answer.report.state,
        "errors": [*([_error(answer)] if answer.broken else []), *([_runs_error(answer)] if answer.report.runs_unknown else [])],
    }


def gpu_view(answer: HostGpus) -> RenderableType:
    """The table, and beneath it what is worth knowing."""
    parts: list[RenderableType] = []
    if answer.report.gpus:
        parts.append(_table(answer.report.gpus))
    if answer.report.state != "ok":
        parts.extend(_state_lines(answer))
    parts.extend(Text(words, style="yellow") for words in map(starving_words, answer.report.gpus) if words)
    if answer.report.foreign_processes:
        parts.append(Text(_(
            "other processes than these runs' are on the cards (whose is not asked: in a container their numbers are not ours)"
        ), style="dim"))
    if answer.report.runs_unknown is not None:
        parts.append(Text(_("whose runs are on the cards is not known: {why}").format(
            why=_why_unknown(answer).message), style="yellow"))
    return Group(*parts)


def _why_unknown(answer: HostGpus) -> CloudrunError:
    unknown = answer.report.runs_unknown or {}
    params = unknown.get("params")
    return CloudrunError(str(unknown.get("code")), **{"host_name": answer.host, **(params if isinstance(params, dict) else {})})


def starving_words(card: protocol.Gpu) -> str:
    """A hint at the data loading where a card holds much memory and computes little; "" elsewhere and where unknown."""
    used, total, use = card.memory_used_bytes, card.memory_total_bytes, card.utilization_percent
    if used is None or not total or use is None or use >= _LITTLE_USE_PERCENT or used < _MUCH_MEMORY * total:
        return ""
    return _(
        "GPU {index}: {use:.0f} % use with {used} held. If it stays so, it waits for data: more DataLoader workers "
        "(num_workers), pin_memory=True, or the data set on the local disk"
    ).format(index=_or_na(card.index), use=use, used=memory(used))


def _table(cards: list[protocol.Gpu]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(_("GPU"), justify="right", no_wrap=True)
    table.add_column(_("NAME"), overflow="fold")
    for header in (_("USE"), _("MEMORY"), _("TEMP"), _("POWER")):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column(_("RUNS"), overflow="fold")
    for card in cards:
        table.add_row(
            _or_na(card.index), Text(card.name or _("n/a")), _measure(card.utilization_percent, "%"), _memory(card),
            _measure(card.temperature_c, "°C"), _measure(card.power_w, "W"), Text(", ".join(card.runs) or "-"),
        )
    return table


def _memory(card: protocol.Gpu) -> str:
    """`17.9 / 24.0 GiB`; each side may be unknown for itself."""
    used, total = memory(card.memory_used_bytes), memory(card.memory_total_bytes)
    if used == total == _("n/a"):
        return used
    number, _space, unit = used.partition(" ")
    return f"{number if unit and total.endswith(' ' + unit) else used} / {total}"


def _measure(value: float | None, unit: str) -> str:
    return _("n/a") if value is None else f"{value:.0f} {unit}"


def _or_na(value: int | None) -> str:
    return _("n/a") if value is None else str(value)


def _state_lines(answer: HostGpus) -> list[Text]:
    check = gpu_check(answer.report)
    hint = hint_words(check, answer.host, local=answer.local)
    lines = [Text(found_words(check, answer.host), style="bold red" if answer.broken else "yellow")]
    return [*lines, Text(_("try: ") + hint, style="dim")] if hint else lines


def _error(answer: HostGpus) -> dict[str, Any]:
    check = gpu_check(answer.report)
    return {
        "host": answer.host, "code": check.found, "message": found_words(check, answer.host),
        "hint": hint_words(check, answer.host, local=answer.local), "exit_code": int(Exit.BOX),
    }


def _runs_error(answer: HostGpus) -> dict[str, Any]:
    error = _why_unknown(answer)
    return {
        "host": answer.host, "code": error.code, "message": error.message, "hint": error.hint, "exit_code": int(error.exit_code),
    }
