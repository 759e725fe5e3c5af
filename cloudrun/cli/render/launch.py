"""What `launch` shows: the bar while code travels, events of the box in words, and how it came out."""

from __future__ import annotations

import shlex
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from cloudrun.cli.render.units import age
from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from remote_agent import protocol

if TYPE_CHECKING:
    from collections.abc import Callable


#: Files named one by one in a warning.
_NAMED = 5


class SendingBar:
    """A progress bar on stderr that shows itself with the first byte; on a pipe it stays silent."""

    def __init__(self, *, visible: bool) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn(_("code")), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
            console=console, disable=not (visible and console.is_terminal), transient=True,
        )
        self._task: TaskID | None = None

    def sent(self, done_bytes: int, total_bytes: int) -> None:
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task("code", total=total_bytes)
        self._progress.update(self._task, completed=done_bytes, total=total_bytes)
        if done_bytes >= total_bytes:
            self._progress.stop()

    def __enter__(self) -> SendingBar:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()


def event_words(event: dict[str, Any]) -> str:
    """One line for an event of the box; "" for one that this version does not know."""
    kind = str(event.get("event"))
    if kind == "install-failed":
        return _not_installed(event)
    if kind == "waiting-for-lock" and event.get("holder"):
        return _("the box's package manager is locked by {holder}; waiting up to {left_s} s more").format_map(_Gaps(event))
    if kind == "secrets-travel":
        return secrets_words([str(path) for path in event.get("paths", [])])
    words = {
        "waiting-for-launch": _("another launch of this run is at work; waiting for it"),
        "installing": _("installing {program} on the box"),
        "waiting-for-lock": _("the box's package manager is busy; waiting up to {left_s} s more"),
        "updating-index": _("refreshing the box's package index"),
        "fallback-detached": _("neither screen nor tmux can be had: a detached process holds the run; attach can only watch"),
        "link-target-missing": _("{target}, which a link of the project leads to, is not on the box (yet)"),
        "link-target-hangs": _("{target}, which a link of the project leads to, lies on a disk that does not answer: "
                               "a training that reads there will hang (cloudrun doctor)"),
        "setup": _("setting up ({setup}); log: {log}"),
        "put-aside": _("{path} was changed on the box since the last launch; the box's version is kept in {kept}"),
    }.get(kind, "")
    params = {key: value for key, value in event.items() if key not in ("event", "id")}
    return words.format_map(_Gaps(params))


def _not_installed(event: dict[str, Any]) -> str:
    """The box's error in its own words; the launch goes on without the program."""
    params = event.get("params")
    error = CloudrunError(str(event.get("code")), **(params if isinstance(params, dict) else {}))
    if "command" in error.params:
        return _("warning: {what}. For a session that can be entered next time, on the box: {command}").format(
            what=error.message, command=error.params["command"])
    return _("warning: {what}").format(what=error.message)


def secrets_words(paths: list[str]) -> str:
    """Which files look like secrets and travel, and how they stay home."""
    shown = ", ".join(paths[:_NAMED]) + (_(" and {n} more").format(n=len(paths) - _NAMED) if len(paths) > _NAMED else "")
    return _("warning: {paths}: looks like secrets, and goes to the box as code (mode 0600). To keep it here: "
             "echo {first} >> .cloudrunignore   (a run gets its values by env_file = {quoted} in cloudrun.toml)").format(
        paths=shown, first=shlex.quote(paths[0]), quoted=f'"{paths[0]}"')


class _Gaps(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


def launched_document(launched: protocol.Launched, host: str) -> dict[str, Any]:
    """The JSON of `launch`, frozen by a test."""
    run = launched.run
    return {
        "run": run.name, "host": host, "attempt": run.attempt, "state": run.state, "backend": run.backend,
        "session": run.session, "run_dir": run.run_dir, "log": run.log,
    }


def launched_words(
    launched: protocol.Launched, host: str, here: Callable[[str], str], *, local: bool = False
) -> RenderableType:
    """What stands, where, and the commands one types next. `here` makes a command one that goes to this host; `local`: the box
    is this machine."""
    run = launched.run
    lines = [_headline(launched, host, local=local)]
    if launched.archived_to:
        lines.append(Text(_("the folder before it is kept in {path}").format(path=launched.archived_to), style="dim"))
    if launched.silent and run.state in protocol.LIVE_STATES:
        lines.append(Text(_("it has written nothing yet; if its imports fail, `cloudrun logs -f {run}` will show it").format(
            run=run.name), style="yellow"))
    table = Table.grid(padding=(0, 2, 0, 2))
    for label, value in ((_("folder"), run.run_dir), (_("log"), run.log or "-"), (_("session"), _session(run))):
        table.add_row(Text(label, style="dim"), Text(value))
    commands = Table.grid(padding=(0, 2, 0, 2))
    for command, purpose in (("logs -f", _("watch it")), ("attach", _("go in")), ("stop", _("end it"))):
        if command != "attach" or run.backend != "detached":  # which has no terminal to go into
            commands.add_row(Text(here(f"cloudrun {command} {run.name}"), style="bold"), Text(purpose, style="dim"))
    return Group(*lines, table, commands)


def _session(run: protocol.RunInfo) -> str:
    return f"{run.backend} {run.session}" if run.session else str(run.backend)


def _headline(launched: protocol.Launched, host: str, *, local: bool) -> Text:
    run = launched.run
    if launched.outcome == "already-running":
        words = _("{run} is already running on {host}, the same command and code, for {age}; nothing was changed").format(
            run=run.name, host=host, age=age(run.age_s or 0))
        return Text(f"● {words}", style="green")
    if run.state == "succeeded":
        words = _("{run} ran on {host} and has already succeeded").format(run=run.name, host=host)
        again = _(" (attempt {n}, in the folder it had)").format(n=run.attempt) if run.attempt > 1 else ""
        return Text(f"✓ {words}{again}", style="green")
    if run.attempt > 1:
        words = _("{run} runs on {host}: attempt {n}, in the folder it had (its checkpoints are there)").format(
            run=run.name, host=host, n=run.attempt)
    else:
        words = _("{run} runs on {host}; it goes on when this terminal is closed") if local else _(
            "{run} runs on {host}; you can close the lid")
        words = words.format(run=run.name, host=host)
    return Text(f"● {words}", style="green")
