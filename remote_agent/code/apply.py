"""Makes a run's tree hold what was offered. Everything is copied, checked and flushed first; then come renames only."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Dict, List, Optional

from remote_agent import clock, layout
from remote_agent.code import journal, paths, records, staging
from remote_agent.code.journal import Journal
from remote_agent.code.plan import Plan, Planner, sane_mode
from remote_agent.code.records import Brought
from remote_agent.code.staging import Staged, Staging
from remote_agent.protocol import AgentError, FileEntry

_PIECE_BYTES = 1 << 20
#: Flushes wait for the disk, not for the processor: several at once share its commits.
_FLUSHERS = 8


@dataclass
class Applied:
    """What was done. `put_aside`: paths of files that were not ours, or edited since; they lie under `aside`."""

    placed: int = 0
    kept: int = 0
    removed: int = 0
    put_aside: List[str] = field(default_factory=list)
    aside: Optional[str] = None


def apply(project: str, project_id: str, run: str, path: str) -> Applied:
    """Applies a staging area to the run's tree, under the run's lock. However it ends, the tree is the old one or the new one.

    Raises AgentError: code-changed-on-box (the sender offers again), code-through-link, tree-is-link, code-disk-full.
    """
    trees, area = staging.find(path)
    staged = area.read()
    offer = staged.offer
    if (offer.project, offer.project_id, offer.run) != (project, project_id, run):
        raise AgentError("no-staging", path=path)
    if os.path.islink(trees.tree(run)):
        raise AgentError("tree-is-link", path=trees.tree(run))
    with staging.whole_or_gone(area, lambda: sum(entry.size_bytes for entry in offer.files)):
        with records.locked(trees):
            journal.finish(trees, run)
        brought = records.trusted(trees, run, records.read_index(trees, run))
        plan = Planner(trees.tree(run), brought, offer.files).plan()
        index = dict(plan.keep, **_Materials(trees, area, staged).make(plan.place))
        written = Journal(run, area.path, _aside(trees, run), _steps(plan), records.index_json(index))
    with records.locked(trees):
        journal.write(trees, written)
        journal.carry_out(trees, written)
    return Applied(len(plan.place), len(plan.keep), len(plan.remove), plan.aside, written.aside if plan.aside else None)


def _aside(trees: layout.Trees, run: str) -> str:
    stamp = clock.now_utc().replace("-", "").replace(":", "")
    path, number = trees.aside(run, stamp), 1
    while os.path.lexists(path):
        number += 1
        path = trees.aside(run, "%s-%d" % (stamp, number))
    return path


def _steps(plan: Plan) -> List[List[object]]:
    steps: List[List[object]] = []
    steps += [["remove", path] for path in plan.remove]
    steps += [["aside", path] for path in plan.aside]
    steps += [["clear", path] for path in plan.clear]
    steps += [["place", number, entry.path] for number, entry in enumerate(plan.place)]
    steps += [["mode", path, mode] for path, mode in plan.modes.items()]
    steps += [["prune", path] for path in plan.remove + plan.aside]
    return steps


class _Materials:
    """Brings files and links into being in the staging area: from what was sent, or by copying from a tree."""

    def __init__(self, trees: layout.Trees, area: Staging, staged: Staged) -> None:
        self._trees, self._area, self._staged = trees, area, staged
        self._roots: Dict[str, int] = {}
        self._uses: Dict[str, int] = {}

    def make(self, entries: List[FileEntry]) -> records.Index:
        """One file per entry, by number, flushed to the disk; gives what to remember of each."""
        files = []
        self._uses = Counter(entry.sha256 for entry in entries)
        try:
            for number, entry in enumerate(entries):
                target = os.path.join(self._area.new, str(number))
                if entry.link is not None:
                    _link(entry, target)
                else:
                    self._file(entry, target)
                    files.append(target)
        finally:
            for fd in self._roots.values():
                os.close(fd)
        with ThreadPoolExecutor(_FLUSHERS) as flushers:
            list(flushers.map(_flush, files))
        _flush(self._area.new)
        return {entry.path: _brought(entry, os.path.join(self._area.new, str(number)))
                for number, entry in enumerate(entries)}

    def _file(self, entry: FileEntry, target: str) -> None:
        """What was sent was checked when it came, and its last use takes it; what a tree held is checked while it is copied."""
        self._uses[entry.sha256] -= 1
        if entry.sha256 not in self._staged.sources and not self._uses[entry.sha256]:
            os.replace(self._area.blob(entry.sha256), target)
            os.chmod(target, sane_mode(entry.mode))
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(target, flags, 0o600)
        try:
            whole = hashlib.sha256()
            source = self._source(entry)
            try:
                for piece in iter(lambda: os.read(source, _PIECE_BYTES), b""):
                    whole.update(piece)
                    _write(fd, piece)
            finally:
                os.close(source)
            if whole.hexdigest() != entry.sha256:
                self._not_what_it_was(entry)
            os.fchmod(fd, sane_mode(entry.mode))
        finally:
            os.close(fd)

    def _source(self, entry: FileEntry) -> int:
        if entry.sha256 not in self._staged.sources:
            try:
                return os.open(self._area.blob(entry.sha256), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError as error:
                raise AgentError("no-staging", path=self._area.path) from error
        run, path = self._staged.sources[entry.sha256]
        try:
            if run not in self._roots:
                self._roots[run] = paths.open_root(self._trees.tree(run))
            return paths.open_file(self._roots[run], paths.raw(path))
        except OSError as error:
            raise AgentError("code-changed-on-box", path=path, run=run) from error

    def _not_what_it_was(self, entry: FileEntry) -> None:
        """A tree's file had another content than its record says: never believe that record again, and have it sent."""
        run, path = self._staged.sources.get(entry.sha256, ["", entry.path])
        if run:
            with records.locked(self._trees):
                record = records.read_index(self._trees, run).get(path)
                if record is not None:
                    records.distrust(self._trees, run, path, record)
        raise AgentError("code-changed-on-box", path=path, run=run)


def _link(entry: FileEntry, target: str) -> None:
    if os.path.lexists(target):
        os.unlink(target)
    os.symlink(str(entry.link).encode("utf-8", "surrogateescape"), os.fsencode(target))


def _brought(entry: FileEntry, path: str) -> Brought:
    if entry.link is not None:
        return Brought("", 0, 0, 0, 0, entry.link)
    status = os.lstat(path)
    return Brought(entry.sha256, status.st_size, status.st_mtime_ns, status.st_ino, sane_mode(entry.mode))


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]


def _flush(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
