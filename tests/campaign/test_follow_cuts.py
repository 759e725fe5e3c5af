"""The connection is cut at random byte positions while a log is followed; what came out is the file, byte for byte."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.support.cli import Laptop
from tests.support.cutting import Cutting
from tests.support.sshd import SshBox
from tests.support.waiting import wait_for

#: Letters of several bytes, progress bars, half lines, and bytes that are no text at all.
CHATTER = """\
import os, random, sys, time
enough, chance, out = sys.argv[1], random.Random(5), sys.stdout.buffer
pieces = ['第 3 轮 损失 0.25\\n'.encode(), b'\\r 41%|####      | 12/30', b'half a line', b'\\x1b[31mred\\x1b[0m\\n',
          b'\\xff\\xfe\\x00\\x80']
while not os.path.exists(enough):
    out.write(chance.choice(pieces) + chance.randbytes(chance.randrange(2500)))
    out.flush()
    time.sleep(0.012)
"""
#: What a greeting and a login take; cuts before that fall into the making of the connection.
HANDSHAKE_BYTES = 4500


def plan_cuts(link: Cutting, chance: random.Random, count: int) -> None:
    link.cut_after("down", 400_000)  # a first connection that fails is an error: it lives until it follows
    for _number in range(count - 1):
        within_handshake = chance.random() < 0.2
        link.cut_after(
            chance.choice(("down", "down", "up")) if within_handshake else "down",
            chance.randrange(HANDSHAKE_BYTES) if within_handshake else chance.randrange(HANDSHAKE_BYTES, 60_000),
        )


def whole(backend: str, manner: str) -> ParameterSet:
    return pytest.param(backend, manner, 100, marks=pytest.mark.campaign)


@pytest.mark.parametrize(("backend", "manner", "count"), [
    ("screen", "reset", 3), ("tmux", "end", 3),
    whole("screen", "reset"), whole("screen", "end"), whole("tmux", "reset"), whole("tmux", "end"),
])
def test_cut_anywhere_the_output_is_that_of_the_file(
    box: SshBox, cloudrun: Laptop, tmp_path: Path, figure: Callable[[str], None], backend: str, manner: str, count: int
) -> None:
    cloudrun.know(box)
    (cloudrun.project / "train.py").write_text(CHATTER, encoding="utf-8")
    enough, out = tmp_path / "enough", tmp_path / "out"
    words = ("--backend", backend, "--", sys.executable, "train.py", str(enough))
    log = Path(cloudrun.json("launch", "exp_chatter", *words)["log"])
    # CUTS_SEED=N in the environment plans the cuts of the run that named this seed.
    seed = int(os.environ.get("CUTS_SEED") or random.randrange(1 << 30))
    with Cutting(box.port) as link, out.open("wb") as stream:
        link.manner = manner
        plan_cuts(link, random.Random(seed), count)
        cloudrun.run("host", "set", "box", box.login.replace(str(box.port), str(link.port)), "--no-connect")
        known = Path(cloudrun.environment()["CLOUDRUN_CONFIG_DIR"]) / "known_hosts"
        known.write_text(known.read_text() + known.read_text().replace(f":{box.port} ", f":{link.port} "))
        follower = cloudrun.start("logs", "exp_chatter", "-f", "--raw", "-n", "1000000000", stdout=stream)
        try:
            wait_for(lambda: link.cuts >= count or follower.poll() is not None, 900, f"{count} cuts, seed {seed}")
            enough.write_text("")
            _out, err = follower.communicate(timeout=120)
        finally:
            follower.kill()
            follower.wait()
            enough.write_text("")
    assert follower.returncode == 0, f"seed {seed}: {err.decode()}"
    assert link.cuts >= count, f"seed {seed}: {err.decode()}"
    assert out.read_bytes() == log.read_bytes(), f"seed {seed}"
    figure(f"connection cut ({manner}) at a random byte while following, {backend}: bytes lost or doubled | {link.cuts} cuts, "
           f"seed {seed}, {log.stat().st_size:,} bytes | 0")
