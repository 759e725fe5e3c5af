"""`code.offer`: of all that a tree is to hold, which contents does no tree of this project on this box hold yet."""

from __future__ import annotations

import errno
import os
from typing import Dict, Iterator, List, Optional, Tuple

from remote_agent import layout
from remote_agent.code import inflate, journal, paths, records, staging
from remote_agent.code.staging import Staged
from remote_agent.protocol import AgentError, CodeOffer, CodeWanted

#: Left free on the disk beside what the code needs.
_MARGIN_BYTES = 16 << 20
#: A home that is read-only, somebody else's, or not there and not to be made.
_REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


def offer(request: CodeOffer) -> CodeWanted:
    """Makes a staging area and says what is to be sent to it. What a tree holds is taken from there later, by copying and
    checking; whether it still does is judged here by size, time and inode.

    Raises AgentError: project-name-taken, code-path, code-disk-full, code-home-refused.
    """
    trees = records.trees_of(request.project)
    records.check_run(request.run)
    _check(request)
    try:
        return _made(trees, request)
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        path = os.fsencode(error.filename or trees.path).decode("utf-8", "replace")
        raise AgentError("code-home-refused", path=path, reason=error.strerror) from error


def _made(trees: layout.Trees, request: CodeOffer) -> CodeWanted:
    with records.locked(trees):
        records.claim(trees, request.project, request.project_id)
        staging.sweep(trees, keep=journal.finish_all(trees))
        staged = _staged(trees, request)
        _check_space(trees, request.run, staged)
        made = staging.create(trees, request.run, staged)
    return CodeWanted(staging=made.path, sha256=staged.wanted, plain=inflate.takes_plain_bytes())


def _check(request: CodeOffer) -> None:
    """Every path stays inside the tree, stands there once, and none is a folder of another."""
    seen = {}
    for entry in request.files:
        plain = paths.raw(entry.path)
        if plain in seen or entry.size_bytes < 0 or (entry.link is None) != _is_sha256(entry.sha256):
            raise AgentError("code-path", path=ascii(entry.path))
        seen[plain] = entry
    for plain in seen:
        above = os.path.dirname(plain)
        while above:
            if above in seen:
                raise AgentError("code-path", path=ascii(paths.shown(plain)))
            above = os.path.dirname(above)


def _is_sha256(text: str) -> bool:
    return len(text) == 64 and all(char in "0123456789abcdef" for char in text)


def _staged(trees: layout.Trees, request: CodeOffer) -> Staged:
    needed = {entry.sha256: entry.size_bytes for entry in request.files if entry.link is None}
    sources: Dict[str, List[str]] = {}
    runs = records.indexed_runs(trees)
    for run in sorted(runs, key=lambda name: name != request.run):  # this run's own tree first, then the newest
        if len(sources) == len(needed):
            break
        for sha256, path in _held(trees, run):
            if sha256 in needed and sha256 not in sources:
                sources[sha256] = [run, path]
    wanted = [sha256 for sha256 in needed if sha256 not in sources]
    return Staged(request, wanted, sources)


def _held(trees: layout.Trees, run: str) -> Iterator[Tuple[str, str]]:
    """(sha256, path) of files in a tree that are still as they were brought."""
    if os.path.islink(trees.tree(run)):
        return
    look = paths.Look(trees.tree(run))
    for path, entry in records.trusted(trees, run, records.read_index(trees, run)).items():
        status: Optional[os.stat_result] = look.at(paths.raw(path)) if entry.link is None else None
        if status is not None and entry.looks_intact(status):
            yield entry.sha256, path


def _check_space(trees: layout.Trees, run: str, staged: Staged) -> None:
    """Refuses before a byte has travelled. Files that stay as they are in the run's own tree need nothing."""
    own = set(_held(trees, run))
    needed = _MARGIN_BYTES + sum(entry.size_bytes for entry in staged.offer.files
                                 if entry.link is None and (entry.sha256, entry.path) not in own)
    disk = os.statvfs(trees.path)
    free = disk.f_bavail * disk.f_frsize
    if needed > free:
        raise staging.disk_full(trees.stagings, needed)
