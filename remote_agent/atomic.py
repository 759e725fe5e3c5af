"""Durable writes: a file is there whole, with its new content, or as it was before."""

from __future__ import annotations

import errno
import json
import os
import secrets
from typing import Any


def write_bytes(path: str, data: bytes, mode: int = 0o644) -> None:
    """Replaces `path` by `data`: temporary file in the same folder, fsync, replace, fsync of the folder.

    Raises OSError (ENOSPC, EROFS, …) with the old file untouched and no temporary left behind.
    """
    folder, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, ".%s.part-%s" % (name, secrets.token_hex(6)))
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        try:
            os.fchmod(fd, mode)
            _write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except BaseException:
        _unlink_quietly(temporary)
        raise
    sync_folder(folder)


def write_json(path: str, value: Any, mode: int = 0o644) -> None:
    """`write_bytes` of readable JSON (UTF-8, names kept as they are)."""
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    write_bytes(path, text.encode("utf-8", "surrogateescape"), mode)


def sync_folder(folder: str) -> None:
    """Makes the folder's entries durable. Some network file systems refuse fsync of a folder; that is no failure of the write."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(fd)


def replace_link(target: str, path: str) -> None:
    """Points the symlink `path` at `target` in one step. Raises OSError (a folder stands there, …)."""
    folder, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, ".%s.part-%s" % (name, secrets.token_hex(6)))
    os.symlink(target, temporary)
    try:
        os.replace(temporary, path)
    except BaseException:
        _unlink_quietly(temporary)
        raise


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]


def _unlink_quietly(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
