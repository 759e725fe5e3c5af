"""Runs as people see them: columns that say something, words that stay whole, and why a run ended in plain words."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from cloudrun.app.runs import HostRuns
from cloudrun.cli.render.causes import WORDS, cause_words
from cloudrun.cli.render.runs import RunsTable
from remote_agent.protocol import CAUSES, Progress, RunInfo

DEAD = RunInfo(
    name="exp_resnet50_cifar10_1201", project="net", project_id="x", run_dir="/data/x", state="failed", cause="never-started",
    exit_code=127, attempt=1, age_s=4000, backend="screen",
)
LIVE = replace(
    DEAD, name="det_yolo11_1201", state="running", cause=None, exit_code=None, gpus=[0, 1], age_s=200_000, attempt=12,
    progress=Progress(step=123456, epoch=12, loss=0.12345),
)


def shown(runs: list[RunInfo], width: int, *, with_host: bool = False) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(RunsTable([HostRuns("box", tuple(runs))], with_host=with_host))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_columns_that_say_nothing_are_not_there() -> None:
    quiet = replace(DEAD, state="succeeded", cause=None, exit_code=None, backend=None)
    head, row = shown([quiet], 80)
    assert head.split() == ["RUN", "STATE", "AGE", "ATT"]
    assert row.split() == [quiet.name, "✓", "succeeded", "1", "h", "06", "min", "1"]


@pytest.mark.parametrize("width", [72, 80, 100, 120, 10_000])
def test_no_word_is_broken_at_any_width(width: int) -> None:
    lines = shown([DEAD, LIVE], width)
    assert all(cell_len(line) <= width for line in lines)
    words = {word for line in lines for word in line.split()}
    for run in (DEAD, LIVE):
        assert run.name in words
        assert run.state in words
    for word in ["cannot", "be", "run:", "command", "not", "found", "(exit", "127)", "step", "123456,", "0.1235"]:
        assert word in words
    assert (len(lines) == 3) == (width >= 120)
    assert ("SESSION" in words) == (width >= 100)
    assert len(lines) <= 6  # one for the heading, and few for each run


def test_a_host_is_said_where_several_are_asked() -> None:
    assert [line.split()[0] for line in shown([DEAD], 10_000, with_host=True)] == ["HOST", "box"]


@pytest.mark.parametrize(("state", "cause", "code", "signal", "words"), [
    ("failed", "never-started", 127, None, "cannot be run: command not found (exit 127)"),
    ("failed", "never-started", None, None, "never started"),
    ("failed", "setup-failed", 1, None, "setup failed (exit 1)"),
    ("failed", "cuda-oom", 1, None, "CUDA out of memory (exit 1)"),
    ("failed", "oom-killed", None, 9, "killed for memory by the kernel"),
    ("failed", "signal", None, 11, "killed by SIGSEGV"),
    ("failed", None, 7, None, "exit 7"),
    ("stopped", "user", None, 15, "stopped by you"),
    ("failed", "of-next-year", 3, None, "of-next-year (exit 3)"),
    ("succeeded", None, 0, None, ""),
    ("running", None, None, None, ""),
])
def test_why_a_run_ended(state: str, cause: str | None, code: int | None, signal: int | None, words: str) -> None:
    assert cause_words(replace(DEAD, state=state, cause=cause, exit_code=code, signal=signal)) == words


def test_every_cause_has_words() -> None:
    assert set(WORDS) == set(CAUSES) - {"signal"}
