"""The commands there are: one line each, so that `--help` and a wrong name need none of their modules."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import typer

from cloudrun.cli.parsing import Command, Group, LaunchCommand
from cloudrun.i18n import N_, _


@dataclass(frozen=True)
class Listed:
    """A command. `module` of `cloudrun.cli` has a function of the command's name, or, for a group, an `app`."""

    module: str
    #: For the page of `--help`: its first paragraph is the line in the list of commands.
    help: str
    kind: type[Command] = Command
    settings: dict[str, Any] = field(default_factory=dict)


#: In the order in which one meets them: a box first.
COMMANDS: dict[str, Listed] = {
    "host": Listed("hosts", N_("Boxes: add, list, show, change, choose, forget.")),
    "init": Listed("init", N_("Write a commented cloudrun.toml into this folder.")),
    "doctor": Listed("doctor", N_(
        "Is the box fit for a run? What to type where it is not.\n\n"
        "The way there, Python and torch, GPU, disks, sessions, memory. Changes nothing. The exit code says the worst: 0 all is "
        "well, 20 a warning, 21 a failure.")),
    "launch": Listed(
        "launch", N_("Start a run on the box, in a session that no closed lid can hurt."), LaunchCommand,
        {"allow_interspersed_args": True}),
    "ps": Listed("ps", N_("List the runs: state, cause, age, attempt, progress, GPU.")),
    "logs": Listed("logs", N_(
        "Show a run's log.\n\nWith -f: exit 0 when it succeeded, 3 when it failed; Ctrl-C leaves and the run goes on.")),
    "attach": Listed("attach", N_(
        "Go into the run's session.\n\nCtrl-C reaches the training; leaving (shown on the way in) does not touch it.")),
    "gpu": Listed("gpu", N_("Show the GPUs, and which run is on which.")),
    "stop": Listed("stop", N_("Stop a run, whole.\n\nSIGTERM, the grace, then SIGKILL to whatever is left; verified gone.")),
    "rm": Listed("rm", N_(
        "Delete an ended run's folder: logs, outputs, checkpoints.\n\nAsks; refuses a live run.")),
}


class Commands(Group):
    """The root: a command's module is imported when it is typed."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def helps(self, ctx: Any) -> list[tuple[str, str]]:
        return [(name, _(listed.help)) for name, listed in COMMANDS.items()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return built(cmd_name) if cmd_name in COMMANDS else None


def built(name: str) -> Any:
    """The command of that name, as typer makes it from its module."""
    listed = COMMANDS[name]
    module = import_module(f"cloudrun.cli.{listed.module}")
    if hasattr(module, "app"):
        return typer.main.get_command(module.app)
    alone = typer.Typer(add_completion=False)
    alone.command(name, cls=listed.kind, help=_(listed.help), context_settings=listed.settings)(getattr(module, name))
    return typer.main.get_command(alone)
