"""What every backend owes a run, on a real sshd: no client slows the training, no name hits a neighbour, nothing of the user's
own is touched."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Laptop
from tests.support.sshd import SshBox, program
from tests.support.terminal import Terminal
from tests.support.waiting import wait_for

#: Far past every buffer between a print and a screen: pipe (1 MiB), pty, screen's own, the socket's.
PAST_ALL_BUFFERS = 4 << 20
#: A training that never waits for its output would print these within milliseconds; a frozen one never.
CHATTY = """\
import sys, time
line = 'x' * 199 + chr(10)
slowest = 0.0
while True:
    for _ in range(200):
        began = time.monotonic()
        sys.stdout.write(line)
        slowest = max(slowest, time.monotonic() - began)
    sys.stdout.flush()
    with open('slowest', 'w') as out:
        out.write(str(slowest))
    time.sleep(0.005)
"""
KEYS = {"screen": {"scrollback": b"\x01[", "leave": b"\x01d"}, "tmux": {"scrollback": b"\x02[", "leave": b"\x02d"}}


@pytest.fixture
def way(box: SshBox, cloudrun: Laptop) -> Laptop:
    cloudrun.know(box)
    (cloudrun.project / "train.py").write_text(CHATTY)
    return cloudrun


@pytest.fixture
def terminals(way: Laptop) -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def attach(way: Laptop, terminals: list[Terminal], *words: str) -> Terminal:
    terminal = Terminal(way.argv("attach", *words), cwd=way.project, env=way.environment())
    terminals.append(terminal)
    terminal.shows("xxxx", timeout_s=30)
    return terminal


@pytest.mark.parametrize("backend", ["screen", "tmux"])
def test_no_client_slows_the_training(way: Laptop, terminals: list[Terminal], backend: str) -> None:
    launched = way.json("launch", "exp_chatty", "--backend", backend, "--", "python3", "train.py")
    log = Path(launched["log"])

    def goes_on(what: str) -> None:
        size = log.stat().st_size
        wait_for(lambda: log.stat().st_size > size + PAST_ALL_BUFFERS, 20, f"4 MiB of log beside {what}")

    scrolling = attach(way, terminals, "exp_chatty")
    scrolling.type(KEYS[backend]["scrollback"])
    scrolling.pump(0.5)
    goes_on("a client in scrollback")
    scrolling.type(b"q\x1b")
    scrolling.type(b"\x13")
    scrolling.pump(0.5)
    goes_on("a client under Ctrl-S")
    os.kill(scrolling.process.pid, signal.SIGSTOP)
    goes_on("a client that stopped reading")
    os.kill(scrolling.process.pid, signal.SIGKILL)
    goes_on("a client that was killed")
    assert way.state("exp_chatty")["state"] == "running"
    slowest = next(Path(launched["run_dir"]).parents[3].glob("home/cloudrun/net/exp_chatty/slowest"))
    assert float(slowest.read_text() or "0") < 2.0  # one print: a stall would be as long as the client's
    way.run("stop", "exp_chatty", "--grace", "2")


@pytest.mark.parametrize("backend", ["screen", "tmux", "detached"])
def test_a_name_is_never_confused_with_a_longer_one(way: Laptop, backend: str) -> None:
    launched = way.json("launch", "train10", "--wait", "1", "--backend", backend, "--", "sleep", "600")
    assert launched["state"] == "running"
    missing = way.run("stop", "train1", code=4)
    assert "train10" in missing.err  # the near name is offered, not taken
    way.run("logs", "train1", code=4)
    way.run("rm", "train1", "--yes", code=4)
    way.run("launch", "train1", "--wait", "1", "--backend", backend, "--", "sleep", "600")
    way.run("stop", "train1", "--grace", "2")
    assert {run["name"]: run["state"] for run in way.json("ps")["runs"]} == {"train10": "running", "train1": "stopped"}
    way.run("stop", "train10", "--grace", "2")


def test_the_users_own_sessions_and_settings_are_untouched(way: Laptop, box: SshBox, tmp_path: Path) -> None:
    own = {**os.environ, "HOME": str(box.home), "SCREENDIR": str(box.home / "own"), "TMUX_TMPDIR": str(box.home)}
    (box.home / "own").mkdir(mode=0o700)
    for name in (".screenrc", ".tmux.conf"):
        (box.home / name).write_text("this is no setting of any program\n")
    subprocess.run([program("screen"), "-c", "/dev/null", "-dmS", "exp_mine", "sleep", "600"], env=own, check=True)
    subprocess.run([program("tmux"), "-f", "/dev/null", "new-session", "-d", "-s", "exp_mine", "sleep 600"], env=own, check=True)

    def sessions() -> tuple[int, int]:
        listed = subprocess.run([program("screen"), "-ls"], env=own, capture_output=True, text=True, check=False).stdout
        panes = subprocess.run([program("tmux"), "ls"], env=own, capture_output=True, text=True, check=False).stdout
        return listed.count("exp_mine"), panes.count("exp_mine")

    wait_for(lambda: sessions() == (1, 1))
    try:
        for backend in ("screen", "tmux"):
            way.run("launch", "exp_mine", "--wait", "1", "--fresh", "--backend", backend, "--", "sleep", "600")
            way.run("stop", "exp_mine", "--grace", "2")
        assert sessions() == (1, 1)
        for name in (".screenrc", ".tmux.conf"):
            assert (box.home / name).read_text() == "this is no setting of any program\n"
    finally:
        subprocess.run([program("screen"), "-S", "exp_mine", "-X", "quit"], env=own, check=False)
        subprocess.run([program("tmux"), "kill-server"], env=own, check=False)
