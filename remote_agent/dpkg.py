"""What dpkg is doing, asked without taking its locks: who holds one, whether it was cut off, whether it works right now."""

from __future__ import annotations

import fcntl
import os
import struct
from typing import List, Optional, Sequence

from remote_agent import processes

LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock")
#: dpkg leaves numbered files here when it was cut off in the middle, and refuses everything until it is mended.
UPDATES = "/var/lib/dpkg/updates"
#: Programs that change what is installed: cut off in the middle they leave it half done.
_WORKERS = ("dpkg", "rpm", "yum", "dnf", "microdnf", "zypper", "apk")
#: struct flock with 64-bit offsets: type, whence, start, length, pid.
_FLOCK = "hhqqi4x"


def holder(paths: Sequence[str] = LOCKS) -> Optional[str]:
    """Who holds one of these locks, as "name (pid N)". None where nobody does, or we may not look."""
    for path in paths:
        pid = _lock_holder(path)
        if pid is not None:
            return "%s (pid %d)" % (processes.name(pid) or "?", pid) if pid > 0 else "?"
    return None


def interrupted(folder: str = UPDATES) -> bool:
    try:
        return any(name.isdigit() for name in os.listdir(folder))
    except OSError:
        return False


def workers(pid: int) -> List[int]:
    """Those of a process and what is beneath it that must not be cut off."""
    return [member for member in [pid, *processes.descendants(pid)] if processes.name(member) in _WORKERS]


def _lock_holder(path: str) -> Optional[int]:
    """The pid, -1 or 0 where it lives in another container; None where the lock is free."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    except OSError:
        return None
    finally:
        os.close(fd)
    return None if kind == fcntl.F_UNLCK else pid
