"""A real write: what a file system says of its room is one thing, whether it takes a file another."""

from __future__ import annotations

import errno
import os
import secrets
import time
from typing import Any, Dict

from remote_agent import bounded

_BYTES = b"cloudrun doctor\n" * 4096
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: What people know the reason as; anything else is said in the system's own words.
_REASONS = {
    errno.ENOSPC: "full", errno.EDQUOT: "quota", errno.EROFS: "read-only", errno.EACCES: "refused", errno.EPERM: "refused",
}


def try_in(folder: str, deadline_s: float) -> Dict[str, Any]:
    """Makes a file in the nearest folder that is there, takes its name away, writes and flushes it: nothing stays, whatever
    happens. {"folder", "took_ms"}; where it fails "folder", "reason" (full | no-inodes | quota | read-only | refused | error)
    and "detail". Raises TimeoutError.
    """
    done: Dict[str, Any] = bounded.in_child(lambda: _tried(folder), deadline_s)
    return done


def _tried(folder: str) -> Dict[str, Any]:
    """In the child."""
    place = os.path.realpath(folder)
    while not os.path.isdir(place) and place != "/":
        place = os.path.dirname(place)
    began = time.monotonic()
    try:
        _write(place)
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, "error")
        if reason == "full" and _without_inodes(place):
            reason = "no-inodes"
        return {"folder": place, "reason": reason, "detail": error.strerror or str(error)}
    return {"folder": place, "took_ms": int((time.monotonic() - began) * 1000)}


def _without_inodes(folder: str) -> bool:
    figures = os.statvfs(folder)
    return figures.f_files > 0 and figures.f_favail == 0


def _write(place: str) -> None:
    path = os.path.join(place, ".cloudrun-doctor-%s" % secrets.token_hex(6))
    fd = os.open(path, _FLAGS, 0o600)
    try:
        os.unlink(path)
        left = memoryview(_BYTES)
        while left:
            left = left[os.write(fd, left):]
        os.fsync(fd)
        if os.pread(fd, len(_BYTES), 0) != _BYTES:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
    finally:
        os.close(fd)
