"""A run's log: all of it at once beside `cat`, and line by line beside `tail -F`."""

from __future__ import annotations

import hashlib
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.pairs import Contest, Took
from bench.world import ROOT, World
from tests.support.writtenrun import WrittenRun

BULK_BYTES = 200_000_000
LINES = 151
LINE_TIMEOUT_S = 20.0


def bulk(world: World) -> Iterator[Contest]:
    box = world.box("box")
    run = WrittenRun(box.data, "exp_bulk")
    try:
        _fill(run)
        run.end()
        path = f"{run.run.logs}/attempt-001.log"
        cat = ["ssh", "box", "cat", path]
        ours = world.cloudrun("logs", "exp_bulk", "--raw", "-n", "1000000000")
        lines = world.cloudrun("logs", "exp_bulk", "-n", "1000000000")
        bare = [sys.executable, str(ROOT / "bench" / "bare_paramiko.py"), str(box.port), box.user, str(box.key), path]
        wanted = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        for argv in (cat, ours, lines, bare):
            assert hashlib.sha256(world.output(argv)).hexdigest() == wanted, argv
        peer = partial(world.run, cat)
        yield Contest("`logs --raw` of 200 MB / `ssh box cat`, speeds", peer, partial(world.run, ours), aim=0.8, speed=True,
                      beside=("paramiko alone, `cat`", partial(world.run, bare)), moved_bytes=BULK_BYTES)
        yield Contest("`logs` of 200 MB into a file, line by line / `ssh box cat`, speeds", peer, partial(world.run, lines),
                      speed=True, moved_bytes=BULK_BYTES, pairs=5)
    finally:
        run.close()


def _fill(run: WrittenRun) -> None:
    """Lines as a training prints them; after ten megabytes they come again."""
    chance = random.Random(7)
    block = b"".join(
        b"epoch %03d step %07d loss=%.6f lr=%.3e grad_norm=%.4f it/s=%.2f\n" % (
            step // 1000, step, chance.random(), chance.random(), chance.random(), chance.random() * 20)
        for step in range(140_000))
    for written in range(0, BULK_BYTES, len(block)):
        run.write(block[: BULK_BYTES - written])


def line(world: World) -> Iterator[Contest]:
    """Lines at odd moments, to one and to the other in turn; both readers are there all the time."""
    box = world.box("box")
    tailed, followed = WrittenRun(box.data, "exp_tailed"), WrittenRun(box.data, "exp_followed")
    readers: list[subprocess.Popen[bytes]] = []
    try:
        for run in (tailed, followed):
            run.write(b"begin\n")
        for argv in (["ssh", "box", "tail", "-F", f"{tailed.run.logs}/attempt-001.log"],
                     world.cloudrun("logs", "-f", "exp_followed")):
            readers.append(subprocess.Popen(argv, env=world.env(), cwd=world.laptop.project, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE))
        for reader in readers:
            _line_of(reader)
        yield Contest("a line from the box to the screen: `logs -f` / `ssh box tail -F`", partial(_shown, tailed, readers[0]),
                      partial(_shown, followed, readers[1]), aim_more_s=0.020, pairs=LINES)
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
        for run in (tailed, followed):
            run.close()


def _shown(run: WrittenRun, reader: subprocess.Popen[bytes]) -> Took:
    time.sleep(random.uniform(0.03, 0.12))
    words = f"epoch 3 loss={random.random():.9f}\n".encode()
    started = time.monotonic()
    run.write(words)
    assert _line_of(reader) == words
    return Took(time.monotonic() - started)


def _line_of(reader: subprocess.Popen[bytes]) -> bytes:
    assert reader.stdout is not None
    got = b""
    while not got.endswith(b"\n"):
        ready, _, _ = select.select([reader.stdout], [], [], LINE_TIMEOUT_S)
        piece = os.read(reader.stdout.fileno(), 65536) if ready else b""
        assert piece, f"no line within {LINE_TIMEOUT_S} s, or the reader ended: {got!r}"
        got += piece
    return got
