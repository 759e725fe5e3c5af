"""The staging area of one offer: on the file system of the trees, owned by one agent process, removed with it."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Callable, Dict, Iterator, List, Optional, Set, Tuple

from remote_agent import layout, processes, protocol
from remote_agent.code import records
from remote_agent.protocol import AgentError, CodeOffer, ProcessRef

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*-[0-9a-f]{16}\Z")


@dataclass
class Staged:
    """`offer.json`. `wanted`: contents to come, with their sizes, in order; `sources`: content to copy from (run, path)."""

    offer: CodeOffer
    wanted: List[str] = field(default_factory=list)
    sources: Dict[str, List[str]] = field(default_factory=dict)

    def sizes(self) -> Dict[str, int]:
        return {entry.sha256: entry.size_bytes for entry in self.offer.files if entry.link is None}


@dataclass(frozen=True)
class Staging:
    path: str

    @property
    def owner(self) -> str:
        return os.path.join(self.path, "owner.json")

    @property
    def offer(self) -> str:
        return os.path.join(self.path, "offer.json")

    @property
    def new(self) -> str:
        """Files and links ready to be moved into the tree, by number."""
        return os.path.join(self.path, "new")

    def blob(self, sha256: str) -> str:
        return os.path.join(self.path, "blobs", sha256)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def read(self) -> Staged:
        """What was offered. Raises AgentError("no-staging") when it is gone or broken."""
        try:
            return protocol.decode(Staged, records.read_json(self.offer))
        except ValueError as error:
            raise AgentError("no-staging", path=self.path) from error


def create(trees: layout.Trees, run: str, staged: Staged) -> Staging:
    """A fresh one of this process. Raises OSError with nothing left behind."""
    staging = Staging(os.path.join(trees.stagings, "%s-%s" % (run, secrets.token_hex(8))))
    os.mkdir(staging.path, 0o700)
    try:
        records.write_json(staging.owner, protocol.encode(processes.ref(os.getpid())))
        os.mkdir(os.path.dirname(staging.blob("")), 0o700)
        os.mkdir(staging.new, 0o700)
        records.write_json(staging.offer, protocol.encode(staged))
    except BaseException:
        staging.remove()
        raise
    return staging


def find(path: str) -> Tuple[layout.Trees, Staging]:
    """The staging area that a request names. Raises AgentError("no-staging") for anything that is none of ours."""
    folder, name = os.path.split(path)
    trees = layout.Trees(os.path.dirname(folder))
    mine = os.path.dirname(layout.Home.of_user().project("x"))
    known = os.path.dirname(trees.path) == mine and folder == trees.stagings and _NAME.match(name)
    if not known or os.path.islink(path) or not os.path.isdir(path):
        raise AgentError("no-staging", path=path)
    return trees, Staging(path)


@contextmanager
def whole_or_gone(staging: Staging, needed_bytes: Callable[[], int]) -> Iterator[None]:
    """Removes the staging area when what is done in it fails; a full disk is said with its figures (AgentError)."""
    try:
        yield
    except BaseException as error:
        staging.remove()
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(os.path.dirname(staging.path), needed_bytes()) from error
        raise


def disk_full(folder: str, needed_bytes: int) -> AgentError:
    disk = os.statvfs(folder)
    return AgentError("code-disk-full", path=os.path.dirname(folder), needed_bytes=needed_bytes,
                      free_bytes=disk.f_bavail * disk.f_frsize)


def sweep(trees: layout.Trees, keep: Set[str]) -> None:
    """Removes what dead agents left, but for those that a journal still needs. Under the lock."""
    for name in os.listdir(trees.stagings):
        staging = Staging(os.path.join(trees.stagings, name))
        if staging.path not in keep and not processes.alive(_owner(staging)):
            staging.remove()


def _owner(staging: Staging) -> Optional[ProcessRef]:
    return layout.read_record(ProcessRef, staging.owner)
