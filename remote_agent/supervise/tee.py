"""The tee: between the command and everything that may stand still. The command's parent, its log, its exit record.

`run.sh` ends in `( … ) 2>&1 | exec tee`: bash forked the command before it became this process, so the command is our
child and its wait status, code or signal, is ours to read. It has the contract of `tee -i -a`, and more: a full disk
costs lines and never the training, a terminal that stands still costs what it shows.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import resource
import select
import signal
import struct
import termios
import time
from typing import Any, Dict, List, Optional

from remote_agent import atomic, clock, layout
from remote_agent.supervise import window
from remote_agent.supervise.logfile import LogFile
from remote_agent.supervise.window import Window

READ_BYTES = 1 << 20
#: A command that prints line by line would wake us for each. After a small read the pipe, which holds more than this
#: pause can fill, gathers for that long.
PAUSE_MS = 5
SMALL_READ_BYTES = 32 * 1024
LAST_LINES_S = 0.5
TICK_MS = 1000
#: Where a record of a command's end was wanted and there was no command to wait for: never a success.
NO_COMMAND = 125
_IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGPIPE", "SIGUSR1", "SIGUSR2")
_F_SETPIPE_SZ = 1031  # in `fcntl` from Python 3.10 on
_PR_SET_DUMPABLE = 4


class Tee:
    """Reads fd 0 until its end and waits for the one child. `run` gives the child's wait status."""

    def __init__(self, log: LogFile, shown: Window, record: Optional[str]) -> None:
        self._log = log
        self._window = shown
        self._record = record
        self._due: Optional[Dict[str, Any]] = None  # the exit record, while it could not be written
        self._due_at = 0.0
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._wake = _wake_on_child()
        self._reading = True
        self._pausing = False
        self._child_lives = True
        self.status: Optional[int] = None

    def run(self) -> Optional[int]:
        """None: there was no child."""
        self._log.write(memoryview(b""))
        self._reap()
        while self._reading or self._child_lives:
            self._turn()
        self._log.close()
        self._write_record(at_last=True)
        self._window.close(LAST_LINES_S)
        return self.status

    def _turn(self) -> None:
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        if self._reading and not self._pausing:
            poller.register(0, select.POLLIN)
        waiting = self._window.waiting_fd
        if waiting is not None:
            poller.register(waiting, select.POLLOUT)
        happened = dict(poller.poll(self._patience_ms()))
        self._pausing = False
        if waiting is not None and waiting in happened:
            self._window.flush() if happened[waiting] & select.POLLOUT else self._window.drop()
        if 0 in happened:
            count = self._read(READ_BYTES)
            self._pausing = count < SMALL_READ_BYTES
        if self._wake in happened:
            _drain(self._wake)
            self._reap()
        self._log.tick()
        self._write_record()

    def _patience_ms(self) -> Optional[int]:
        if self._pausing:
            return PAUSE_MS
        return TICK_MS if self._log.troubled or self._due is not None else None

    def _read(self, most: int) -> int:
        """Takes what is there, at most that many bytes: to the log first, then to the window."""
        try:
            count = os.readv(0, [self._buffer[:most]])
        except OSError:
            count = 0
        if count == 0:
            self._reading = False
            return 0
        data = self._buffer[:count]
        self._log.write(data)
        self._window.write(data)
        return count

    def _reap(self) -> None:
        while self._child_lives:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._child_lives = False
                return
            if pid == 0:
                return
            if self.status is None:
                self.status = status
                self._command_ended()

    def _command_ended(self) -> None:
        """Its last words go to the log, then the record is written at once: a daemon of its may hold the pipe for long."""
        left = _bytes_in_pipe()
        while left > 0 and self._reading:
            left -= self._read(min(left, READ_BYTES))
        if self._record is not None and self.status is not None:
            code, number = _told_apart(self.status)
            self._due = {"exit_code": code, "signal": number, "ended_at": clock.now_utc(),
                         "log_bytes_lost": self._log.lost_total_bytes}
            self._write_record()

    def _write_record(self, at_last: bool = False) -> None:
        """Where the disk refuses it is tried again; our own end says the same to whoever waits for us."""
        if self._due is None or self._record is None or (time.monotonic() < self._due_at and not at_last):
            return
        self._due_at = time.monotonic() + TICK_MS / 1000
        try:
            os.makedirs(os.path.dirname(self._record), exist_ok=True)
            atomic.write_json(self._record, self._due)
        except OSError:
            return
        self._due = None


def main(arguments: List[str]) -> int:
    """Returns only where there was no child; else ends as the command ended."""
    options = _parse(arguments)
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    _widen_pipe()
    record = options.exit_record
    if record is not None:
        _forget(record)
    link = layout.Run(os.path.dirname(os.path.dirname(options.log))).current_log if options.current else None
    log = LogFile(options.log, options.limit, link)
    status = Tee(log, window.of_stdout(options.by_hand), record).run()
    if status is None:
        return 0 if record is None else NO_COMMAND
    code, number = _told_apart(status)
    if number is not None:
        _die_of(number)
    os._exit(128 + number if number is not None else code or 0)


def _parse(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tee", allow_abbrev=False)
    parser.add_argument("--log", required=True, help="first part of the log")
    parser.add_argument("--limit", type=int, required=True, help="bytes that all parts together may have")
    parser.add_argument("--exit-record", help="where to write how the command ended")
    parser.add_argument("--current", action="store_true", help="keep the link `current` beside the log at its newest part")
    parser.add_argument("--by-hand", action="store_true", help="stdout is the user's own, a terminal or not")
    return parser.parse_args(arguments)


def _told_apart(status: int) -> "tuple[Optional[int], Optional[int]]":
    """Exit code and signal of a wait status; one of them is None."""
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), None


def _wake_on_child() -> int:
    """A descriptor that is readable after a child ended."""
    reading, writing = os.pipe()
    for fd in (reading, writing):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return reading


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass


def _bytes_in_pipe() -> int:
    try:
        return int(struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, b"\0\0\0\0"))[0])
    except OSError:
        return 0


def _widen_pipe() -> None:
    """As much as the kernel grants, so that a slow disk is not at once the command's matter."""
    for size_bytes in (1 << 20, 1 << 19, 1 << 18, 1 << 17):
        try:
            fcntl.fcntl(0, _F_SETPIPE_SZ, size_bytes)
            return
        except OSError:
            continue


def _forget(path: str) -> None:
    """An older record must not be taken for this command's."""
    try:
        os.unlink(path)
    except OSError:
        pass


def _die_of(number: int) -> None:
    """Ends by that signal, leaving no core file. Returns where that cannot be (as a container's pid 1)."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    _not_dumpable()
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)


def _not_dumpable() -> None:
    """A core pattern that is a program gets its core whatever RLIMIT_CORE says."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass
