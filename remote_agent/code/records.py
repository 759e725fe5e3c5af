"""The bookkeeping of a project's trees: whose project it is, what was brought where, and one change at a time."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from remote_agent import atomic, layout
from remote_agent.protocol import RUN_NAME, AgentError

LOCK_WAIT_S = 60.0
_POLL_S = 0.02
#: The newest so many wrong records are remembered.
_MAX_DISTRUSTED = 1000


class Brought(NamedTuple):
    """One entry that we put into a tree. For a link all but `link` is 0 or ''."""

    sha256: str
    size_bytes: int
    mtime_ns: int
    inode: int
    mode: int
    link: Optional[str] = None

    def looks_intact(self, status: os.stat_result) -> bool:
        """Whether a regular file is as we put it there, as far as can be seen without reading it."""
        return (stat.S_ISREG(status.st_mode) and self.link is None and status.st_size == self.size_bytes
                and status.st_mtime_ns == self.mtime_ns and status.st_ino == self.inode)


Index = Dict[str, Brought]


def trees_of(project: str) -> layout.Trees:
    """The project's folder. Raises AgentError for a name that cannot be one."""
    if not project or project.startswith(".") or "/" in project or "\0" in project or len(project) > 200:
        raise AgentError("bad-project-name", project=project)
    return layout.Home.of_user().trees(project)


def check_run(run: str) -> None:
    if not RUN_NAME.match(run):
        raise AgentError("bad-run-name", run=run, character="", length=len(run))


def claim(trees: layout.Trees, project: str, project_id: str) -> None:
    """Makes the folder this project's, or raises AgentError("project-name-taken"). Under the lock."""
    there = read_json(trees.identity)
    if isinstance(there, dict) and there.get("id"):
        if there["id"] != project_id:
            raise AgentError("project-name-taken", project=project, path=trees.path)
        return
    atomic.write_json(trees.identity, {"id": project_id, "schema": 1})


@contextmanager
def locked(trees: layout.Trees) -> Iterator[None]:
    """One change of the bookkeeping at a time. A record lock: it falls with this process. Do not nest.

    Raises AgentError("project-busy") after LOCK_WAIT_S.
    """
    os.makedirs(trees.records, exist_ok=True)
    os.makedirs(trees.stagings, mode=0o700, exist_ok=True)
    fd = os.open(trees.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        begun = time.monotonic()
        while True:
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except (BlockingIOError, PermissionError):
                if time.monotonic() - begun > LOCK_WAIT_S:
                    raise AgentError("project-busy", path=trees.path, waited_s=round(LOCK_WAIT_S)) from None
                time.sleep(_POLL_S)
        yield
    finally:
        os.close(fd)


def read_index(trees: layout.Trees, run: str) -> Index:
    """What we brought into the run's tree; empty where nothing is known: then everything there is somebody else's."""
    try:
        return index_from(read_json(trees.index(run)))
    except (KeyError, TypeError, ValueError):
        return {}


def index_from(body: Any) -> Index:
    return {path: Brought(*fields) for path, fields in body["files"].items()} if body else {}


def index_json(index: Index) -> Dict[str, Any]:
    return {"schema": 1, "files": {path: list(entry) for path, entry in index.items()}}


def indexed_runs(trees: layout.Trees) -> List[str]:
    """Runs whose trees hold something of ours, newest first."""
    found = []
    for name in os.listdir(trees.records):
        run = name[:-len(".json")]
        if name.endswith(".json") and RUN_NAME.match(run):
            found.append((os.stat(trees.index(run)).st_mtime_ns, run))
    return [run for _, run in sorted(found, reverse=True)]


def forget(project: str, run: str) -> None:
    """Forgets what was brought into a run's tree, before the tree goes: no later offer counts on what it held."""
    trees = trees_of(project)
    if not os.path.isdir(trees.path):
        return
    with locked(trees):
        for path in (trees.journal(run), trees.index(run)):
            if os.path.lexists(path):
                os.unlink(path)


def read_json(path: str) -> Any:
    """A JSON file's value; None where there is none or it is none."""
    try:
        with open(path, "rb") as stream:
            return json.loads(stream.read().decode("utf-8", "surrogateescape"))
    except (FileNotFoundError, ValueError):
        return None


def write_json(path: str, value: Any) -> None:
    """Compact ASCII: names may hold what no UTF-8 can."""
    atomic.write_bytes(path, json.dumps(value, separators=(",", ":")).encode("ascii"))


def distrust(trees: layout.Trees, run: str, path: str, entry: Brought) -> None:
    """Remembers that this record is wrong, so that the next offer asks for the content instead. Under the lock."""
    known = read_json(trees.distrusted) or []
    write_json(trees.distrusted, [*known, [run, path, list(entry)]][-_MAX_DISTRUSTED:])


def trusted(trees: layout.Trees, run: str, index: Index) -> Index:
    """The index without the records that were found wrong."""
    wrong = {(path, Brought(*fields)) for at, path, fields in read_json(trees.distrusted) or [] if at == run}
    return {path: entry for path, entry in index.items() if (path, entry) not in wrong} if wrong else index
