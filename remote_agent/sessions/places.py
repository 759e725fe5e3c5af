"""Private folders for the sockets (and records) of our own sessions. What is not ours is never used, and never chmod-ed.

A socket's path holds 107 bytes. Where the home is too long for the name, cannot be written, or lies on a disk that
knows no sockets, a private folder of this user and home under /tmp serves. Looking goes through both.
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
from typing import Iterator, List

from remote_agent import layout
from remote_agent.protocol import AgentError

_MAX_SOCKET_PATH_BYTES = 107
_MAX_PID_DIGITS = 7
_POLL_S = 0.05


def existing(kind: str) -> List[str]:
    """The folders that may hold what is of this kind ("screen", "tmux" or "detached"), those that are there and ours alone."""
    return [path for path in (_at_home(kind), _in_tmp(kind)) if _is_ours(path)]


def make(kind: str, name: str) -> str:
    """A folder where a socket for this session can really be made. Raises AgentError "session-folder-refused"."""
    reason = "no place is short enough"
    for path in (_at_home(kind), _in_tmp(kind)):
        if not _fits(path, name):
            continue
        try:
            for folder in (os.path.dirname(path), path):
                _make_private(folder)
            _try_socket(path)
            return path
        except OSError as error:
            reason = "%s: %s" % (path, error.strerror or error)
    raise AgentError("session-folder-refused", name=name, reason=reason)


@contextlib.contextmanager
def starting(folder: str, deadline_s: float) -> Iterator[None]:
    """One start at a time, that no name is given twice. The lock's descriptor is not inherited by what is started."""
    path = os.path.join(os.path.dirname(folder), ".starting")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        ends = time.monotonic() + deadline_s
        while not _locked(fd):
            if time.monotonic() > ends:
                raise AgentError("session-start-failed", backend=os.path.basename(folder),
                                 detail="another start went on for %g s" % deadline_s)
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False


def _at_home(kind: str) -> str:
    home = layout.Home.of_user()
    paths = {"screen": home.screen_sockets, "tmux": home.tmux_sockets, "detached": home.detached}
    return os.path.realpath(paths[kind])


def _in_tmp(kind: str) -> str:
    mark = hashlib.sha256(os.fsencode(layout.Home.of_user().home)).hexdigest()[:8]
    return "/tmp/cloudrun-%d-%s/%s" % (os.getuid(), mark, kind)


def _fits(folder: str, name: str) -> bool:
    return len(os.fsencode(folder)) + len("/.") + _MAX_PID_DIGITS + len(name) <= _MAX_SOCKET_PATH_BYTES


def _make_private(path: str) -> None:
    """Raises OSError where a folder of somebody else's, or something that is no folder, stands there."""
    try:
        os.makedirs(path, mode=0o700)
    except FileExistsError:
        pass
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "is not a folder of our own", path)
    if status.st_mode & 0o077:
        os.chmod(path, 0o700)


def _is_ours(path: str) -> bool:
    """Whether both the folder and the one above are folders (no links) of this user's that nobody else may write."""
    try:
        for folder in (os.path.dirname(path), path):
            status = os.lstat(folder)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
                return False
    except OSError:
        return False
    return True


def _try_socket(folder: str) -> None:
    """Some network disks cannot hold a socket. Raises OSError."""
    path = os.path.join(folder, ".try-%s" % secrets.token_hex(4))
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)
