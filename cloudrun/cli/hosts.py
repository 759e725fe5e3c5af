"""`cloudrun host …`."""

from __future__ import annotations

import getpass
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloudrun.cli.commands import COMMANDS
from cloudrun.cli.context import Dialling, naming
from cloudrun.cli.options import JsonOption, YesOption
from cloudrun.cli.parsing import Command, Group, TargetCommand
from cloudrun.errors import CloudrunError, Exit
from cloudrun.i18n import _

if TYPE_CHECKING:
    from cloudrun.app.entering import Trial
    from cloudrun.app.hosts import Stored
    from cloudrun.cli.context import Context
    from cloudrun.config.hosts import Host
    from cloudrun.transport.base import Secret, Transport

#: What leaves a box unopened though its password was at hand, or wanted: a script has to see that.
NOT_ENTERED = (
    "password-wanted", "password-wrong", "keys-refused", "key-not-installed", "key-not-taken", "key-not-taken-modes",
)
#: The first try tells soon: the box may simply be off.
TRY_TIMEOUT_S = 8.0

app = typer.Typer(help=_(COMMANDS["host"].help), cls=Group, no_args_is_help=True, add_completion=False)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help=_("The host's name."), show_default=False)]
KeyOption = Annotated[
    str | None, typer.Option("--key", "-i", metavar="FILE", help=_("Private key that opens it."), show_default=False)
]
DataDirOption = Annotated[
    str | None,
    typer.Option("--data-dir", metavar="DIR", help=_("Data disk on the box (else it is looked for)."), show_default=False),
]
BackendOption = Annotated[
    str | None,
    typer.Option("--backend", metavar="NAME", help=_("screen, tmux, detached or auto (prefers screen)."), show_default=False),
]
PythonOption = Annotated[
    str | None,
    typer.Option("--python", metavar="PATH", help=_("Python on the box (else it is looked for)."), show_default=False),
]
PasswordOption = Annotated[
    bool, typer.Option("--password-stdin", help=_("Take the box's password from stdin, instead of asking."), show_default=False)
]
NoConnectOption = Annotated[bool, typer.Option("--no-connect", help=_("Store it without trying it."), show_default=False)]
AcceptNewOption = Annotated[
    bool, typer.Option("--accept-new", help=_("Accept its host key unseen, at first contact (for scripts)."), show_default=False)
]


@app.command("add", cls=TargetCommand, help=_(
    "Store a box and try it once.\n\nIts host key is shown and asked, and its password where no key opens it: that is used "
    "once, to put a key of cloudrun's own on the box. A box that cannot be reached now is stored all the same."
))
def add(
    ctx: typer.Context,
    name: NameArgument,
    target: Annotated[str, typer.Argument(
        metavar="TARGET", show_default=False,
        help=_("The login command from the instance's page in quotes, user@host:port, a name of ~/.ssh/config, or local."),
    )],
    key: KeyOption = None,
    data_dir: DataDirOption = None,
    backend: BackendOption = None,
    python: PythonOption = None,
    password_stdin: PasswordOption = False,
    accept_new: AcceptNewOption = False,
    no_connect: NoConnectOption = False,
    json: JsonOption = False,
) -> None:
    from cloudrun.app.hosts import Wanted, add_host

    trial = None if no_connect else _trial(ctx.obj, Dialling(accept_new, TRY_TIMEOUT_S, password=_given(password_stdin)))
    with naming(name):
        stored = add_host(name, Wanted(target, key, data_dir, backend, python), trial)
    _told(ctx.obj, stored)


@app.command("set", cls=TargetCommand, help=_(
    "Change what is given of a host, keep the rest.\n\nAn empty value (\"\") takes a setting away. A new address, key or "
    "password is tried at once, as with `host add`."
))
def set_(
    ctx: typer.Context,
    name: NameArgument,
    target: Annotated[
        str | None, typer.Argument(metavar="[TARGET]", help=_("The new login command or address."), show_default=False)
    ] = None,
    key: KeyOption = None,
    data_dir: DataDirOption = None,
    backend: BackendOption = None,
    python: PythonOption = None,
    password_stdin: PasswordOption = False,
    accept_new: AcceptNewOption = False,
    no_connect: NoConnectOption = False,
    json: JsonOption = False,
) -> None:
    from cloudrun.app.hosts import Wanted, known_as, set_host

    trial = None
    if (target is not None or key or password_stdin) and not no_connect:
        how = Dialling(accept_new, TRY_TIMEOUT_S, known_as=known_as(name), password=_given(password_stdin))
        trial = _trial(ctx.obj, how)
    with naming(name, verb="set"):
        stored = set_host(name, Wanted(target, key, data_dir, backend, python), trial)
    _told(ctx.obj, stored)


def _given(from_stdin: bool) -> Secret | None:
    """The password on stdin: one line. Raises CloudrunError where none comes."""
    from cloudrun.transport.base import Secret

    if not from_stdin:
        return None
    if sys.stdin.isatty():
        return Secret(getpass.getpass(_("password of the box: "), stream=sys.stderr))
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise CloudrunError("password-empty")
    return Secret(line)


def _trial(context: Context, how: Dialling) -> Trial:
    from cloudrun.app.entering import Trial
    from cloudrun.config import paths

    def connect(host: Host) -> Transport:
        """Called when the host is stored: who is told of a key that is not trusted must know that."""
        try:
            return context.connect(host, how)
        except CloudrunError as error:
            if error.exit_code in (Exit.HOST_KEY_UNKNOWN, Exit.HOST_KEY_CHANGED):
                context.say(_("host {name}: {target}").format(name=host.name, target=host.target))
                context.say(_("It is stored, but its host key is not trusted yet."))
            raise

    def prove(host: Host, key: Path) -> Transport:
        return context.connect(host, replace(how, password=None, only_key=key))

    def forget() -> None:
        context.forget_typed()
        if how.password is not None:
            how.password.forget()

    return Trial(connect, prove, paths.own_key_file(), forget)


