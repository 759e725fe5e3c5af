"""The page that `--help` shows. Plain text of our own: rich takes longer to import than the page takes to be read."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import Any

from cloudrun.cli.widths import cells, wrapped
from cloudrun.i18n import N_, _

MOST_COLUMNS = 100
#: Names wider than this stand on a line of their own.
WIDEST_NAME = 28
#: Options that typer adds itself, in words that can be translated.
_TYPERS = {
    "help": N_("Show this page."),
    "install_completion": N_("Install completion for the shell in use."),
    "show_completion": N_("Show that completion, to copy or change it."),
}


def page(ctx: Any, commands: Iterable[tuple[str, str]] = ()) -> str:
    """The whole page of a command. `commands`: names and help of a group's own."""
    command = ctx.command
    width = min(shutil.get_terminal_size((80, 24)).columns, MOST_COLUMNS)
    usage = _bold(_("Usage: ")) + " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    parts = [usage, *_paragraphs(command.help or "", width)]
    params = command.get_params(ctx)
    parts += _table(_("Commands:"), [(name, _first(words)) for name, words in commands], width)
    parts += _table(_("Arguments:"), [_record(one) for one in params if one.param_type_name == "argument"], width)
    parts += _table(_("Options:"), [_record(one) for one in params if one.param_type_name == "option"], width)
    parts += _paragraphs(command.epilog or "", width)
    return "\n\n".join(parts)


def _paragraphs(text: str, width: int) -> list[str]:
    return ["\n".join("  " + line for line in wrapped(part, width - 4)) for part in text.split("\n\n") if part.strip()]


def _first(text: str) -> str:
    return text.split("\n\n")[0]


def _table(heading: str, rows: list[tuple[str, str]], width: int) -> list[str]:
    """A heading and two columns; none where there are no rows."""
    if not rows:
        return []
    first = min(WIDEST_NAME, max(cells(name) for name, _words in rows))
    lines = [_bold(heading)]
    for name, words in rows:
        told = wrapped(words, max(20, width - first - 6))
        if cells(name) > first:
            lines.append(f"  {name}")
            name = ""
        lines.append(f"  {name}{' ' * (first - cells(name))}  {told[0]}".rstrip())
        lines += [" " * (first + 4) + line for line in told[1:]]
    return ["\n".join(lines)]


def _record(param: Any) -> tuple[str, str]:
    """How a parameter is typed, and what it does."""
    words = _(_TYPERS[param.name]) if param.name in _TYPERS else param.help or ""
    metavar = param.metavar or str(param.name).upper()
    if param.param_type_name == "argument":
        return metavar, words
    typed = ", ".join(sorted(param.opts, key=len))
    if not param.is_flag and param.name not in _TYPERS:
        typed += " " + metavar
        if param.show_default and param.default is not None:
            words += _(" (default: {value})").format(value=param.default)
    return typed, words


def _bold(text: str) -> str:
    """Stressed on a terminal that may be coloured."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or sys.platform == "win32"
    return text if plain or not sys.stdout.isatty() else f"\x1b[1m{text}\x1b[0m"
