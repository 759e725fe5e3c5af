"""`cloudrun rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cloudrun.cli.options import HostOption, JsonOption, NamedRunArgument, YesOption, flag
from cloudrun.i18n import _

if TYPE_CHECKING:
    from cloudrun.cli.context import Context


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
    with context.open(host) as box:
        found = find_run(box.client, box.host.data_dir, run)
        if not yes:
            context.say(_("{run} ({state}) on {host}: logs, outputs and checkpoints in {folder} would be deleted.").format(
                run=run, state=found.state, host=box.host.name, folder=found.run_dir))
            if code:
                context.say(_("Its code in ~/cloudrun/{project}/{run} too, with what was changed there.").format(
                    project=found.project, run=run))
            if not context.confirm(_("Delete them for good?")):
                raise CloudrunError("rm-declined", run=run)
        answer = remove_run(box.client, box.host.data_dir, run, code=code)
        if context.json:
            context.emit_json(answer)
        else:
            context.say(_("{run} is deleted").format(run=run))
            if answer.get("tree_kept"):
                context.say(_("its code stays on the box: {tree} (--code deletes it too)").format(tree=answer["tree_kept"]))
            elif code and answer.get("tree"):
                context.say(_("its code is deleted: {tree}").format(tree=answer["tree"]))
