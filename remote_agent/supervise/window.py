"""The tee's window: shows what a terminal takes at once, keeps the newest for when it takes more, waits for nothing."""

from __future__ import annotations

import os
import select
import stat
import time
from typing import Optional

from remote_agent.words import _

#: What a window that stands still may be behind before it misses something.
BACKLOG_BYTES = 256 * 1024


class Window:
    """A file descriptor that may stand still for hours or vanish. Nothing here raises OSError."""

    def __init__(self, fd: Optional[int], patient: bool = False) -> None:
        """`fd` None: there is no window. `patient`: it is a file or a pipe of the user's own, which misses nothing."""
        self._fd = fd
        self._patient = patient
        self._backlog = bytearray()
        self._missed_bytes = 0

    @property
    def waiting_fd(self) -> Optional[int]:
        """To be polled for POLLOUT while there is something to show; then call `flush`."""
        return self._fd if self._backlog else None

    def write(self, data: memoryview) -> None:
        if self._fd is None:
            return
        if self._patient:
            self._write_all(data)
            return
        stood_still = bool(self._backlog)
        self._keep(data)
        if not stood_still:
            self.flush()

    def flush(self) -> None:
        """Shows what the window takes now."""
        if self._fd is None:
            return
        if self._missed_bytes:
            words = _("{count} bytes were not shown here; they are in the log").format(count=self._missed_bytes)
            said = ("\r\n[cloudrun: %s]\r\n" % words).encode()
            self._backlog[:0] = said
            self._missed_bytes = 0
        try:
            while self._backlog:
                del self._backlog[:os.write(self._fd, self._backlog)]
        except BlockingIOError:
            pass
        except OSError:
            self.drop()

    def drop(self) -> None:
        """The window is gone; that is no matter."""
        self._fd = None
        self._backlog.clear()

    def close(self, patience_s: float) -> None:
        """Gives the window that long to show the last lines."""
        deadline = time.monotonic() + patience_s
        while self.waiting_fd is not None and time.monotonic() < deadline:
            poller = select.poll()
            poller.register(self.waiting_fd, select.POLLOUT)
            if poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                self.flush()
        self.drop()

    def _keep(self, data: memoryview) -> None:
        """Adds to what is to be shown; past the limit the older half goes, up to a line's end."""
        self._backlog += data
        excess = len(self._backlog) - BACKLOG_BYTES
        if excess <= 0:
            return
        cut = excess + BACKLOG_BYTES // 2
        line_end = self._backlog.find(b"\n", cut) + 1
        cut = line_end or cut
        del self._backlog[:cut]
        self._missed_bytes += cut

    def _write_all(self, data: memoryview) -> None:
        assert self._fd is not None
        try:
            while data:
                data = data[os.write(self._fd, data):]
        except OSError:
            self.drop()


def of_stdout(also_no_terminal: bool) -> Window:
    """The window on fd 1: a terminal; with `also_no_terminal` also a pipe or file that the user gave by hand."""
    if os.isatty(1):
        return Window(_reopened_terminal())
    try:
        mode = os.fstat(1).st_mode
    except OSError:
        return Window(None)
    shown = also_no_terminal and (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode))
    return Window(1 if shown else None, patient=True)


def _reopened_terminal() -> Optional[int]:
    """A description of our own: O_NONBLOCK on the one that we share would make the training's prints fail.

    None where the terminal may not be opened (another user's): then nothing is shown, rather than waited for.
    """
    for path in ("/proc/self/fd/1", _name_of_terminal()):
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            continue
    return None


def _name_of_terminal() -> str:
    try:
        return os.ttyname(1)
    except OSError:
        return "/dev/tty"
