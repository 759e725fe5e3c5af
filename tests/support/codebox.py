"""A box's side of the code, in this process: what the laptop would send, made from a dictionary."""

from __future__ import annotations

import hashlib
import io
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remote_agent import code, layout, protocol
from remote_agent.protocol import CodeOffer, CodeWanted, FileEntry


@dataclass(frozen=True)
class Link:
    """A symlink in a described tree."""

    target: str


@dataclass(frozen=True)
class Script:
    """A file that may be run."""

    text: str


Tree = dict[str, "str | bytes | Link | Script"]


def entries(tree: Tree) -> list[FileEntry]:
    return [_entry(path, content) for path, content in tree.items()]


def _entry(path: str, content: str | bytes | Link | Script) -> FileEntry:
    if isinstance(content, Link):
        return FileEntry(path, 0o777, link=content.target)
    data = plain(content)
    return FileEntry(path, 0o775 if isinstance(content, Script) else 0o664, len(data), hashlib.sha256(data).hexdigest())


def plain(content: str | bytes | Script) -> bytes:
    content = content.text if isinstance(content, Script) else content
    return content if isinstance(content, bytes) else content.encode()


def frames(contents: list[bytes], last: str = "end", piece: int = 1000) -> bytes:
    """The stream that carries these contents."""
    packed = zlib.compress(b"".join(contents))
    parts = [protocol.dump_frame({"kind": "data"}, packed[at:at + piece]) for at in range(0, len(packed), piece)]
    return b"".join([*parts, protocol.dump_frame({"kind": last})])


@dataclass
class CodeBox:
    """Home of the box; `sent` is what travelled with the newest offer."""

    home: Path
    project: str = "proj"
    project_id: str = "p-1"
    sent: list[str] = field(default_factory=list)

    @property
    def trees(self) -> layout.Trees:
        return layout.Home(str(self.home)).trees(self.project)

    def tree(self, run: str = "exp") -> Path:
        return Path(self.trees.tree(run))

    def offer(self, tree: Tree, run: str = "exp") -> CodeWanted:
        return code.offer(CodeOffer(run, self.project, self.project_id, entries(tree)))

    def stage(self, tree: Tree, run: str = "exp") -> str:
        """Offers and sends; gives the staging area."""
        wanted = self.offer(tree, run)
        by_sha = {hashlib.sha256(plain(c)).hexdigest(): (path, plain(c)) for path, c in tree.items() if not isinstance(c, Link)}
        self.sent = [by_sha[sha][0] for sha in wanted.sha256]
        code.receive(wanted.staging, io.BytesIO(frames([by_sha[sha][1] for sha in wanted.sha256])))
        return wanted.staging

    def bring(self, tree: Tree, run: str = "exp") -> code.Applied:
        return code.apply(self.project, self.project_id, run, self.stage(tree, run))

    def shown(self, run: str = "exp") -> dict[str, Any]:
        return on_disk(self.tree(run))

    def left_behind(self) -> list[str]:
        """Staging areas and journals that are still there."""
        return os.listdir(self.trees.stagings) + [n for n in os.listdir(self.trees.records) if n.endswith(".journal")]


def on_disk(root: Path) -> dict[str, Any]:
    """What lies in a folder: bytes of files, links, and None for folders that are empty."""
    found: dict[str, Any] = {}
    for place, folders, names in os.walk(os.fsencode(root)):
        for name in [*names, *(f for f in folders if os.path.islink(os.path.join(place, f)))]:
            full = os.path.join(place, name)
            path = os.fsdecode(os.path.relpath(full, os.fsencode(root)))
            if os.path.islink(full):
                found[path] = Link(os.fsdecode(os.readlink(full)))
            else:
                data = Path(os.fsdecode(full)).read_bytes()
                found[path] = Script(data.decode()) if os.stat(full).st_mode & 0o111 else data
        if not names and not folders and os.fsdecode(place) != str(root):
            found[os.fsdecode(os.path.relpath(place, os.fsencode(root)))] = None
    return found


def as_on_disk(tree: Tree) -> dict[str, Any]:
    return {path: content.encode() if isinstance(content, str) else content for path, content in tree.items()}
