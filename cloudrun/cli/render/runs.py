"""Runs as a table: pure functions from the agent's answers to something Rich can print."""

from __future__ import annotations

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from cloudrun.app.runs import HostRuns
from cloudrun.cli.render.units import age
from cloudrun.i18n import _
from remote_agent import protocol

STYLES = {
    "pending": "cyan", "running": "green", "stalled": "yellow", "waiting": "yellow", "stopping": "yellow",
    "succeeded": "green", "failed": "red", "stopped": "dim", "lost": "bold red",
}
_MARKS = {"running": "●", "pending": "○", "waiting": "○", "stalled": "●", "stopping": "●", "succeeded": "✓", "failed": "✗",
          "stopped": "■", "lost": "?"}


def runs_table(answers: list[HostRuns], *, with_host: bool) -> Table:
    """One line per run."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    if with_host:
        table.add_column(_("HOST"), no_wrap=True)
    table.add_column(_("RUN"), no_wrap=True, overflow="ellipsis", min_width=8)
    table.add_column(_("STATE"), no_wrap=True)
    table.add_column(_("CAUSE"), overflow="fold")
    table.add_column(_("AGE"), no_wrap=True, justify="right")
    table.add_column(_("ATT"), no_wrap=True, justify="right")
    table.add_column(_("PROGRESS"), overflow="fold")
    table.add_column(_("GPU"), no_wrap=True)
    table.add_column(_("SESSION"), no_wrap=True)
    for answer in answers:
        for run in answer.runs:
            row: list[RenderableType] = [
                Text(run.name), state_text(run), Text(cause_words(run)), age(run.age_s) if run.age_s is not None else "-",
                str(run.attempt or "-"), Text(progress_words(run)), gpus_words(run.gpus), run.backend or "-",
            ]
            table.add_row(*([escape(answer.host)] if with_host else []), *row)
    return table


def state_text(run: protocol.RunInfo) -> Text:
    """The state with its mark and colour; set-up is said as what it is."""
    words = _("setting up") if run.state in ("pending", "running") and run.phase == "setup" else run.state
    return Text(f"{_MARKS.get(run.state, ' ')} {words}", style=STYLES.get(run.state, ""))


def cause_words(run: protocol.RunInfo) -> str:
    """Why, in a few words: the cause, the signal by name, the exit code."""
    if run.state == "succeeded" or (run.state in protocol.LIVE_STATES and not run.cause):
        return ""
    words = []
    if run.cause and run.cause != "signal":
        words.append(run.cause)
    if run.signal:
        words.append(_("killed by {signal}").format(signal=signal_name(run.signal)))
    elif run.exit_code:
        words.append(_("exit {code}").format(code=run.exit_code))
    return ", ".join(words)


def signal_name(number: int) -> str:
    """SIGKILL for 9. The box is Linux, whatever this machine is: names come from a table of Linux's numbers."""
    return _LINUX_SIGNALS.get(number, f"signal {number}")


_LINUX_SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
    10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ",
}


def progress_words(run: protocol.RunInfo) -> str:
    """What the heartbeat says, or nothing."""
    progress = run.progress
    if progress is None:
        return ""
    words = []
    if progress.epoch is not None:
        words.append(_("epoch {n}").format(n=progress.epoch))
    if progress.step is not None:
        words.append(_("step {n}").format(n=progress.step))
    if progress.loss is not None:
        words.append(_("loss {x:.4g}").format(x=progress.loss))
    if progress.phase and progress.phase != "train":
        words.append(progress.phase)
    return ", ".join(words)


def gpus_words(gpus: list[int] | None) -> str:
    return ",".join(map(str, gpus)) if gpus else "-"
