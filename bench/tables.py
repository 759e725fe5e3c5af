"""Results in words: a line each while they come, and the table of docs/BENCHMARKS.md."""

from __future__ import annotations

from collections.abc import Sequence

from bench.pairs import Result, Took, median_cpu_s, median_s


def line(result: Result) -> str:
    beside = ""
    if result.contest.beside is not None:
        beside = f"; {result.contest.beside[0]} {_figure(result, result.beside)}"
    return (f"{result.contest.name}: {_figure(result, result.peer)} -> {_figure(result, result.ours)}, "
            f"ratio {_ratio(result)}, processor {_processor(result)}{beside} [{_aim(result)}]")


def markdown(results: Sequence[Result]) -> str:
    """The table; what stands beside a contest gets a row of its own."""
    rows = ["| what | peer | ours | ratio, median (range) | processor time | aim |", "| --- | --- | --- | --- | --- | --- |"]
    for result in results:
        cells = (result.contest.name, _figure(result, result.peer), _figure(result, result.ours), _ratio(result),
                 _processor(result), _aim(result))
        rows.append(f"| {' | '.join(cells)} |")
        if result.contest.beside is not None:
            rows.append(f"| beside it: {result.contest.beside[0]} | | {_figure(result, result.beside)} | | | |")
    return "\n".join(rows)


def _figure(result: Result, times: Sequence[Took]) -> str:
    middle_s = median_s(times)
    if result.contest.moved_bytes:
        return f"{result.contest.moved_bytes / middle_s / 1e6:.0f} MB/s"
    return f"{middle_s * 1000:.1f} ms" if middle_s < 0.1 else f"{middle_s:.2f} s"


def _ratio(result: Result) -> str:
    if result.contest.aim_more_s is not None:
        return f"{result.more_s * 1000:+.1f} ms"
    return f"{result.ratio:.2f} ({min(result.ratios):.2f} to {max(result.ratios):.2f})"


def _processor(result: Result) -> str:
    """Of the laptop's processes: the peer's, then ours."""
    peer, ours = median_cpu_s(result.peer), median_cpu_s(result.ours)
    return "" if peer is None or ours is None else f"{peer:.2f} s, {ours:.2f} s"


def _aim(result: Result) -> str:
    contest, met = result.contest, result.met
    if met is None:
        return ""
    if contest.aim_more_s is not None:
        wanted = f"≤ {contest.aim_more_s * 1000:+.0f} ms"
    else:
        wanted = f"{'≥' if contest.speed else '≤'} {contest.aim}"
    return f"{wanted}, {'met' if met else 'missed'}"
