"""`window monitor` and `window log RUN_DIR`: what the two windows beside the train window show."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
from typing import List, Optional

from remote_agent import processes
from remote_agent.protocol import ProcessRef
from remote_agent.sessions.environment import TRAIN

_TRAIN_CHECK_S = 2.0


def main(arguments: List[str]) -> int:
    if arguments[:1] == ["monitor"] and len(arguments) == 1:
        from remote_agent.sessions.monitor import show
        return show(Window())
    if arguments[:1] == ["log"] and len(arguments) == 2:
        from remote_agent.sessions.log_window import follow
        return follow(Window(), arguments[1])
    sys.stderr.write("usage: window monitor | window log RUN_DIR\n")
    return 2


class Window:
    """The terminal of a window: bytes out, keys thrown away, and a wait that ends when the window is not wanted any more."""

    def __init__(self) -> None:
        self._train = _train()
        self._checked = time.monotonic()
        self._keys = os.isatty(0)
        if self._keys:
            _quiet(0)

    def write(self, data: bytes) -> None:
        """Blocks as long as the terminal does; nobody waits for this process."""
        while data:
            data = data[os.write(1, data):]

    def wait(self, seconds: float) -> bool:
        """Waits; False where the terminal is gone or the train window's program has ended."""
        ends = time.monotonic() + seconds
        while True:
            if time.monotonic() - self._checked >= _TRAIN_CHECK_S:
                self._checked = time.monotonic()
                if self._train is not None and not processes.alive(self._train):
                    return False
            left = min(ends - time.monotonic(), _TRAIN_CHECK_S)
            if left <= 0:
                return True
            if not self._keys:
                time.sleep(left)
            elif select.select([0], [], [], left)[0] and not _drop_keys():
                return False

    def columns(self) -> int:
        try:
            return os.get_terminal_size(1).columns or 80
        except OSError:
            return 80


def _drop_keys() -> bool:
    try:
        return os.read(0, 4096) != b""
    except OSError:
        return False


def _train() -> Optional[ProcessRef]:
    pid, _, ticks = os.environ.get(TRAIN, "").partition(":")
    return ProcessRef(int(pid), int(ticks)) if pid.isdigit() and ticks.isdigit() else None


def _quiet(fd: int) -> None:
    """Keys are not shown and not kept for a line's end: what a log asks of the terminal would be answered into it."""
    try:
        mode = termios.tcgetattr(fd)
        mode[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(fd, termios.TCSANOW, mode)
    except termios.error:
        pass
