"""Whether packages can be installed here: a manager, the right to use it, and nobody else at work. Nothing is changed."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
from dataclasses import dataclass
from typing import List, Optional, Sequence

from remote_agent import packages
from remote_agent.checks.probe import Asked
from remote_agent.protocol import Check
from remote_agent.sessions import environment

LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock")
#: dpkg leaves numbered files here when it was cut off in the middle, and refuses everything until it is mended.
UPDATES = "/var/lib/dpkg/updates"
#: struct flock with 64-bit offsets: type, whence, start, length, pid.
_FLOCK = "hhqqi4x"


@dataclass(frozen=True)
class Found:
    """`way`: root | sudo | None. `holder`: who holds a lock, None where nobody does. `needed`: no session program is here."""

    manager: Optional[str]
    way: Optional[str]
    holder: Optional[str]
    interrupted: bool
    needed: bool


def check(asked: Asked) -> List[Check]:
    manager = next((name for name in packages.MANAGERS if shutil.which(name)), None)
    apt = manager == "apt-get"
    return [judge(Found(
        manager=manager, way=_way() if manager else None, holder=holder(LOCKS) if apt else None,
        interrupted=apt and interrupted(UPDATES),
        needed=not any(environment.program(name) for name in ("screen", "tmux")),
    ))]


def judge(found: Found) -> Check:
    """A warning only where a launch would have to install something, or where dpkg is broken for everybody."""
    params = {"manager": found.manager or ", ".join(packages.MANAGERS), "holder": found.holder or ""}
    if found.manager is None:
        return _unless_needed(found, "packages-no-manager", params)
    if found.way is None:
        return _unless_needed(found, "packages-needs-root", params)
    if found.interrupted:
        return Check("packages", "warning", "packages-interrupted", params, hint="packages-interrupted")
    if found.holder is not None:
        return _unless_needed(found, "packages-locked", params)
    return Check("packages", "ok", "packages-" + found.way, params)


def holder(paths: Sequence[str]) -> Optional[str]:
    """Who holds one of these locks, as "name (pid N)"; asked without taking it. None where nobody does, or we may not look."""
    for path in paths:
        pid = _lock_holder(path)
        if pid is not None:
            return "%s (pid %d)" % (_name(pid), pid) if pid > 0 else "?"
    return None


def interrupted(folder: str) -> bool:
    try:
        return any(name.isdigit() for name in os.listdir(folder))
    except OSError:
        return False


def _unless_needed(found: Found, code: str, params: "dict[str, str]") -> Check:
    if found.needed:
        return Check("packages", "warning", code, params, hint=code)
    return Check("packages", "ok", code + "-unneeded", params)


def _way() -> Optional[str]:
    if os.geteuid() == 0:
        return "root"
    return "sudo" if packages.sudo_works() else None


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


def _name(pid: int) -> str:
    try:
        with open("/proc/%d/comm" % pid, encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return "?"
