"""One start of run.sh: its process group, its terminal, and how the text at its heart ended."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Dict, List, NoReturn, Optional

from remote_agent import clock, processes, tree
from remote_agent.protocol import ProcessRef
from remote_agent.supervise.terminal import Terminal
from remote_agent.verdict import Outcome, read_record

#: Of what bash itself says (a command that is no bash): it has no log yet to say it in.
_MAX_COMPLAINT_BYTES = 16 * 1024


@dataclass
class Start:
    """What run.sh is started with. `exit_record`: where the tee will write how it ended."""

    run_sh: str
    exit_record: str
    env: Dict[str, str]


class Step:
    """run.sh, started: its process becomes the tee, and the tee's first child is the command.

    Raises OSError where it could not be started at all.
    """

    def __init__(self, start: Start, terminal: Terminal) -> None:
        _unlink(start.exit_record)
        self._record = start.exit_record
        self._complaints = _scratch()
        terminal.prepare()
        self.pid = _spawn(start, terminal, self._complaints)
        terminal.foreground(self.pid)
        self.tee = processes.ref(self.pid)
        #: The command's process, once run.sh has become the tee.
        self.command: Optional[ProcessRef] = None

    def look(self) -> bool:
        """Looks for the command's process; True when it is found now for the first time."""
        if self.command is not None or tree.is_shell(self.pid):
            return False
        below = [ref for ref in map(processes.ref, processes.children().get(self.pid, [])) if ref is not None]
        if below:
            self.command = min(below, key=lambda ref: (ref.start_ticks, ref.pid))
        return self.command is not None

    def outcome(self, statuses: Dict[int, int]) -> Optional[Outcome]:
        """How it ended, or None while it has not. `statuses`: wait statuses of what has been reaped.

        The tee's record comes first; then the command's own status, which we have where the tee died before it; then the
        tee's, which ends as the command did.
        """
        recorded = read_record(self._record)
        if recorded is not None:
            return recorded
        if self.command is not None and self.command.pid in statuses:
            return _from_status(statuses[self.command.pid])
        if self.pid in statuses and not self._unreaped():
            return _from_status(statuses[self.pid])
        return None

    @property
    def began(self) -> bool:
        """Whether the text at the heart was seen to run."""
        return self.command is not None or os.path.exists(self._record)

    def _unreaped(self) -> bool:
        """Whether the command lives, or has ended as our child and has not been waited for."""
        command = self.command
        return command is not None and (processes.alive(command) or processes.parent(command.pid) == os.getpid())

    def complaint(self) -> bytes:
        """What bash and the tee said on their own behalf."""
        return os.pread(self._complaints, _MAX_COMPLAINT_BYTES, 0)

    def close(self) -> None:
        os.close(self._complaints)


def _scratch() -> int:
    """A nameless file in memory. Pythons built for old systems (conda's, uv's) have no memfd_create, whatever the kernel."""
    creating = getattr(os, "memfd_create", None)
    if creating is not None:
        return int(creating("complaints"))
    import tempfile  # heavy, and mostly not needed

    for folder in ("/dev/shm", None):
        try:
            fd, path = tempfile.mkstemp(prefix="cloudrun-", dir=folder)
        except OSError:
            continue
        os.unlink(path)
        return fd
    return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)  # what bash says costs less than the start


def _spawn(start: Start, terminal: Terminal, complaints: int) -> int:
    """Forks and executes; gives the pid. Raises OSError of the exec."""
    reading, writing = os.pipe()
    everything = signal.valid_signals()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, everything)
    try:
        pid = os.fork()
        if pid == 0:
            _become(start, terminal, complaints, writing)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(writing)
    failure = os.read(reading, 16)
    os.close(reading)
    if failure:
        os.waitpid(pid, 0)
        raise OSError(int(failure), os.strerror(int(failure)), "bash")
    return pid


def _become(start: Start, terminal: Terminal, complaints: int, gate: int) -> NoReturn:
    """In the child: own group in the foreground, clean signals, no open files of ours, then bash."""
    try:
        os.setpgid(0, 0)
        terminal.foreground(os.getpid())
        if not terminal.present:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(complaints, 2)
        for fd in _open_files():
            if fd > 2 and fd != gate:
                _close(fd)
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            _set_default(number)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.chdir("/")
        os.execvpe("bash", ["bash", start.run_sh], start.env)
    except OSError as error:
        os.write(gate, b"%d" % (error.errno or 5))
    finally:
        os._exit(127)


def _set_default(number: int) -> None:
    try:
        signal.signal(number, signal.SIG_DFL)
    except (OSError, ValueError):
        pass  # kept by the C library


def _open_files() -> List[int]:
    return [int(name) for name in os.listdir("/proc/self/fd")]


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        pass


def _from_status(status: int) -> Outcome:
    if os.WIFSIGNALED(status):
        return Outcome(None, os.WTERMSIG(status), clock.now_utc())
    return Outcome(os.WEXITSTATUS(status), None, clock.now_utc())


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
