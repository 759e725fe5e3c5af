"""attach on a real sshd, screen and tmux: what the user sees, types, and is given back."""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cli import Laptop
from tests.support.sshd import SshBox
from tests.support.terminal import Terminal
from tests.support.waiting import wait_for

TRAINING = """\
import os, signal, sys, time
count = 0
def interrupted(number, frame):
    print('caught SIGINT after', count, flush=True)
    raise SystemExit(0)
signal.signal(signal.SIGINT, interrupted)
while True:
    count += 1
    print('第', count, '步 columns', os.get_terminal_size(0).columns, flush=True)
    time.sleep(0.1)
"""

LEAVE = {"screen": b"\x01d", "tmux": b"\x02d"}

Open = Callable[..., Terminal]


@pytest.fixture
def way(box: SshBox, cloudrun: Laptop) -> Laptop:
    cloudrun.know(box)
    (cloudrun.project / "train.py").write_text(TRAINING, encoding="utf-8")
    return cloudrun


@pytest.fixture
def attached(way: Laptop) -> Iterator[Open]:
    opened: list[Terminal] = []

    def open_(*words: str, term: str = "xterm-256color") -> Terminal:
        terminal = Terminal(way.argv("attach", *words), cwd=way.project, env={**way.environment(), "TERM": term})
        opened.append(terminal)
        return terminal

    yield open_
    for terminal in opened:
        terminal.close()


def launch(way: Laptop, backend: str) -> Path:
    return Path(str(way.json("launch", "exp_attach", "--backend", backend, "--", "python3", "train.py")["log"]))


@pytest.mark.parametrize("backend", ["screen", "tmux"])
def test_in_resize_out_and_the_terminal_is_given_back(way: Laptop, attached: Open, backend: str) -> None:
    log = launch(way, backend)
    terminal = attached("exp_attach")
    terminal.until(lambda: "步 columns 100" in terminal.picture(), what="the training, at this terminal's size")
    assert b"~ ." in terminal.raw  # how to leave was shown on the way in
    key = {"screen": "Ctrl-a", "tmux": "Ctrl-b"}[backend]
    terminal.until(lambda: f"{key} d leaves" in terminal.picture(), what="how to leave, in the session itself")
    terminal.resize(80, 20)
    terminal.until(lambda: "步 columns 80" in terminal.picture(), what="the new size, in the training")
    terminal.type(LEAVE[backend])
    assert terminal.ends() == 0
    assert termios.tcgetattr(terminal.slave) == terminal.before
    assert b"\x1b[?1049l" in terminal.raw
    assert "exp_attach goes on" in terminal.picture()
    assert "cloudrun attach exp_attach" in terminal.picture()
    size = log.stat().st_size
    wait_for(lambda: log.stat().st_size > size, what="the training goes on")


@pytest.mark.parametrize("backend", ["screen", "tmux"])
def test_typing_does_not_stop_the_training_and_ctrl_c_reaches_it(way: Laptop, attached: Open, backend: str) -> None:
    log = launch(way, backend)
    terminal = attached()
    terminal.shows("columns")
    terminal.type(b"hello\r\x1a\x13\x1c\x04q")  # words, Ctrl-Z, Ctrl-S, Ctrl-\, Ctrl-D
    size = log.stat().st_size
    wait_for(lambda: log.stat().st_size > size + 100, what="the training goes on beneath the typing")
    terminal.type(b"\x03")
    wait_for(lambda: b"caught SIGINT" in log.read_bytes(), what="Ctrl-C in the training")
    assert terminal.ends() == 0
    assert "exp_attach is over" in terminal.picture()


def test_a_lost_connection_comes_back_by_itself_and_keys_typed_meanwhile_are_discarded(
    way: Laptop, box: SshBox, attached: Open
) -> None:
    launch(way, "screen")
    terminal = attached("exp_attach")
    terminal.shows("columns")
    assert box.drop_connections() >= 1
    terminal.until(lambda: b"Reconnecting" in terminal.raw)
    terminal.type(b"\x03" * 3)
    before = len(terminal.raw)
    terminal.until(lambda: terminal.raw.count(b"columns", before) > 5, what="the session, again")
    assert way.state("exp_attach")["state"] == "running"
    terminal.type(b"\x01d")
    assert terminal.ends() == 0


def test_tilde_dot_leaves_a_box_that_is_silent(way: Laptop, box: SshBox, attached: Open) -> None:
    launch(way, "screen")
    terminal = attached("exp_attach")
    terminal.shows("columns")
    frozen = list(box.connections())
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        terminal.pump(0.3)
        terminal.type(b"\r~.")
        assert terminal.ends(20) == 0
        assert "left exp_attach" in terminal.picture()
        assert termios.tcgetattr(terminal.slave) == terminal.before
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    assert way.state("exp_attach")["state"] == "running"


@pytest.mark.parametrize("backend", ["screen", "tmux"])
def test_somebody_is_attached_already(way: Laptop, attached: Open, backend: str) -> None:
    launch(way, backend)
    first = attached("exp_attach")
    first.shows("columns")
    asked = attached("exp_attach")
    asked.shows("attached elsewhere")
    asked.type(b"\r")
    assert asked.ends() == 5
    assert first.process.poll() is None
    shared = attached("exp_attach", "--shared")
    shared.shows("columns")
    first.pump(0.3)
    assert first.process.poll() is None
    taker = attached("exp_attach", "--take")
    taker.shows("columns")
    assert first.ends() == 0
    assert "somebody has taken the session over" in first.picture()
    assert shared.ends() == 0
    taker.type(LEAVE[backend])
    assert taker.ends() == 0


@pytest.mark.parametrize("backend", ["screen", "tmux"])
def test_a_terminal_that_the_box_does_not_know(way: Laptop, attached: Open, backend: str) -> None:
    launch(way, backend)
    terminal = attached("exp_attach", term="xterm-ghostty-of-next-year")
    terminal.shows("columns")


def test_without_a_terminal_it_says_so_before_it_connects(way: Laptop) -> None:
    done = way.run("attach", "exp_attach", code=2)
    assert "cloudrun logs -f exp_attach" in done.err


def test_a_detached_run_can_only_be_watched(way: Laptop, attached: Open) -> None:
    way.run("launch", "exp_attach", "--wait", "1", "--backend", "detached", "--", "sleep", "60")
    terminal = attached("exp_attach")
    terminal.ends()
    assert "cloudrun logs -f exp_attach" in terminal.picture()
