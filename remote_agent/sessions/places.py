"""Private folders for the sockets (and records) of our own sessions. What is not ours is never used, and never chmod-ed.

A socket's path holds 107 bytes. Where the home is too long for the name, cannot be written, or lies on a disk that
knows no sockets, a private folder of this user and home under /tmp (or where that takes nothing, /var/tmp or /dev/shm)
serves. Looking goes through all of them, and what no session needs any more is taken away from there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import socket
import stat
import time
from dataclasses import dataclass
from typing import Iterator, List, Optional

from remote_agent import layout, processes
from remote_agent.protocol import AgentError, ProcessRef
from remote_agent.words import _

_MAX_SOCKET_PATH_BYTES = 107
_MAX_PID_DIGITS = 7
_POLL_S = 0.05
#: Folders of everybody's, for boxes whose home cannot serve. Fixed words: another login with another TMPDIR looks here too.
SHARED = ("/tmp", "/var/tmp", "/dev/shm")
_LOCK = ".starting"


@dataclass
class Record:
    """`<folder of detached>/<run>.json`: which process it is, on which boot of the box."""

    name: str
    process: ProcessRef
    box_id: str
    schema: int = 1

    def lives(self) -> bool:
        return self.box_id == processes.box_id() and processes.alive(self.process)


def existing(kind: str) -> List[str]:
    """The folders that may hold what is of this kind ("screen", "tmux" or "detached"), those that are there and ours alone."""
    return [path for path in _candidates(kind) if _is_ours(path)]


def make(kind: str, name: str) -> str:
    """A folder where a socket for this session can really be made. Raises AgentError "session-folder-refused"."""
    reasons = []
    for path in _candidates(kind):
        if not _fits(path, name):
            reasons.append(_("{path}: too long for a socket's path").format(path=path))
            continue
        try:
            _make_both(path)
            _try_socket(path)
            return path
        except OSError as error:
            reasons.append("%s: %s" % (error.filename or path, error.strerror or error))
    raise AgentError("session-folder-refused", name=name, reason="; ".join(reasons))


@contextlib.contextmanager
def starting(folder: str, deadline_s: float) -> Iterator[None]:
    """One start at a time, that no name is given twice. The lock's descriptor is not inherited by what is started."""
    ends = time.monotonic() + deadline_s
    fd = _take_lock(folder)
    while fd is None:
        if time.monotonic() > ends:
            raise AgentError("session-start-failed", backend=os.path.basename(folder),
                             detail=_("another start went on for {seconds:g} s").format(seconds=deadline_s))
        time.sleep(_POLL_S)
        fd = _take_lock(folder)
    try:
        yield
    except BaseException:
        os.close(fd)
        tidy(os.path.basename(folder))
        raise
    os.close(fd)


def tidy(kind: str) -> None:
    """Takes away what is dead, and from under /tmp the folders too when nothing is left in them. Raises nothing.

    Nothing is touched while a session starts: a socket that does not answer yet would look dead.
    """
    for folder in existing(kind):
        with contextlib.suppress(OSError):
            fd = _take_lock(folder)
            if fd is not None:
                try:
                    _sweep(folder)
                finally:
                    os.close(fd)


def _candidates(kind: str) -> List[str]:
    mark = hashlib.sha256(os.fsencode(layout.Home.of_user().home)).hexdigest()[:8]
    return [_at_home(kind), *("%s/cloudrun-%d-%s/%s" % (shared, os.getuid(), mark, kind) for shared in SHARED)]


def _at_home(kind: str) -> str:
    home = layout.Home.of_user()
    paths = {"screen": home.screen_sockets, "tmux": home.tmux_sockets, "detached": home.detached}
    return os.path.realpath(paths[kind])


def _fits(folder: str, name: str) -> bool:
    return len(os.fsencode(folder)) + len("/.") + _MAX_PID_DIGITS + len(name) <= _MAX_SOCKET_PATH_BYTES


def _take_lock(folder: str) -> Optional[int]:
    """The lock of the places beside this folder, which is there then; None while another holds it. Raises OSError.

    Whoever tidies may take folder and lock away: a lock counts only where its file is still the one that is there.
    """
    path = os.path.join(os.path.dirname(folder), _LOCK)
    while True:
        _make_private(os.path.dirname(folder))
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(fd, path):
                _make_private(folder)
                return fd
            os.close(fd)
        except OSError as error:
            os.close(fd)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            return None


def _is_still(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except OSError:
        return False


def _is_dead(path: str) -> bool:
    """Whether nobody listens at a socket (or reads a FIFO) any more, or the process of a record is gone."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISSOCK(mode):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.setblocking(False)
                return probe.connect_ex(path) == errno.ECONNREFUSED
        if stat.S_ISFIFO(mode):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            return False
    except OSError as error:
        return error.errno == errno.ENXIO
    record = layout.read_record(Record, path)
    return record is not None and not record.lives()


def _sweep(folder: str) -> None:
    for path in [os.path.join(folder, name) for name in os.listdir(folder)]:
        if _is_dead(path):
            with contextlib.suppress(OSError):
                os.unlink(path)
    above = os.path.dirname(folder)
    if os.path.dirname(above) in SHARED and not os.listdir(folder):
        os.rmdir(folder)
        if os.listdir(above) == [_LOCK]:
            os.unlink(os.path.join(above, _LOCK))
            os.rmdir(above)


def _make_both(path: str) -> None:
    for folder in (os.path.dirname(path), path):
        _make_private(folder)


def _make_private(path: str) -> None:
    """Raises OSError where a folder of somebody else's, or something that is no folder, stands there."""
    try:
        os.makedirs(path, mode=0o700)
    except FileExistsError:
        pass
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, _("is not a folder of our own"), path)
    if status.st_mode & 0o077:
        os.chmod(path, 0o700)


def _is_ours(path: str) -> bool:
    """Whether both the folder and the one above are folders (no links) of this user's that nobody else may enter.

    A `chmod -R 777 ~` opens them, and the sockets with them: screen finds no session then. They are ours: closed again.
    """
    above = os.path.dirname(path)
    try:
        for folder in (above, path):
            status = os.lstat(folder)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                return False
            if status.st_mode & 0o077:
                _close(folder, status.st_mode)
                _close_sockets(folder)
    except OSError:
        return False
    return True


def _close(folder: str, mode: int) -> None:
    """Raises OSError where others may go on putting something there."""
    try:
        os.chmod(folder, 0o700)
    except OSError:
        if mode & 0o022:
            raise


def _close_sockets(folder: str) -> None:
    """Others' go: they stand where ours are looked for. Screen knows no modes but 0600 and, for attached, 0700."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        status = os.lstat(path)
        if stat.S_ISSOCK(status.st_mode) or stat.S_ISFIFO(status.st_mode):
            if status.st_uid != os.getuid():
                os.unlink(path)
            elif status.st_mode & 0o077:
                os.chmod(path, 0o600)


def _try_socket(folder: str) -> None:
    """Some network disks cannot hold a socket. Raises OSError."""
    path = os.path.join(folder, ".try-%s" % secrets.token_hex(4))
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)
