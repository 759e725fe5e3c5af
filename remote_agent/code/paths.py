"""Paths inside a tree: checked, and walked without ever following a link."""

from __future__ import annotations

import errno
import os
import stat
from typing import Dict, Optional

from remote_agent.protocol import AgentError
from remote_agent.words import _

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def raw(path: str) -> bytes:
    """A manifest's path as the bytes it has on the disk. Raises AgentError("code-path") for one that leaves the tree."""
    try:
        plain = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise AgentError("code-path", path=ascii(path)) from error
    if b"\0" in plain or any(part in (b"", b".", b"..") for part in plain.split(b"/")):
        raise AgentError("code-path", path=ascii(path))
    return plain


def shown(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def open_parent(root: int, path: bytes, make: bool = False) -> int:
    """A descriptor of the folder that holds `path`, below the folder `root`. Every step refuses links.

    Raises FileNotFoundError, NotADirectoryError (also for a link on the way).
    """
    fd = os.dup(root)
    try:
        for part in path.split(b"/")[:-1]:
            if make:
                _mkdir(part, fd)
            below = _open_folder(part, fd)
            os.close(fd)
            fd = below
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_root(path: str) -> int:
    """A descriptor of a folder of ours. Raises NotADirectoryError where a link stands there."""
    return _open_folder(os.fsencode(path), None)


def open_file(root: int, path: bytes) -> int:
    """A regular file below `root` for reading, through no link. Raises OSError."""
    parent = open_parent(root, path)
    try:
        fd = os.open(os.path.basename(path), _FILE, dir_fd=parent)
    finally:
        os.close(parent)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, _("not a regular file"), shown(path))
    return fd


def _mkdir(name: bytes, parent: int) -> None:
    try:
        os.mkdir(name, 0o755, dir_fd=parent)
    except FileExistsError:
        pass


def _open_folder(name: bytes, parent: Optional[int]) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotADirectoryError(errno.ENOTDIR, _("a link stands there"), shown(name)) from error
        raise


class Look:
    """What stands in a tree before anything is changed. Folders are looked at once."""

    def __init__(self, root: str) -> None:
        self._root = os.fsencode(root)
        self._folders: Dict[bytes, Optional[os.stat_result]] = {}

    def at(self, path: bytes) -> Optional[os.stat_result]:
        """lstat; None where there is nothing, or something on the way is no folder."""
        above = os.path.dirname(path)
        while above:
            status = self.folder(above)
            if status is None or not stat.S_ISDIR(status.st_mode):
                return None
            above = os.path.dirname(above)
        return self._lstat(path)

    def folder(self, path: bytes) -> Optional[os.stat_result]:
        """lstat of something on the way to another entry, remembered."""
        if path not in self._folders:
            above = os.path.dirname(path)
            status = self.folder(above) if above else None
            blocked = bool(above) and (status is None or not stat.S_ISDIR(status.st_mode))
            self._folders[path] = None if blocked else self._lstat(path)
        return self._folders[path]

    def link(self, path: bytes) -> bytes:
        return os.readlink(self.full(path))

    def full(self, path: bytes) -> bytes:
        return os.path.join(self._root, path)

    def _lstat(self, path: bytes) -> Optional[os.stat_result]:
        try:
            return os.lstat(self.full(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
