"""Changing a tree in one piece: the steps are written down first, and whoever comes after a kill works off the rest.

Every step may be done twice, and none can lose a file: what is not ours is moved aside, what is ours is replaced by a rename.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Set

from remote_agent import atomic, layout, protocol
from remote_agent.code import paths, records
from remote_agent.code.staging import Staging
from remote_agent.protocol import AgentError

_SUFFIX = ".journal"
_BLOCKED = (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST)


@dataclass
class Journal:
    """Steps, in order, as lists of a verb and its values; and the index that holds when all are done.

    remove PATH: a file of ours.  aside PATH: what is not ours, to the folder `aside`.  clear PATH: a folder of empty folders.
    place NUMBER PATH: a finished file of the staging area.  mode PATH MODE.  prune PATH: folders above it that are empty.
    """

    run: str
    staging: str
    aside: str
    steps: List[List[Any]] = field(default_factory=list)
    index: Dict[str, Any] = field(default_factory=dict)


def write(trees: layout.Trees, journal: Journal) -> None:
    records.write_json(trees.journal(journal.run), protocol.encode(journal))


def finish_all(trees: layout.Trees) -> Set[str]:
    """Works off what dead agents left half-way; gives the staging areas that are still needed because it did not work.
    Under the lock."""
    needed = set()
    for name in sorted(os.listdir(trees.records)):
        if name.endswith(_SUFFIX):
            run = name[:-len(_SUFFIX)]
            try:
                finish(trees, run)
            except (AgentError, OSError):  # said when that run is launched again
                needed.add(_read(trees, run).staging)
    return needed


def finish(trees: layout.Trees, run: str) -> None:
    """Works off the run's journal, if there is one. Under the lock. Raises AgentError, OSError with the rest still written."""
    if os.path.lexists(trees.journal(run)):
        carry_out(trees, _read(trees, run))


def carry_out(trees: layout.Trees, journal: Journal) -> None:
    """Does all steps, then makes the index true and forgets the journal. Under the lock."""
    tree = trees.tree(journal.run)
    os.makedirs(tree, exist_ok=True)
    root = paths.open_root(tree)
    try:
        work = _Work(root, journal)
        for verb, *values in journal.steps:
            work.verbs[verb](*values)
        work.sync()
    finally:
        os.close(root)
    records.write_json(trees.index(journal.run), journal.index)
    os.unlink(trees.journal(journal.run))
    Staging(journal.staging).remove()


def _read(trees: layout.Trees, run: str) -> Journal:
    path = trees.journal(run)
    try:
        return protocol.decode(Journal, records.read_json(path))
    except ValueError as error:
        raise AgentError("code-journal", path=path, detail=str(error)) from error


class _Work:
    """The steps, below an open folder; no step follows a link."""

    def __init__(self, root: int, journal: Journal) -> None:
        self._root = root
        self._staging = Staging(journal.staging)
        self._aside = os.fsencode(journal.aside)
        self._touched: Set[bytes] = set()
        self.verbs: Dict[str, Callable[..., None]] = {
            "remove": self.remove, "aside": self.aside, "clear": self.clear, "place": self.place, "mode": self.mode,
            "prune": self.prune,
        }

    def remove(self, path: str) -> None:
        plain = paths.raw(path)
        with _Parent(self._root, plain) as parent:
            status = parent.status()
            if status is not None and not stat.S_ISDIR(status.st_mode):
                os.unlink(parent.name, dir_fd=parent.fd)
                self._touched.add(os.path.dirname(plain))

    def aside(self, path: str) -> None:
        plain = paths.raw(path)
        target = os.path.join(self._aside, plain)
        if os.path.lexists(target):
            return
        with _Parent(self._root, plain) as parent:
            if parent.status() is not None:
                os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
                os.replace(parent.name, target, src_dir_fd=parent.fd)
                self._touched.add(os.path.dirname(plain))

    def clear(self, path: str) -> None:
        plain = paths.raw(path)
        with _Parent(self._root, plain) as parent:
            status = parent.status()
            if status is not None and stat.S_ISDIR(status.st_mode):
                _remove_empty(parent.name, parent.fd)

    def place(self, number: int, path: str) -> None:
        source, plain = os.path.join(self._staging.new, str(number)), paths.raw(path)
        if not os.path.lexists(source):
            return
        try:
            parent_fd = paths.open_parent(self._root, plain, make=True)
        except NotADirectoryError as error:
            raise AgentError("code-through-link", path=path, at=str(error.filename)) from error
        try:
            self._rename(source, plain, parent_fd)
        finally:
            os.close(parent_fd)
        self._touched.add(os.path.dirname(plain))

    def _rename(self, source: str, plain: bytes, parent_fd: int) -> None:
        """Into place; a folder that came to stand there since the plan was made goes aside."""
        name = os.path.basename(plain)
        try:
            os.replace(source, name, dst_dir_fd=parent_fd)
        except OSError as error:
            if error.errno not in _BLOCKED:
                raise
            target = self._aside + b".late/" + plain
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(name, target, src_dir_fd=parent_fd)
            os.replace(source, name, dst_dir_fd=parent_fd)

    def mode(self, path: str, mode: int) -> None:
        plain = paths.raw(path)
        with _Parent(self._root, plain) as parent:
            status = parent.status()
            if status is not None and stat.S_ISREG(status.st_mode):
                os.chmod(parent.name, mode, dir_fd=parent.fd)

    def prune(self, path: str) -> None:
        plain = os.path.dirname(paths.raw(path))
        while plain:
            with _Parent(self._root, plain) as parent:
                if parent.status() is not None:
                    try:
                        os.rmdir(parent.name, dir_fd=parent.fd)
                    except OSError:
                        return
            plain = os.path.dirname(plain)

    def sync(self) -> None:
        """Makes the renames durable."""
        for folder in self._touched:
            try:
                fd = paths.open_parent(self._root, os.path.join(folder, b"x"))
            except (FileNotFoundError, NotADirectoryError):  # pruned since
                continue
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        os.fsync(self._root)
        if os.path.isdir(self._aside):
            atomic.sync_folder(os.path.dirname(os.fsdecode(self._aside)))


class _Parent:
    """The folder that holds an entry, open; `status` is None where the entry or its folder is not there."""

    def __init__(self, root: int, path: bytes) -> None:
        self.name = os.path.basename(path)
        self.fd = -1
        try:
            self.fd = paths.open_parent(root, path)
        except (FileNotFoundError, NotADirectoryError):
            pass

    def __enter__(self) -> "_Parent":
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def status(self) -> "os.stat_result | None":
        if self.fd < 0:
            return None
        try:
            return os.lstat(self.name, dir_fd=self.fd)
        except FileNotFoundError:
            return None


def _remove_empty(name: bytes, parent: int) -> None:
    """Removes a folder that holds nothing but folders; one that holds more stays."""
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        for below in os.listdir(fd):
            if stat.S_ISDIR(os.lstat(below, dir_fd=fd).st_mode):
                _remove_empty(os.fsencode(below), fd)
    finally:
        os.close(fd)
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError:
        pass
