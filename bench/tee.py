"""The agent's tee beside GNU `tee -a`: time for a flood, processor time for 10,000 lines a second.

Run: python -m bench.tee [pairs]. Pairs are interleaved; medians, spreads and ratios are printed and nothing is asserted.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

FLOOD_BYTES = 512 * 1024 * 1024
LINES_PER_S = 10_000
LINES_FOR_S = 3.0
LINE = b"epoch 3 step 001234 loss=0.123456 lr=1.000e-04 it/s=12.3\n"
ROOT = Path(__file__).resolve().parent.parent
AGENT = "import runpy,sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module('remote_agent', run_name='__main__')"


def flood(fd: int) -> None:
    block = LINE * (64 * 1024 // len(LINE))
    for _ in range(FLOOD_BYTES // len(block)):
        view = memoryview(block)
        while view:
            view = view[os.write(fd, view):]


def line_by_line(fd: int) -> None:
    """Each line a write of its own, as an unbuffered training prints; ten at a time keep the pace."""
    started = time.monotonic()
    for number in range(int(LINES_PER_S * LINES_FOR_S)):
        os.write(fd, LINE)
        if number % 10 == 9:
            time.sleep(max(0.0, started + number / LINES_PER_S - time.monotonic()))


def gnu(log: Path) -> list[str]:
    return ["tee", "-i", "-a", str(log)]


def ours(log: Path) -> list[str]:
    return [sys.executable, "-I", "-c", AGENT, str(ROOT), "tee", "--log", str(log), "--limit", str(10**12)]


def measured(tee: Callable[[Path], list[str]], load: Callable[[int], None], folder: Path) -> tuple[float, float]:
    """Wall and processor seconds of the tee under that load; its start is paid before the clock runs."""
    log = folder / "log"
    log.unlink(missing_ok=True)
    process = subprocess.Popen(tee(log), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    fd = process.stdin.fileno()
    os.write(fd, b"begin\n")
    while not log.exists() or log.stat().st_size == 0:
        time.sleep(0.01)
    cpu_before, started = _cpu_s(process.pid), time.monotonic()
    load(fd)
    process.stdin.close()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime - cpu_before


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report(what: str, unit: str, pairs: list[tuple[float, float]]) -> None:
    peer, own = zip(*pairs, strict=True)
    ratios = [b / a for a, b in pairs if a]
    print(f"{what}: GNU tee {statistics.median(peer):.3f} {unit} ({min(peer):.3f}-{max(peer):.3f}), "
          f"ours {statistics.median(own):.3f} {unit} ({min(own):.3f}-{max(own):.3f}), "
          f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        floods, lines = [], []
        for _ in range(pairs):
            floods.append((measured(gnu, flood, folder)[0], measured(ours, flood, folder)[0]))
            lines.append((measured(gnu, line_by_line, folder)[1], measured(ours, line_by_line, folder)[1]))
    report(f"flood of {FLOOD_BYTES >> 20} MiB, wall", "s", floods)
    report(f"{LINES_PER_S} lines/s for {LINES_FOR_S:g} s, processor", "s", lines)


if __name__ == "__main__":
    main()
