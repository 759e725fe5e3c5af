"""The SSH transport: one connection for all that a command does, a second one only where the server allows no more sessions."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

import paramiko

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.transport import sftp
from cloudrun.transport.base import Address, Counts, Met, Options, TerminalSize
from cloudrun.transport.dial import Dialler
from cloudrun.transport.link import WINDOW_BYTES, Link
from cloudrun.transport.tail import Tail
from cloudrun.transport.tcp import Ahead

#: Waits are cut into slices so that Ctrl-C is heard on every system.
SLICE_S = 0.25
#: How long the server may take to open a session or start a command.
START_TIMEOUT_S = 30.0
MOST_LINKS = 4


class SshChannel:
    """One command running over SSH. stderr is drained by a thread of its own, so that it never blocks stdout."""

    def __init__(self, channel: paramiko.Channel, link: Link, host: str) -> None:
        self._channel = channel
        self._link = link
        self._host = host
        self._held = memoryview(b"")
        self._selected = False
        channel.settimeout(SLICE_S)
        self._tail = Tail(self._drain_stderr)

    def _drain_stderr(self, tail: Tail) -> None:
        while True:
            try:
                data = self._channel.recv_stderr(65536)
            except TimeoutError:
                continue
            except Exception:  # the link's end; whoever reads stdout says so
                return
            if not data:
                return
            tail.add(data)

    def send(self, data: bytes, timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        rest = memoryview(data)
        while rest:
            try:
                sent = self._channel.send(bytes(rest[: 1 << 20]))
            except TimeoutError:
                self._alive()
                if time.monotonic() > deadline:
                    raise TimeoutError(_("the command took no input for {seconds:.0f} s").format(seconds=timeout_s)) from None
                continue
            except (OSError, EOFError, paramiko.SSHException) as error:
                self._alive()
                raise BrokenPipeError("the command has ended") from error
            if sent == 0:
                self._alive()
                raise BrokenPipeError("the command reads no more")
            rest = rest[sent:]
        self._alive()

    def send_eof(self) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.shutdown_write()

    def receive(self, max_bytes: int = 65536, timeout_s: float | None = None) -> bytes:
        if self._selected and not self._held:  # bytes held here would be hidden from `select`
            return self._next(max_bytes, timeout_s)
        if not self._held:
            # All that is there: paramiko moves what stays in its buffer at each read, which costs dearly in small bites.
            data = self._next(WINDOW_BYTES, timeout_s)
            if len(data) <= max_bytes:
                return data
            self._held = memoryview(data)
        taken = bytes(self._held[:max_bytes])
        self._held = self._held[max_bytes:]
        return taken

    def _next(self, max_bytes: int, timeout_s: float | None) -> bytes:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            if timeout_s == 0 and not self._channel.recv_ready() and not self._at_end():
                raise TimeoutError
            try:
                data = self._channel.recv(max_bytes)
            except TimeoutError:
                if deadline is not None and time.monotonic() >= deadline:
                    raise
                continue
            if not data:
                self._alive_or_ended()
            return data

    def _at_end(self) -> bool:
        return bool(self._channel.eof_received) or self._channel.closed

    def _alive_or_ended(self) -> None:
        """stdout has ended: by the command or by the link? paramiko says the same for both."""
        if not self._channel.eof_received and self._channel.exit_status == -1:
            self._alive()

    def _alive(self) -> None:
        if not self._link.is_active():
            raise CloudrunError("connection-lost", host=self._host)

    def stderr_tail(self) -> bytes:
        return self._tail.content(ended=self._at_end() or self._channel.exit_status_ready())

    def exit_status(self, timeout_s: float) -> int | None:
        deadline = time.monotonic() + timeout_s
        while not self._channel.status_event.wait(min(SLICE_S, timeout_s)):
            if time.monotonic() >= deadline:
                raise TimeoutError(_("the command did not end within {seconds:.0f} s").format(seconds=timeout_s))
        code = self._channel.exit_status
        return code if code >= 0 else None  # paramiko's -1: a signal, or nobody said

    def resize(self, size: TerminalSize) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.resize_pty(size.columns, size.rows)

    def fileno(self) -> int | None:
        self._selected = True
        return int(self._channel.fileno())

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()


@contextlib.contextmanager
def _beside(work: Callable[[], None] | None) -> Iterator[None]:
    """Does it in a thread while the block waits for the network. What fails in it fails where it is needed."""

    def guarded() -> None:
        with contextlib.suppress(Exception):
            if work is not None:
                work()

    working = threading.Thread(target=guarded, name="meanwhile", daemon=True)
    working.start()
    yield
    working.join()


class SshTransport:
    """An open way to a box."""

    def __init__(self, address: Address, options: Options, ahead: Ahead | None = None) -> None:
        self.address = address
        self.counts = Counts()
        self._dialler = Dialler(address, options, ahead)
        self._links: deque[Link] = deque()
        #: False once it has turned out to be missing or broken here.
        self._has_sftp = True
        with _beside(options.meanwhile):
            self._connect()

    def _connect(self) -> Link:
        link = self._dialler.open()
        self.counts.connections += 1
        self._links.append(link)
        return link

    @property
    def met(self) -> Met:
        return self._dialler.met(self._links[0])

    def exec(self, command: str, terminal: TerminalSize | None = None, term: str = "xterm-256color") -> SshChannel:
        channel, link = self._session()
        with self._translated(channel, link):
            if terminal is not None:
                self._ask_terminal(channel, terminal, term)
            channel.exec_command(command)
        self.counts.execs += 1
        self.counts.commands.append(command)
        return SshChannel(channel, link, self.address.shown)

    def _ask_terminal(self, channel: paramiko.Channel, terminal: TerminalSize, term: str) -> None:
        try:
            channel.get_pty(term, terminal.columns, terminal.rows)
        except paramiko.SSHException as error:
            if not channel.get_transport().is_active():
                raise
            raise CloudrunError("terminal-refused", host=self.address.shown) from error

    def _session(self) -> tuple[paramiko.Channel, Link]:
        """A session channel; on another connection where this one may have no more (sshd's MaxSessions)."""
        for link in list(self._links):
            try:
                return link.open_session(timeout=START_TIMEOUT_S), link
            except paramiko.ChannelException:
                continue
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise self._lost(link, error) from error
        if len(self._links) >= MOST_LINKS:
            raise CloudrunError("no-more-sessions", host=self.address.shown)
        link = self._connect()
        try:
            return link.open_session(timeout=START_TIMEOUT_S), link
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise CloudrunError("no-more-sessions", host=self.address.shown) from error

    @contextlib.contextmanager
    def _translated(self, channel: paramiko.Channel, link: Link) -> Iterator[None]:
        """paramiko waits for the answer to a request without end: a timer that closes the channel is its deadline."""
        timer = threading.Timer(START_TIMEOUT_S, channel.close)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self._lost(link, error) from error
        finally:
            timer.cancel()

    def _lost(self, link: Link, error: Exception) -> CloudrunError:
        if not link.is_active():
            return CloudrunError("connection-lost", host=self.address.shown)
        return CloudrunError("exec-refused", host=self.address.shown, detail=str(error) or type(error).__name__)

    def put(self, data: bytes, path: str, mode: int = 0o600, progress: Callable[[int], None] | None = None) -> None:
        """By SFTP; where the server has none, or one that its shell's greeting breaks, through the stdin of a command."""
        if self._has_sftp:
            try:
                self._put_by_sftp(sftp.Upload(data, path, mode, progress))
                return
            except CloudrunError:
                raise
            except sftp.BROKEN:
                if not self._is_open():
                    raise CloudrunError("connection-lost", host=self.address.shown) from None
                self._has_sftp = False
        self._put_by_exec(sftp.Upload(data, path, mode, progress))

    def _put_by_sftp(self, upload: sftp.Upload) -> None:
        channel, link = self._session()
        self.counts.sftp_sessions += 1
        try:
            with self._translated(channel, link):
                channel.invoke_subsystem("sftp")
        except CloudrunError as error:
            channel.close()
            if error.code == "connection-lost":
                raise
            raise paramiko.SFTPError("no sftp subsystem") from error
        try:
            sftp.write(channel, upload)
        finally:
            channel.close()

    def _put_by_exec(self, upload: sftp.Upload) -> None:
        channel = self.exec(upload.command())
        try:
            with contextlib.suppress(BrokenPipeError):  # what the command had to say stands in its stderr
                upload.wait_ready(lambda: channel.receive(timeout_s=sftp.ANSWER_TIMEOUT_S))
                upload.feed(channel.send)
            channel.send_eof()
            code = channel.exit_status(sftp.FINISH_TIMEOUT_S)
        except TimeoutError as error:
            raise CloudrunError("put-failed", path=upload.path, host=self.address.shown, detail=str(error)) from error
        finally:
            channel.close()
        if code is None and not self._is_open():
            raise CloudrunError("connection-lost", host=self.address.shown)
        if code != 0:
            detail = channel.stderr_tail().decode("utf-8", "replace").strip() or _("exit code {code}").format(code=code)
            raise CloudrunError("put-failed", path=upload.path, host=self.address.shown, detail=detail)

    def _is_open(self) -> bool:
        return all(link.is_active() for link in self._links)

    def close(self) -> None:
        for link in self._links:
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                link.close()
        self._dialler.close()

