"""How command lines are read where typer's own way would misread what people type: `--` without a name, an unquoted paste."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable
from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

from cloudrun.cli.help import page
from cloudrun.errors import CloudrunError
from cloudrun.i18n import _

_LOGIN_PROGRAMS = ("ssh", "ssh.exe", "sshpass")


class Command(TyperCommand):
    """Every command of ours."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        spare_conversion(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        words = [param.metavar or str(param.name).upper() for param in self.params if param.param_type_name == "argument"]
        return ["[OPTIONS]", *words]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(page(ctx))


class Group(TyperGroup):
    """A command that has commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        spare_conversion(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def helps(self, ctx: Any) -> list[tuple[str, str]]:
        """Names and help of its commands."""
        return [(name, self.commands[name].help or "") for name in self.list_commands(ctx)]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)  # as they were written down, not by the alphabet

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(page(ctx, self.helps(ctx)))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if self.get_command(ctx, name) is None:
            words = _("there is no command {name!r}").format(name=name)
            near = difflib.get_close_matches(name, self.list_commands(ctx), 1)
            if near:
                words = _("there is no command {name!r}; near it: {near}").format(name=name, near=near[0])
            raise CloudrunError("usage", detail=words, command=ctx.command_path)
        return super().resolve_command(ctx, args)


def spare_conversion(params: list[Any]) -> None:
    """What was left out, and a word that is to be one, need no conversion; typer loads pydantic for it, which takes longer than
    all else that a command does here."""
    for param in params:
        if not isinstance(param.process_value, partial):
            param.process_value = partial(_processed, param, param.process_value)


def _processed(param: Any, usual: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    left_out = value is None and not param.required and param.nargs == 1 and not param.multiple
    is_word = type(value) is str and getattr(getattr(param, "type_descriptor", None), "annotation", None) is str
    if not left_out and not is_word:
        return usual(ctx, value)
    return value if param.callback is None else param.callback(ctx, param, value)


class LaunchCommand(Command):
    """`launch [OPTIONS] NAME [-- COMMAND...]`: the word after `--` is never the name."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", "NAME", "[-- COMMAND...]"]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args and not ctx.resilient_parsing:
            at = args.index("--")
            if not positionals(self, ctx, args[:at]):
                raise CloudrunError("launch-name-missing", command=shlex.join(args[at + 1 :]))
        return super().parse_args(ctx, args)


class TargetCommand(Command):
    """`host add NAME TARGET`, `host set NAME TARGET`: a login command may be pasted without its quotes.

    From the word `ssh` on everything is the target, except options that begin with `--`: ssh has none of these.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = _login_at(args)
        if at is None or at == len(args) - 1 or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        before = positionals(self, ctx, args[:at])
        if before == [] and args[at + 1].startswith("-"):
            login, _own = self._parted(ctx, args[at:])
            raise CloudrunError("host-name-missing", verb=self.name, login=shlex.join(login))
        if before is None or len(before) != 1:  # none: a host may be named ssh
            return super().parse_args(ctx, args)
        login, own = self._parted(ctx, args[at:])
        return super().parse_args(ctx, [*own, *args[:at], "--", shlex.join(login)])

    def _parted(self, ctx: Any, args: list[str]) -> tuple[list[str], list[str]]:
        """The login command, and the options of ours that stand among it or behind."""
        takes_value = {opt for param in self.get_params(ctx) if not getattr(param, "is_flag", False) for opt in param.opts}
        login: list[str] = []
        own: list[str] = []
        rest = list(args)
        while rest:
            word = rest.pop(0)
            if not word.startswith("--") or word == "--":
                login.append(word)
                continue
            own.append(word)
            if word in takes_value and rest:
                own.append(rest.pop(0))
        return login, own


def positionals(command: TyperCommand, ctx: Any, args: list[str]) -> list[str] | None:
    """The words of a part of a command line that are neither options nor their values; None where that cannot be told."""
    try:
        given, rest, _order = command.make_parser(ctx).parse_args(list(args))
    except Exception:  # a wrong option: typer's own reading of the whole line says it better
        return None
    words = [given.get(param.name) for param in command.get_params(ctx) if param.param_type_name == "argument"]
    return [str(word) for part in words for word in (part if isinstance(part, (list, tuple)) else [part]) if word] + list(rest)


def _login_at(args: list[str]) -> int | None:
    """Where an unquoted login command begins."""
    return next((at for at, word in enumerate(args) if word.rpartition("/")[2] in _LOGIN_PROGRAMS), None)
