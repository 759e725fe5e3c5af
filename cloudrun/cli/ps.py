"""`cloudrun ps`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cloudrun.cli.options import HostOption, JsonOption, flag
from cloudrun.errors import CloudrunError
from cloudrun.i18n import _

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cloudrun.agent.client import Question
    from cloudrun.app.runs import HostRuns
    from cloudrun.cli.context import Box, Context
    from cloudrun.config.hosts import Host

#: One dead host among many must not hold the others up for long.
ALL_HOSTS_TIMEOUT_S = 8.0


def ps(
    ctx: typer.Context,
    host: HostOption = None,
    all_hosts: Annotated[bool, flag("--all-hosts", "-a", help=_("All hosts, side by side."))] = False,
    watch: Annotated[bool, flag("--watch", "-w", help=_("Again every 2 s, until Ctrl-C."))] = False,
    archived: Annotated[bool, flag("--archived", help=_("Also runs that --fresh put aside."))] = False,
    json: JsonOption = False,
) -> int:
    context: Context = ctx.obj
    if all_hosts:
        if watch:
            return _watch(context, _all_again(context, archived), with_host=True)
        return _show_once(context, _ask_all(context, archived), with_host=True)

    def ask(box: Box) -> list[HostRuns]:
        return [_list(box, archived)]

    chosen = context.host(host)
    if watch:
        return _watch(context, context.watched(chosen, ask), with_host=False)
    with context.open_host(chosen, ahead=partial(_question, chosen, archived)) as box:
        return _show_once(context, ask(box), with_host=False)


def _ask_all(context: Context, archived: bool) -> list[HostRuns]:
    from cloudrun.app.runs import side_by_side
    from cloudrun.config.hosts import load_hosts

    hosts = {host.name: host for host in load_hosts()}

    def ask(name: str) -> HostRuns:
        asked = partial(_question, hosts[name], archived)
        with context.open_host(hosts[name], timeout_s=ALL_HOSTS_TIMEOUT_S, ahead=asked) as box:
            return _list(box, archived)

    return side_by_side(list(hosts), ask)


def _question(host: Host, archived: bool) -> Question:
    from cloudrun.app.runs import question

    return question(host.data_dir, archived=archived)


def _list(box: Box, archived: bool) -> HostRuns:
    from cloudrun.app.runs import list_runs

    return list_runs(box.client, box.host.name, box.host.data_dir, archived=archived)


def _all_again(context: Context, archived: bool) -> Iterator[list[HostRuns]]:
    while True:
        yield _ask_all(context, archived)


def _watch(context: Context, answers: Iterator[list[HostRuns]], with_host: bool) -> int:
    from cloudrun.cli.watch import watch

    return watch(context, answers, lambda answer: _show_once(context, answer, with_host), lambda answer: _view(answer, with_host))


def _view(answers: list[HostRuns], with_host: bool) -> RenderableType:
    """The table, and a line for each host that gave none."""
    from rich.console import Group
    from rich.text import Text

    from cloudrun.cli.render.runs import RunsTable

    silent = [Text(f"{answer.host}: {answer.error.message}") for answer in answers if answer.error]
    return Group(RunsTable(answers, with_host=with_host), *silent)


def _show_once(context: Context, answers: list[HostRuns], with_host: bool) -> int:
    from cloudrun.app.runs import ps_document
    from cloudrun.cli.render.runs import RunsTable

    errors = [answer.error for answer in answers if answer.error]
    if context.json:
        context.emit_json(ps_document(answers))
        return _worst(errors, len(answers))
    if any(answer.runs for answer in answers):
        context.out(RunsTable(answers, with_host=with_host))
    elif len(errors) < len(answers):
        context.say(_("no runs yet; start one: cloudrun launch NAME -- python train.py"))
    for answer in answers:
        if answer.error:
            context.say(f"{answer.host}: {answer.error.message}")
    return _worst(errors, len(answers))


def _worst(errors: list[CloudrunError], asked: int) -> int:
    """All hosts failed: the first one's code. Some answered: that is an answer."""
    return int(errors[0].exit_code) if errors and len(errors) == asked else 0
