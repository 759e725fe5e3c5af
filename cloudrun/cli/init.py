"""`cloudrun init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cloudrun.i18n import _


def init(
    ctx: typer.Context,
    show: Annotated[bool, typer.Option("--show", help=_("Print it instead of writing it."), show_default=False)] = False,
) -> None:
    from cloudrun.app import init as use_case

    if show:
        typer.echo(use_case.example(), nl=False)
        return
    path = use_case.init(Path.cwd())
    ctx.obj.say(_("wrote {path}; write your run into it ([runs.NAME], at its end), then: cloudrun launch NAME").format(path=path))
