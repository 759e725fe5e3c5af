"""The user's terminal: leaving by ~. and giving everything back."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios

import pytest

from cloudrun.cli.terminal import EscapeFilter
from tests.support.waiting import wait_for


@pytest.mark.parametrize(("typed", "passed", "leaves"), [
    (b"abc", b"abc", False), (b"~.", b"", True), (b"a~.", b"a~.", False), (b"a\r~.", b"a\r", True), (b"a\n~.x", b"a\n", True),
    (b"~~.", b"~.", False), (b"~x.", b"~x.", False), (b"\r~\r~.", b"\r~\r", True), ("训\r~.".encode(), "训\r".encode(), True),
])
def test_tilde_dot_leaves_at_the_beginning_of_a_line_only(typed: bytes, passed: bytes, leaves: bool) -> None:
    assert EscapeFilter().feed(typed) == (passed, leaves)
    filter_, out, left = EscapeFilter(), b"", False
    for i in range(len(typed)):  # the same, however the keys arrive
        some, left = filter_.feed(typed[i:i + 1])
        out += some
        if left:
            break
    assert (out, left) == (passed, leaves)


BODY = {
    "plain": "t.write(b'in\\r\\n'); t.wait(None, 30)",
    "exception": "t.write(b'in\\r\\n'); t.wait(None, 30); raise RuntimeError",
    "signal": "t.write(b'in\\r\\n'); [t.wait(None, 30) for _ in range(99)]",
}


@pytest.mark.parametrize("how", sorted(BODY))
def test_the_terminal_is_given_back_whatever_happens(how: str) -> None:
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    script = f"from cloudrun.cli import terminal\nwith terminal.raw() as t:\n    {BODY[how]}\n"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=slave, stdout=slave, stderr=subprocess.DEVNULL)
    try:
        seen = b""
        while b"in\r\n" not in seen:
            seen += os.read(master, 1024)
        wait_for(lambda: termios.tcgetattr(slave)[3] != before[3], what="raw mode")
        if how == "signal":
            process.send_signal(signal.SIGTERM)
        else:
            os.write(master, b"x")
        while b"\x1b[?1049l" not in seen:
            seen += os.read(master, 1024)
        process.wait(10)
        assert termios.tcgetattr(slave) == before
        for mode in (b"\x1b[?2004l", b"\x1b[?1000l", b"\x1b[?1006l", b"\x1b[?25h"):
            assert mode in seen
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(slave)
