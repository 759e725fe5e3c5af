"""Interleaved pairs: the peer, ours, the peer, ours …, and what came out of them as medians, ranges and ratios."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Took:
    """One measurement. `cpu_s`: user and system time of the process and its children, where it is one process; else None."""

    wall_s: float
    cpu_s: float | None = None


Measure = Callable[[], Took]


@dataclass(frozen=True)
class Contest:
    """Ours against a peer. `aim`: the most that the ratio of their times may be, or (with `faster`) the least of their speeds."""

    name: str
    peer: Measure
    ours: Measure
    aim: float | None = None
    #: The ratio is ours to the peer's speed, not time.
    speed: bool = False
    #: The aim is on the difference of the medians, in seconds.
    aim_more_s: float | None = None
    pairs: int = 7
    #: Looked at once in the same turns, and shown without a ratio of its own: where the limit of both lies.
    beside: tuple[str, Measure] | None = None
    #: What one measurement moves, to show speeds.
    moved_bytes: int = 0


@dataclass
class Result:
    contest: Contest
    peer: list[Took] = field(default_factory=list)
    ours: list[Took] = field(default_factory=list)
    beside: list[Took] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        pairs = zip(self.peer, self.ours, strict=True)
        return [peer.wall_s / ours.wall_s if self.contest.speed else ours.wall_s / peer.wall_s for peer, ours in pairs]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def more_s(self) -> float:
        return median_s(self.ours) - median_s(self.peer)

    @property
    def met(self) -> bool | None:
        contest = self.contest
        if contest.aim_more_s is not None:
            return self.more_s <= contest.aim_more_s
        if contest.aim is None:
            return None
        return self.ratio >= contest.aim if contest.speed else self.ratio <= contest.aim


def run(contest: Contest) -> Result:
    """One pair unmeasured (caches, first imports), then the pairs."""
    measures = [contest.peer, contest.ours] + ([contest.beside[1]] if contest.beside else [])
    for measure in measures:
        measure()
    result = Result(contest)
    for _pair in range(contest.pairs):
        for measure, into in zip(measures, (result.peer, result.ours, result.beside), strict=False):
            into.append(measure())
    return result


def median_s(times: Sequence[Took]) -> float:
    return statistics.median(took.wall_s for took in times)


def median_cpu_s(times: Sequence[Took]) -> float | None:
    known = [took.cpu_s for took in times if took.cpu_s is not None]
    return statistics.median(known) if known else None


def command(
    argv: Sequence[str], env: Mapping[str, str], folder: Path, out: int = subprocess.DEVNULL, timeout_s: float = 120.0
) -> Took:
    """Runs it from start to end. Raises AssertionError with what it said where it fails."""
    started = time.monotonic()
    process = subprocess.Popen(argv, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _pid, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - started
    process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{' '.join(argv)} -> {process.returncode}: {said.decode(errors='replace')}"
    assert wall_s < timeout_s
    return Took(wall_s, usage.ru_utime + usage.ru_stime)
