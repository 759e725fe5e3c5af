"""`cloudrun stop`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cloudrun.cli.options import HostOption, JsonOption, NamedRunArgument
from cloudrun.i18n import _
from cloudrun.states import state_words

if TYPE_CHECKING:
    from cloudrun.app.runs import Stopped
    from cloudrun.cli.context import Box, Context


def stop(
    ctx: typer.Context,
    run: NamedRunArgument,
    grace: Annotated[float, typer.Option("--grace", min=0, max=86400, metavar="SECONDS",
                                         help=_("Time between the polite signal and the kill."))] = 30,
    host: HostOption = None,
    json: JsonOption = False,
) -> None:
    from cloudrun.app.runs import run_document, stop_run

    context: Context = ctx.obj

    def tell(event: dict[str, Any]) -> None:
        if not context.json:
            context.say(_words(event, grace))

    def ask(box: Box, again: bool) -> Stopped:
        stopped = stop_run(box.client, box.host.data_dir, run, grace, tell)
        # Asked again after a lost answer: that it is stopped now is what was asked for.
        return replace(stopped, already=stopped.already and not (again and stopped.run.state == "stopped"))

    chosen = context.host(host)
    stopped = context.surely(chosen, ask)
    if context.json:
        context.emit_json({**run_document(stopped.run, chosen.name), "already": stopped.already})
    elif stopped.already:
        context.say(_("{run} was not running: it is {state}").format(run=run, state=state_words(stopped.run.state)))
    else:
        words = _("{run} is stopped and nothing of it is left; the same `cloudrun launch {run} …` as before starts it again")
        context.say(context.here(words.format(run=run)))


def _words(event: dict[str, Any], grace_s: float) -> str:
    """A line for an event of the box."""
    if event.get("event") == "stop-not-written":
        return _("the wish to stop could not be written on the box ({reason}); stopping all the same").format(
            reason=event.get("reason", "?"))
    waited = event.get("waited_s")
    if waited:
        return _("still ending, {waited:.0f} s of {grace:.0f} s of grace").format(waited=waited, grace=grace_s)
    return _("stopping: SIGTERM sent, up to {grace:.0f} s of grace").format(grace=grace_s)
