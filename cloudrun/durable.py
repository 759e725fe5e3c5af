"""The laptop's own small files: written whole or not at all, private, and by one writer at a time."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from cloudrun.i18n import _

LOCK_TIMEOUT_S = 10.0


def private_folder(folder: Path) -> Path:
    """The folder, made where it is missing; closed to others (0700) where it is ours. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name == "posix" and folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def write_private(path: Path, text: str) -> None:
    """Replaces `path` (0600) by a temporary file beside it, fsynced with its folder. Raises OSError, the old file untouched."""
    target = Path(os.path.realpath(path))  # a file that the user keeps elsewhere and links here stays a link
    temporary = target.with_name(f".{target.name}.part-{secrets.token_hex(6)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # Windows has no such thing
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems refuse it; the file itself is written
            os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def locked(path: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Keeps other writers of `path` out, by a lock on a file beside it. Raises TimeoutError."""
    fd = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + timeout_s
        while not _try_lock(fd):
            if time.monotonic() > deadline:
                raise TimeoutError(_("{path} is being written by another program").format(path=path))
            time.sleep(0.02)
        yield
    finally:
        os.close(fd)  # which gives the lock back


if sys.platform == "win32":

    def _try_lock(fd: int) -> bool:
        import msvcrt

        try:
            os.lseek(fd, 0, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:

    def _try_lock(fd: int) -> bool:
        import fcntl

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
