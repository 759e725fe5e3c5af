"""`cloudrun gpu`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from cloudrun.cli.options import HostOption, JsonOption
from cloudrun.errors import Exit
from cloudrun.i18n import _

if TYPE_CHECKING:
    from cloudrun.agent.client import Question
    from cloudrun.app.gpu import HostGpus
    from cloudrun.cli.context import Box, Context


def gpu(
    ctx: typer.Context,
    host: HostOption = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help=_("Again every 2 s, until Ctrl-C."), show_default=False)] = False,
    json: JsonOption = False,
) -> int:
    context: Context = ctx.obj

    def asked() -> Question:
        from cloudrun.app.gpu import question

        return question(chosen.data_dir)

    def look(box: Box) -> HostGpus:
        from cloudrun.app.gpu import look_at_gpus

        found = look_at_gpus(box.client, box.host.name, box.host.data_dir)
        return replace(found, local=box.transport.address.is_local)

    chosen = context.host(host)
    if watch:
        from cloudrun.cli.render.gpu import gpu_view
        from cloudrun.cli.watch import watch as go_on

        return go_on(context, context.watched(chosen, look), lambda answer: _show(context, answer), gpu_view)
    with context.open_host(chosen, ahead=asked) as box:
        return _show(context, look(box))


def _show(context: Context, answer: HostGpus) -> int:
    from cloudrun.cli.render.gpu import gpu_document, gpu_view

    if context.json:
        context.emit_json(gpu_document(answer))
    else:
        context.out(gpu_view(answer))
    return int(Exit.BOX if answer.broken else Exit.OK)
