"""A terminal that a test looks at: a program in a pty, and the picture that a person would see (pyte)."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte


class Terminal:
    """Runs one program in a pty of its own session. `raw` keeps every byte; `picture()` is the screen now.

    COLUMNS and LINES are set to something else than the terminal's size, as shells that export them do.
    """

    def __init__(self, argv: list[str], *, cwd: Path, env: dict[str, str], columns: int = 100, rows: int = 24) -> None:
        self.master, slave = os.openpty()
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.slave = slave

        def controlling() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        variables = {"TERM": "xterm-256color", **env, "COLUMNS": "33", "LINES": "7"}
        self.process = subprocess.Popen(argv, cwd=cwd, env=variables, stdin=slave, stdout=slave,
                                        stderr=slave, preexec_fn=controlling, close_fds=True)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)
        if hasattr(self, "process"):
            os.kill(self.process.pid, signal.SIGWINCH)

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def picture(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def pump(self, seconds: float = 0.05) -> None:
        """Reads what there is, for at most so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                return
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            self.raw += data
            self._stream.feed(data)

    def until(self, condition: Callable[[], object], timeout_s: float = 15, what: str = "") -> None:
        """Reads until the condition holds. Raises AssertionError with the picture when it does not in time."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            self.pump()
            assert time.monotonic() < deadline, f"{what or condition}\n{self.picture()}\n{self.raw[-600:]!r}"

    def shows(self, text: str, timeout_s: float = 15) -> None:
        self.until(lambda: text in self.picture(), timeout_s, f"{text!r} on the screen")

    def ends(self, timeout_s: float = 15) -> int:
        """Reads until the program ends, and gives its exit code."""
        self.until(lambda: self.process.poll() is not None, timeout_s, "the program's end")
        self.pump(0.2)
        return int(self.process.returncode)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)
