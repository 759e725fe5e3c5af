"""`cloudrun gpu`."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from cloudrun.cli.options import HostOption, JsonOption
from cloudrun.errors import Exit
from cloudrun.i18n import _

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudrun.app.gpu import HostGpus
    from cloudrun.cli.context import Box, Context

WATCH_INTERVAL_S = 2.0


def gpu(
    ctx: typer.Context,
    host: HostOption = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help=_("Again every 2 s, until Ctrl-C."), show_default=False)] = False,
    json: JsonOption = False,
) -> int:
    """Show the GPUs: use, memory, temperature, power, and which run is on which."""
    from cloudrun.app.gpu import look_at_gpus

    context: Context = ctx.obj

    def look(box: Box) -> HostGpus:
        found = look_at_gpus(box.client, box.host.name, box.host.data_dir)
        return replace(found, local=box.transport.address.is_local)

    if watch:
        return _watch(context, context.watched(context.host(host), look))
    with context.open(host) as box:
        return _show(context, look(box))


def _show(context: Context, answer: HostGpus) -> int:
    from cloudrun.cli.render.gpu import gpu_document, gpu_view

    if context.json:
        context.emit_json(gpu_document(answer))
    else:
        context.out(gpu_view(answer))
    return int(Exit.BOX if answer.broken else Exit.OK)


def _watch(context: Context, answers: Iterator[HostGpus]) -> int:
    """Redraws in place on a terminal; into a pipe, and with --json, one answer after the other. Leaving it is no failure."""
    import sys

    from rich.live import Live

    from cloudrun.cli.render.gpu import gpu_view

    try:
        if context.json or not sys.stdout.isatty():
            for answer in answers:
                _show(context, answer)
                time.sleep(WATCH_INTERVAL_S)
        with Live(gpu_view(next(answers)), auto_refresh=False) as live:
            for answer in answers:
                live.update(gpu_view(answer), refresh=True)
                time.sleep(WATCH_INTERVAL_S)
    except KeyboardInterrupt:
        pass
    return int(Exit.OK)