def _told(context: Context, stored: Stored) -> None:
    from cloudrun.app.hosts import document

    for note in stored.notes:
        context.say(note)
    problem = stored.problem
    if context.json:
        context.emit_json({
            "host": document(stored.host, None), "reached": stored.reached,
            "problem": None if problem is None else {"code": problem.code, "message": problem.message, "hint": problem.hint},
            "own_key": None if stored.own_key.key is None else {"file": str(stored.own_key.key), "added": stored.own_key.added},
        })
    else:
        _told_to_people(context, stored)
    if problem is not None and problem.code in NOT_ENTERED:
        raise typer.Exit(int(problem.exit_code))


def _told_to_people(context: Context, stored: Stored) -> None:
    context.say(_("host {name}: {target}").format(name=stored.host.name, target=stored.host.target))
    if stored.problem is not None:
        context.say(_("It is stored, but the first try failed: {message}").format(message=stored.problem.message))
        context.say(stored.problem.hint)
    if stored.own_key.added:
        context.say(_("One line was added to ~/.ssh/authorized_keys there: cloudrun's own key opens the box from now on, "
                      "and the password is forgotten."))
    elif stored.own_key.key is not None:
        context.say(_("cloudrun's own key opens the box; the password is forgotten."))
    if stored.reached:
        context.say(_("It answers. Next: cloudrun doctor --host {name}").format(name=stored.host.name))


@app.command("ls", cls=Command, help=_("List the hosts; the chosen one has a star."))
def ls(ctx: typer.Context, json: JsonOption = False) -> None:
    from cloudrun.app.hosts import document, list_hosts

    context: Context = ctx.obj
    hosts, default = list_hosts()
    if context.json:
        context.emit_json({"hosts": [document(host, default) for host in hosts]})
        return
    if not hosts:
        context.say(_("no hosts yet; add one: cloudrun host add box \"ssh -p PORT USER@HOST\""))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("", _("name"), _("target"), _("data disk"), _("backend")):
        table.add_column(heading, overflow="fold")
    for host in hosts:
        table.add_row("*" if host.name == default else "", host.name, host.target, host.data_dir or "", host.backend)
    context.out(table)


@app.command("show", cls=Command, help=_(
    "Show a host.\n\nWhat is stored, and where that leads by the ssh configuration."
))
def show(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help=_("Left out: the host that is meant."), show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    from cloudrun.app.hosts import list_hosts, show_host

    context: Context = ctx.obj
    shown = show_host(context.host(name), list_hosts()[1])
    if context.json:
        context.emit_json({"host": shown})
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for key, value in {**shown, **shown["address"]}.items():
        if key != "address" and value not in (None, [], False):
            table.add_row(key, _plain(value))
    context.out(table)


def _plain(value: object) -> str:
    if isinstance(value, list):
        return "\n".join(f"{one['fingerprint']} ({one['type']})" if isinstance(one, dict) else str(one) for one in value)
    return _("yes") if value is True else str(value)


@app.command("use", cls=Command, help=_("Choose the host that is meant where nothing else says."))
def use(ctx: typer.Context, name: NameArgument, json: JsonOption = False) -> None:
    from cloudrun.app.hosts import document, use_host

    context: Context = ctx.obj
    host = use_host(name)
    if context.json:
        context.emit_json({"host": document(host, name)})
    else:
        context.say(_("{name} is the chosen host now").format(name=name))


@app.command("rm", cls=Command, help=_("Forget a host.\n\nNothing on the box is touched; its runs go on."))
def rm(ctx: typer.Context, name: NameArgument, yes: YesOption = False, json: JsonOption = False) -> None:
    from cloudrun.app.hosts import remove_host

    context: Context = ctx.obj
    if not yes and not context.confirm(_("Forget the host {name}? Its runs stay as they are.").format(name=name)):
        raise CloudrunError("host-rm-declined", name=name)
    host = remove_host(name)
    if context.json:
        context.emit_json({"removed": host.name})
    else:
        context.say(_("{name} is forgotten; what is on the box stays").format(name=name))


@app.command("trust", cls=Command, help=_(
    "Trust the host key that a box shows now.\n\nIt replaces the known one of that box alone (it was made anew). Asks, with both "
    "fingerprints."
))
def trust(
    ctx: typer.Context,
    where: Annotated[str, typer.Argument(metavar="NAME", help=_("A host's name, or its [address]:port."), show_default=False)],
    fingerprint: Annotated[
        str | None, typer.Option("--fingerprint", metavar="SHA256:…", show_default=False,
                                 help=_("Trust the key with this fingerprint, and no other, without asking (for scripts)."))
    ] = None,
    accept_new: AcceptNewOption = False,
    json: JsonOption = False,
) -> None:
    from cloudrun.app.hosts import document, trusted

    context: Context = ctx.obj
    host, name = trusted(where)
    try:
        context.connect(host, Dialling(accept_new, replace_key_of=name, fingerprint=fingerprint)).close()
    except CloudrunError as error:
        if error.code != "host-key-refused":
            raise
        raise CloudrunError("trust-declined", **error.params) from error
    if context.json:
        context.emit_json({"host": document(host, None), "trusted": name})
    else:
        context.say(_("the host key of {name} is known now").format(name=name))
