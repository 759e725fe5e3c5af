"""Runs as a table: from the agent's answers to something Rich can print."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from cloudrun.app.runs import HostRuns
from cloudrun.cli.render.causes import cause_words
from cloudrun.cli.render.units import age
from cloudrun.i18n import N_, _
from cloudrun.states import state_words
from remote_agent import protocol

STYLES = {
    "pending": "cyan", "running": "green", "stalled": "yellow", "waiting": "yellow", "stopping": "yellow",
    "succeeded": "green", "failed": "red", "stopped": "dim", "lost": "bold red",
}
_MARKS = {"running": "●", "pending": "○", "waiting": "○", "stalled": "●", "stopping": "●", "succeeded": "✓", "failed": "✗",
          "stopped": "■", "lost": "?"}


@dataclass(frozen=True)
class _Column:
    """A heading and how it yields where the terminal is narrow. `foldable`: by lines, between words."""

    heading: str
    foldable: bool = False
    right: bool = False


_COLUMNS = (
    _Column(N_("HOST")), _Column(N_("RUN")), _Column(N_("STATE")), _Column(N_("AGE"), right=True), _Column(N_("ATT"), right=True),
    _Column(N_("GPU")), _Column(N_("SESSION")), _Column(N_("DETAIL"), foldable=True),
)
#: What goes first where even folded lines do not fit; all of it stands in `ps --json`.
_LEAST_WANTED = ("SESSION", "GPU", "ATT")
_GAP = 2
#: Narrower than this, folded lines are a column of single words.
_LEAST_FOLDED = 20


class RunsTable:
    """One line per run. Columns that say nothing of any run are left out; no word is ever broken."""

    def __init__(self, answers: list[HostRuns], *, with_host: bool) -> None:
        rows = [_cells(run, answer.host) for answer in answers for run in answer.runs]
        shown = [index for index in range(len(_COLUMNS)) if any(row[index].plain for row in rows)]
        self._columns = [_COLUMNS[index] for index in shown if with_host or index > 0]
        self._rows = [[row[index] for index in shown if with_host or index > 0] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        kept, widths = self._fitted(options.max_width)
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
        for index, width in zip(kept, widths, strict=True):
            column = self._columns[index]
            table.add_column(_(column.heading), width=width, justify="right" if column.right else "left",
                             no_wrap=not column.foldable, overflow="ellipsis")
        for row in self._rows:
            table.add_row(*(row[index] for index in kept))
        yield table

    def _fitted(self, width: int) -> tuple[list[int], list[int]]:
        """Which columns are shown, and how wide: folded as far as words allow, then without the least wanted."""
        kept = list(range(len(self._columns)))
        for unwanted in ("", *_LEAST_WANTED):
            kept = [index for index in kept if self._columns[index].heading != unwanted]
            widths = [self._wanted(index) for index in kept]
            over = sum(widths) + _GAP * (len(widths) - 1) - width
            for place, index in enumerate(kept):
                give = min(max(over, 0), widths[place] - self._least(index))
                widths[place] -= give
                over -= give
            if over <= 0:
                return kept, widths
        run = next(place for place, index in enumerate(kept) if self._columns[index].heading == "RUN")
        widths[run] = max(8, widths[run] - over)
        return kept, widths

    def _texts(self, index: int) -> list[str]:
        return [_(self._columns[index].heading), *(row[index].plain for row in self._rows)]

    def _wanted(self, index: int) -> int:
        return max(cell_len(text) for text in self._texts(index))

    def _least(self, index: int) -> int:
        """A column's width where its lines are folded between words."""
        if not self._columns[index].foldable:
            return self._wanted(index)
        longest_word = max(cell_len(word) for text in self._texts(index) for word in text.split() or [""])
        return max(longest_word, min(self._wanted(index), _LEAST_FOLDED))


def _cells(run: protocol.RunInfo, host: str) -> list[Text]:
    """As `_COLUMNS`."""
    how_long = age(run.age_s) if run.age_s is not None else ""
    return [
        Text(host), Text(run.name), state_text(run), Text(how_long), Text(str(run.attempt or "")),
        Text(",".join(map(str, run.gpus or []))), Text(run.backend or ""),
        Text("; ".join(words for words in (cause_words(run), progress_words(run)) if words)),
    ]


def state_text(run: protocol.RunInfo) -> Text:
    """The state with its mark and colour; set-up is said as what it is."""
    words = _("setting up") if run.state in ("pending", "running") and run.phase == "setup" else state_words(run.state)
    return Text(f"{_MARKS.get(run.state, ' ')} {words}", style=STYLES.get(run.state, ""))


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
