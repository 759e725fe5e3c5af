"""`cloudrun rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cloudrun.cli.options import HostOption, JsonOption, NamedRunArgument, YesOption, flag
from cloudrun.i18n import _
from cloudrun.states import state_words

if TYPE_CHECKING:
    from cloudrun.cli.context import Box, Context
    from remote_agent.protocol import RunInfo


def rm(
    ctx: typer.Context,
    run: NamedRunArgument,
    code: Annotated[bool, flag("--code", help=_("Its code on the box too."))] = False,
    yes: YesOption = False,
    host: HostOption = None,
    json: JsonOption = False,
) -> None:
    from cloudrun.app.runs import find_run, remove_run
    from cloudrun.errors import CloudrunError

    context: Context = ctx.obj
    chosen = context.host(host)

    def ask(box: Box, again: bool) -> dict[str, Any]:
        data_dir = chosen.data_dir
        try:
            if not again:
                _agreed(context, chosen.name, find_run(box.client, data_dir, run), code=code, yes=yes)
            return remove_run(box.client, data_dir, run, code=code)
        except CloudrunError as error:
            if again and error.code == "no-such-run":  # done, and the answer got lost
                return {"run": run, "run_dir": None, "tree": None, "tree_kept": None}
            raise

    answer = context.surely(chosen, ask)
    if context.json:
        context.emit_json(answer)
        return
    context.say(_("{run} is deleted").format(run=run))
    if answer.get("tree_kept"):
        context.say(_("its code stays on the box: {tree} (--code deletes it too)").format(tree=answer["tree_kept"]))
    elif code and answer.get("tree"):
        context.say(_("its code is deleted: {tree}").format(tree=answer["tree"]))


def _agreed(context: Context, host: str, found: RunInfo, *, code: bool, yes: bool) -> None:
    """Says what would be lost and asks. Raises CloudrunError where the answer is no."""
    from cloudrun.errors import CloudrunError

    if yes:
        return
    context.say(_("{run} ({state}) on {host}: logs, outputs and checkpoints in {folder} would be deleted.").format(
        run=found.name, state=state_words(found.state), host=host, folder=found.run_dir))
    if code:
        context.say(_("Its code in ~/cloudrun/{project}/{run} too, with what was changed there.").format(
            project=found.project, run=found.name))
    if not context.confirm(_("Delete them for good?")):
        raise CloudrunError("rm-declined", run=found.name)
