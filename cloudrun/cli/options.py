"""Options and arguments that several commands share: one wording, one meaning."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cloudrun.i18n import _


def _json_chosen(ctx: typer.Context, value: bool) -> bool:
    if value and ctx.obj is not None:
        ctx.obj.json = True
    return value


def flag(*names: str, **settings: Any) -> Any:
    """An option whose default says nothing worth showing."""
    return typer.Option(*names, show_default=False, **settings)


HostOption = Annotated[
    str | None,
    flag("--host", "-H", metavar="NAME", help=_("Host to use (else CLOUDRUN_HOST, cloudrun.toml, `host use`, the only one).")),
]
JsonOption = Annotated[
    bool, flag("--json", callback=_json_chosen, help=_("One JSON document on stdout, nothing else.")),
]
RunArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]", help=_("Run's name; left out: this project's newest live run, else its newest."), show_default=False
    ),
]
NamedRunArgument = Annotated[str, typer.Argument(metavar="RUN", help=_("Run's name, exactly."), show_default=False)]
YesOption = Annotated[bool, flag("--yes", "-y", help=_("Do not ask."))]
