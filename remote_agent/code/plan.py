"""What has to be done so that a tree holds what was offered: pure decisions over what was brought, and what stands there."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Set

from remote_agent.code import paths
from remote_agent.code.records import Brought, Index
from remote_agent.protocol import AgentError, FileEntry


def sane_mode(mode: int) -> int:
    """Mode on the box: the owner may read and write, nobody else may write."""
    return (mode & 0o777 | 0o600) & ~0o022


@dataclass
class Plan:
    """`place`: entries to materialise. `keep`: what stands there already and is right. Paths as the manifest has them."""

    remove: List[str] = field(default_factory=list)
    aside: List[str] = field(default_factory=list)
    clear: List[str] = field(default_factory=list)
    place: List[FileEntry] = field(default_factory=list)
    modes: Dict[str, int] = field(default_factory=dict)
    keep: Index = field(default_factory=dict)


class Planner:
    """Compares. `brought` is the tree's index without records known to be wrong."""

    def __init__(self, root: str, brought: Index, wanted: List[FileEntry]) -> None:
        self._look = paths.Look(root)
        self._brought = brought
        self._wanted = wanted
        self._removed: Set[bytes] = set()
        self._aside: Set[bytes] = set()
        self._plan = Plan()

    def plan(self) -> Plan:
        """Raises AgentError("code-through-link") where a link that is not ours stands on the way to a file."""
        names = {entry.path for entry in self._wanted}
        for path, entry in self._brought.items():
            if path not in names:
                self._gone_at_home(path, entry)
        for wanted in self._wanted:
            if self._way_is_free(wanted.path):
                self._entry(wanted)
            else:
                self._plan.place.append(wanted)
        self._plan.remove = sorted(map(paths.shown, self._removed))
        self._plan.aside = sorted(paths.shown(path) for path in self._aside if not self._goes_with_folder(path))
        return self._plan

    def _gone_at_home(self, path: str, entry: Brought) -> None:
        plain = paths.raw(path)
        status = self._look.at(plain)
        if status is None or stat.S_ISDIR(status.st_mode):
            return
        if self._intact(plain, entry, status):
            self._removed.add(plain)
        else:
            self._aside.add(plain)

    def _way_is_free(self, path: str) -> bool:
        """Whether every folder on the way is there. What stands in the way goes aside, unless it is a link."""
        plain = paths.raw(path)
        steps = plain.split(b"/")
        for length in range(1, len(steps)):
            above = b"/".join(steps[:length])
            status = self._look.folder(above)
            if status is None or above in self._removed or above in self._aside:
                return False
            if stat.S_ISLNK(status.st_mode):
                raise AgentError("code-through-link", path=path, at=paths.shown(above))
            if not stat.S_ISDIR(status.st_mode):
                self._aside.add(above)
                return False
        return True

    def _entry(self, wanted: FileEntry) -> None:
        plain = paths.raw(wanted.path)
        status = self._look.at(plain)
        if status is not None and stat.S_ISDIR(status.st_mode):
            self._folder_in_the_way(plain)
        elif status is not None:
            entry = self._brought.get(wanted.path)
            ours = entry is not None and self._intact(plain, entry, status)
            if self._right(plain, wanted, status, entry if ours else None):
                self._keep(wanted, status)
                return
            if not ours:
                self._aside.add(plain)
        self._plan.place.append(wanted)

    def _keep(self, wanted: FileEntry, status: os.stat_result) -> None:
        if wanted.link is not None:
            self._plan.keep[wanted.path] = Brought("", 0, 0, 0, 0, wanted.link)
            return
        mode = sane_mode(wanted.mode)
        self._plan.keep[wanted.path] = Brought(wanted.sha256, status.st_size, status.st_mtime_ns, status.st_ino, mode)
        if stat.S_IMODE(status.st_mode) != mode:
            self._plan.modes[wanted.path] = mode

    def _intact(self, plain: bytes, entry: Brought, status: os.stat_result) -> bool:
        if entry.link is not None:
            return stat.S_ISLNK(status.st_mode) and paths.shown(self._look.link(plain)) == entry.link
        return entry.looks_intact(status)

    def _right(self, plain: bytes, wanted: FileEntry, status: os.stat_result, ours: Optional[Brought]) -> bool:
        """Whether what stands there is what is wanted. A file that is not ours is read to know."""
        if wanted.link is not None:
            return stat.S_ISLNK(status.st_mode) and paths.shown(self._look.link(plain)) == wanted.link
        if not stat.S_ISREG(status.st_mode):
            return False
        if ours is not None:
            return ours.sha256 == wanted.sha256
        return status.st_size == wanted.size_bytes and _sha256(self._look.full(plain)) == wanted.sha256

    def _folder_in_the_way(self, plain: bytes) -> None:
        """A folder where a file is to go: removed when all in it is ours and goes, else moved aside as a whole."""
        files = [os.path.join(os.path.relpath(folder, self._look.full(b"")), name)
                 for folder, names in _walk(self._look.full(plain)) for name in names]
        if all(os.path.normpath(file) in self._removed for file in files):
            self._plan.clear.append(paths.shown(plain))
        else:
            self._aside.add(plain)

    def _goes_with_folder(self, plain: bytes) -> bool:
        above = os.path.dirname(plain)
        while above:
            if above in self._aside:
                return True
            above = os.path.dirname(above)
        return False


def _walk(folder: bytes) -> List["tuple[bytes, List[bytes]]"]:
    """(folder, names of what is no folder in it), links not followed."""
    found = []
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        found.append((place, names + links))
    return found


def _sha256(path: bytes) -> str:
    whole = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as stream:
        for piece in iter(lambda: stream.read(1 << 20), b""):
            whole.update(piece)
    return whole.hexdigest()
