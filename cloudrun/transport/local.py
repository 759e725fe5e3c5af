"""This machine as the box: commands are child processes, with the same contract as over SSH."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.transport.base import Address, Counts, Met, Options, TerminalSize
from cloudrun.transport.tail import Tail

#: What a command may take to end by itself when its channel is closed, before it is made to.
END_TIMEOUT_S = 1.0
_BLOCK_BYTES = 1024 * 1024


class LocalChannel:
    """One child process. `stdin` and `stdout` are file descriptors; with a terminal both are the terminal's."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: int, stdout: int) -> None:
        self._process = process
        self._stdin: int | None = stdin
        self._stdout = stdout
        self._is_terminal = stdin == stdout
        self._closed = False
        os.set_blocking(stdin, False)
        os.set_blocking(stdout, False)
        self._tail = Tail(self._drain_stderr)

    def _drain_stderr(self, tail: Tail) -> None:
        stream = self._process.stderr  # none with a terminal: all comes on it
        with contextlib.suppress(OSError, ValueError):
            while stream is not None and (data := os.read(stream.fileno(), 65536)):
                tail.add(data)

    def send(self, data: bytes, timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        rest = memoryview(data)
        while rest:
            if self._stdin is None:
                raise BrokenPipeError("the command reads no more")
            writable = select.select([], [self._stdin], [], max(0.0, deadline - time.monotonic()))[1]
            if not writable:
                raise TimeoutError(_("the command took no input for {seconds:.0f} s").format(seconds=timeout_s))
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(self._stdin, rest[:65536]) :]

    def send_eof(self) -> None:
        if self._stdin is None:
            return
        if self._is_terminal:
            with contextlib.suppress(OSError):
                os.write(self._stdin, b"\x04")
            return
        os.close(self._stdin)
        self._stdin = None

    def receive(self, max_bytes: int = 65536, timeout_s: float | None = None) -> bytes:
        while True:
            if not select.select([self._stdout], [], [], timeout_s)[0]:
                raise TimeoutError
            try:
                return os.read(self._stdout, max_bytes)
            except BlockingIOError:
                continue
            except OSError:  # a terminal whose last user has gone says EIO
                return b""

    def stderr_tail(self) -> bytes:
        return self._tail.content(ended=self._process.poll() is not None)

    def exit_status(self, timeout_s: float) -> int | None:
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(_("the command did not end within {seconds:.0f} s").format(seconds=timeout_s)) from error
        return code if code >= 0 else None  # by a signal

    def resize(self, size: TerminalSize) -> None:
        if self._is_terminal and not self._closed:
            _set_size(self._stdout, size)

    def fileno(self) -> int | None:
        return self._stdout

    def close(self) -> None:
        """Closes both ends, as a closed SSH channel does; a command that does not end by that is ended."""
        if self._closed:
            return
        self._closed = True
        if self._stdin is not None and not self._is_terminal:
            os.close(self._stdin)
        os.close(self._stdout)
        self._stdin = None
        for number in (None, signal.SIGHUP, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_TIMEOUT_S)
                return


class LocalTransport:
    """The host `local`."""

    def __init__(self, address: Address, options: Options) -> None:
        if os.name != "posix":
            raise CloudrunError("local-needs-posix")
        self.address = address
        self.counts = Counts(connections=1)
        self._channels: list[LocalChannel] = []

    @property
    def met(self) -> Met:
        return Met()

    def exec(self, command: str, terminal: TerminalSize | None = None, term: str = "xterm-256color") -> LocalChannel:
        try:
            channel = _with_terminal(command, terminal, term) if terminal else _with_pipes(command)
        except OSError as error:
            raise CloudrunError("exec-refused", host="local", detail=str(error)) from error
        self.counts.execs += 1
        self.counts.commands.append(command)
        self._channels.append(channel)
        return channel

    def put(self, data: bytes, path: str, mode: int = 0o600, progress: Callable[[int], None] | None = None) -> None:
        temporary = Path(f"{path}.part-{secrets.token_hex(6)}")
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(fd, "wb") as stream:
                    os.fchmod(fd, mode)
                    for start in range(0, len(data), _BLOCK_BYTES):
                        stream.write(data[start : start + _BLOCK_BYTES])
                        if progress is not None:
                            progress(min(start + _BLOCK_BYTES, len(data)))
                    stream.flush()
                    os.fsync(fd)
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise CloudrunError("put-failed", path=path, host="local", detail=error.strerror or str(error)) from error

    def close(self) -> None:
        for channel in self._channels:
            channel.close()


def _with_pipes(command: str) -> LocalChannel:
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        bufsize=0, start_new_session=True, cwd=Path.home(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    # The descriptors are the channel's from now on; the objects that Popen made must not close them a second time.
    stdin, stdout = os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno())
    process.stdin.close()
    process.stdout.close()
    return LocalChannel(process, stdin, stdout)


def _with_terminal(command: str, size: TerminalSize, term: str) -> LocalChannel:
    import pty

    ours, theirs = pty.openpty()
    try:
        _set_size(theirs, size)
        process = subprocess.Popen(
            # A shell without job control takes the terminal by opening it: the session has none yet, so it becomes this one.
            ["/bin/sh", "-c", 'exec <"$1" >"$1" 2>&1; shift; exec /bin/sh -c "$1"', "sh", os.ttyname(theirs), command],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            cwd=Path.home(), env={**os.environ, "TERM": term},
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return LocalChannel(process, ours, ours)


def _set_size(fd: int, size: TerminalSize) -> None:
    import fcntl
    import termios

    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))
