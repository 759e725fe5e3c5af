"""`cloudrun launch`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cloudrun.cli.options import HostOption, JsonOption, flag
from cloudrun.errors import CloudrunError, Exit
from cloudrun.i18n import _
from cloudrun.states import state_words

if TYPE_CHECKING:
    from cloudrun.app.launch import Options
    from cloudrun.cli.context import Box, Context
    from cloudrun.config.hosts import Host
    from cloudrun.project.compose import Draft
    from cloudrun.project.settings import Project
    from remote_agent import protocol


def launch(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=_("Run's name; a good one says task, model and date."), show_default=False)
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND...]", show_default=False,
            help=_("What to run, word by word; else [runs.NAME] in cloudrun.toml, else run.sh."),
        ),
    ] = None,
    host: HostOption = None,
    follow: Annotated[bool, flag("--follow", "-f", help=_("Go on into `logs -f`."))] = False,
    fresh: Annotated[bool, flag("--fresh", help=_("Begin anew: the old folder is put aside, nothing deleted."))] = False,
    dry_run: Annotated[bool, flag("--dry-run", help=_("Show what would be sent and run; change nothing."))] = False,
    workdir: Annotated[
        str | None, flag("--workdir", metavar="FOLDER", help=_("Where to run: inside the project, or absolute on the box."))
    ] = None,
    no_sync: Annotated[bool, flag("--no-sync", help=_("The code is on the box already (needs --workdir)."))] = False,
    env_file: Annotated[
        Path | None, flag("--env-file", metavar="FILE", help=_("NAME=value lines with secrets; kept 0600 on the box."))
    ] = None,
    backend: Annotated[
        str | None, flag("--backend", metavar="NAME", help=_("Session program: screen, tmux, detached or auto."))
    ] = None,
    allow_large: Annotated[bool, flag("--allow-large", help=_("Send more than 200 MB of code."))] = False,
    wait: Annotated[
        float,
        typer.Option("--wait", min=0, max=3600, metavar="SECONDS", help=_("How long a start that writes nothing is watched.")),
    ] = 5,
    no_install: Annotated[bool, flag("--no-install", help=_("Install no session program on the box."))] = False,
    json: JsonOption = False,
) -> int:
    from cloudrun.app.launch import Options
    from cloudrun.project.compose import Wanted, draft
    from cloudrun.project.settings import check_name, says_nothing

    context: Context = ctx.obj
    check_name(name)
    project = context.project()
    chosen = context.host(host)
    drafted = draft(project, Wanted(name, tuple(command or ()), workdir, env_file, backend, not no_sync), chosen.backend)
    options = Options(chosen.name, chosen.data_dir, fresh, allow_large, not no_install, wait)
    if dry_run:
        with context.open_host(chosen) as box:
            return _dry_run(context, box, project, drafted, options)
    if says_nothing(name) and not context.json:
        words = _("(a name like det_yolo11_1201, task_model_date, tells more in a month than {name})")
        context.say(words.format(name=name))
    launched = _launch(context, chosen, project, drafted, options)
    code = _report(context, chosen, launched)
    if follow and launched.outcome != "failed-at-once":
        from cloudrun.cli.logs import follow_run

        # What runs already may have said gigabytes: of that, the last lines.
        return follow_run(context, chosen, name, launched.run.attempt if launched.outcome == "started" else None)
    return code


def _launch(context: Context, host: Host, project: Project, drafted: Draft, options: Options) -> protocol.Launched:
    from cloudrun.app.launch import Told, launch
    from cloudrun.cli.render.launch import SendingBar, event_words

    def tell(event: dict[str, Any]) -> None:
        words = event_words(event)
        if words and not context.json:
            context.say(words)

    def ask(box: Box, _again: bool) -> protocol.Launched:
        with SendingBar(visible=not context.json) as bar:
            return launch(box.client, project, drafted, options, Told(tell, bar.sent))

    try:
        return context.surely(host, ask)
    except CloudrunError as error:
        if error.code == "outcome-unknown":
            raise CloudrunError("launch-unknown", run=drafted.name, host=options.host) from error
        raise


def _report(context: Context, host: Host, launched: protocol.Launched) -> int:
    """Says how it came out. A run that died at once is an error with its code and its last lines."""
    from cloudrun.cli.render.launch import launched_document, launched_words

    run = launched.run
    if launched.outcome == "failed-at-once":
        if not context.json and launched.tail:
            context.say(launched.tail.rstrip("\n"))
        raise CloudrunError("run-died", run=run.name, ending=_ending(run), tail=launched.tail or "")
    if context.json:
        context.emit_json(launched_document(launched, host.name))
    else:
        context.out(launched_words(launched, host.name, context.here, local=host.is_local))
    return int(Exit.OK)


def _ending(run: protocol.RunInfo) -> str:
    from cloudrun.cli.render.causes import cause_words

    words = cause_words(run) or state_words(run.state)
    return _("{words} (attempt {n}, in the folder it had)").format(words=words, n=run.attempt) if run.attempt > 1 else words


def _dry_run(context: Context, box: Box, project: Project, drafted: Draft, options: Options) -> int:
    from cloudrun.app.launch import plan
    from cloudrun.cli.render.plan import plan_document, plan_words

    planned = plan(box.client, project, drafted, options)
    if context.json:
        context.emit_json(plan_document(planned))
    else:
        for part in plan_words(planned):
            context.out(part)
    return int(Exit.OK)
