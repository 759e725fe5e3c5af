"""What `launch` shows: the bar while code travels, events of the box in words, and how it came out."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from cloudrun.cli.render.units import age, size
from cloudrun.i18n import _
from remote_agent import protocol

if TYPE_CHECKING:
    from cloudrun.app.launch import Plan


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
    words = {
        "waiting-for-launch": _("another launch of this run is at work; waiting for it"),
        "installing": _("installing {program} on the box"),
        "waiting-for-lock": _("the box's package manager is busy; waiting up to {left_s} s more"),
        "install-failed": _("{program} could not be installed on the box ({code})"),
        "updating-index": _("refreshing the box's package index"),
        "fallback-detached": _("neither screen nor tmux can be had: a detached process holds the run; attach can only watch"),
        "link-target-missing": _("{target}, which a link of the project leads to, is not on the box (yet)"),
        "setup": _("setting up ({setup}); log: {log}"),
        "put-aside": _("{path} was changed on the box since the last launch; the box's version is kept in {kept}"),
    }.get(kind, "")
    params = {key: value for key, value in event.items() if key not in ("event", "id")}
    return words.format_map(_Gaps(params))


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


def launched_words(launched: protocol.Launched, host: str) -> RenderableType:
    """What stands, where, and the three commands one types next."""
    run = launched.run
    lines = [_headline(launched, host)]
    if launched.archived_to:
        lines.append(Text(_("the folder before it is kept in {path}").format(path=launched.archived_to), style="dim"))
    if launched.silent and run.state in protocol.LIVE_STATES:
        lines.append(Text(_("it has written nothing yet; if its imports fail, `cloudrun logs -f {run}` will show it").format(
            run=run.name), style="yellow"))
    table = Table.grid(padding=(0, 2, 0, 2))
    for label, value in ((_("folder"), run.run_dir), (_("log"), run.log or "-"), (_("session"), _session(run))):
        table.add_row(Text(label, style="dim"), Text(value))
    follow = Text.assemble(("  cloudrun logs -f ", "bold"), (run.name, "bold"), (_("   watch it"), "dim"))
    attach = Text.assemble(("  cloudrun attach ", "bold"), (run.name, "bold"), (_("    go in"), "dim"))
    stop = Text.assemble(("  cloudrun stop ", "bold"), (run.name, "bold"), (_("      end it"), "dim"))
    return Group(*lines, table, follow, attach, stop)


def _session(run: protocol.RunInfo) -> str:
    return f"{run.backend} {run.session}" if run.session else str(run.backend)


def _headline(launched: protocol.Launched, host: str) -> Text:
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
        words = _("{run} runs on {host}; you can close the lid").format(run=run.name, host=host)
    return Text(f"● {words}", style="green")


def plan_document(planned: Plan) -> dict[str, Any]:
    """The JSON of `launch --dry-run`. Secrets show as names only."""
    manifest = planned.manifest
    return {
        "run": planned.spec.run, "spec": protocol.encode(planned.spec), "run_sh": planned.run_sh,
        "data_disk": protocol.encode(planned.prepared.data_disk), "backend": planned.prepared.backend,
        "will_install": planned.prepared.will_install, "attempt": planned.prepared.next_attempt,
        "files": len(manifest.files) if manifest else 0, "size_bytes": manifest.size_bytes if manifest else 0,
    }


def plan_words(planned: Plan) -> list[RenderableType]:
    """What would be sent, the checks, and the script, whose lines are whole however narrow the terminal is."""
    prepared, manifest = planned.prepared, planned.manifest
    table = Table.grid(padding=(0, 2, 0, 0))
    disk = prepared.data_disk
    rows = [
        (_("run"), f"{planned.spec.run}, " + _("attempt {n}").format(n=prepared.next_attempt)),
        (_("folder"), prepared.facts.run_dir),
        (_("data disk"), f"{disk.path}, " + _("{size} free").format(size=size(disk.free_bytes))),
        (_("session"), prepared.backend or _("{program} would be installed").format(program=prepared.will_install)),
        (_("GPU"), prepared.gpu.state if prepared.gpu.state != "ok" else f"{len(prepared.gpu.gpus)}"),
        (_("code"), _("{n} files, {size}, into {tree}; only what the box lacks would travel").format(
            n=len(manifest.files), size=size(manifest.size_bytes), tree=prepared.facts.tree) if manifest else _("not sent")),
    ]
    if manifest is not None and manifest.files:
        largest = sorted(manifest.files, key=lambda entry: entry.size_bytes, reverse=True)[:5]
        rows.append((_("largest"), ", ".join(f"{entry.path} ({size(entry.size_bytes)})" for entry in largest)))
    if prepared.existing is not None:
        rows.insert(1, (_("stands there"), f"{prepared.existing.state}, " + _("attempt {n}").format(n=prepared.existing.attempt)))
    for label, value in rows:
        table.add_row(Text(label, style="bold"), Text(value))
    script = Syntax("", "bash", background_color="default").highlight(planned.run_sh)
    script.rstrip()
    return [table, Text(), script, Text(_("nothing was changed"), style="dim")]
