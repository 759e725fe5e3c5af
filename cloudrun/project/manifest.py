"""The project folder as a list of what is to stand on the box.

Regular files and symlinks travel (a link as its text, wherever it leads; it is never followed). Sockets, pipes and devices
do not, and neither do folders without a file: git has none either. Names are the file system's own, byte for byte; those
that are no UTF-8 carry surrogates.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cloudrun.errors import CloudrunError
from cloudrun.project import ignore
from cloudrun.project.hashcache import HashCache
from cloudrun.project.identity import project_root
from cloudrun.project.secretnames import looks_secret
from remote_agent.protocol import FileEntry

#: What one request can hold.
MAX_FILES = 200_000
_STAYS = (".git", ".cloudrun")
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """What travels, sorted by path. `skipped`: entries that are no file and no link."""

    root: Path
    files: tuple[FileEntry, ...]
    skipped: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self.files)

    @property
    def like_secrets(self) -> tuple[str, ...]:
        """Files that travel although their names are those of secrets."""
        return tuple(entry.path for entry in self.files if entry.link is None and looks_secret(entry.path))


def build_manifest(folder: Path, skip: Sequence[Path] = (), without: Sequence[str] = ()) -> Manifest:
    """Reads the project. `skip`: files that must not travel whatever else is said (secrets). `without`: names in the tree that
    will be links to the data disk there (`links`, `outputs`): what home has under them stays home.

    Unchanged files are not read again. Raises CloudrunError: a file that cannot be read, too many files, the home folder.
    """
    root = project_root(folder)
    walk = _Walk(root, frozenset(map(_absolute, skip)), frozenset(name.strip("/") for name in without))
    found = sorted(walk.entries(), key=lambda pair: pair[0])
    if len(found) > MAX_FILES:
        raise CloudrunError("code-too-many-files", folder=str(root), files=len(found), limit=MAX_FILES,
                            largest=_fullest_folder([path for path, _ in found]))
    cache = HashCache.load(root)
    entries = (_entry(root, path, status, cache) for path, status in found)
    files = tuple(entry for entry in entries if entry is not None)
    cache.save()
    return Manifest(root, files, tuple(walk.skipped))


def digest(manifest: Manifest) -> str:
    """One sha256 over what makes two trees different: paths, contents, run bits, links (no other mode bits)."""
    whole = hashlib.sha256()
    for entry in manifest.files:
        runs = bool(entry.mode & 0o100) and entry.link is None
        whole.update(json.dumps([entry.path, runs, entry.sha256, entry.link]).encode("ascii") + b"\n")
    return whole.hexdigest()


def _absolute(path: Path) -> str:
    """The path with the links of its folder resolved, not those of its own name."""
    return str(path.parent.resolve() / path.name)


class _Walk:
    """One pass over the folder, by the rules."""

    def __init__(self, root: Path, skip: frozenset[str], without: frozenset[str]) -> None:
        self.root, self.skip, self.without = root, skip, without
        self.skipped: list[str] = []
        self._prefix, self._rules = ignore.around(root)

    def entries(self) -> Iterator[tuple[str, os.stat_result]]:
        """(path, lstat) of everything that travels."""
        return self._folder("", self._rules)

    def _folder(self, below: str, above: ignore.Rules) -> Iterator[tuple[str, os.stat_result]]:
        place = self.root / below
        try:
            with os.scandir(place) as listing:
                entries = list(listing)
        except OSError as error:
            raise _unreadable(place, error) from error
        base = self._prefix + _bytes(below)
        rules = ignore.enter(above, place, base, {entry.name for entry in entries})
        for entry in entries:
            path = below + entry.name
            if self._stays(path, entry):
                continue
            name = _bytes(entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            out = rules.keeps_out(base + name, name, is_folder)
            if not is_folder:
                yield from () if out else self._file(path, entry)
            elif not out:
                yield from self._folder(path + "/", rules)
            elif rules.leads_to_tracked(base + name, name):
                yield from self._folder(path + "/", rules.ignored())

    def _stays(self, path: str, entry: os.DirEntry[str]) -> bool:
        return (entry.name == ".git" or path in _STAYS or path in self.without
                or (bool(self.skip) and str(self.root / path) in self.skip))

    def _file(self, path: str, entry: os.DirEntry[str]) -> Iterator[tuple[str, os.stat_result]]:
        try:
            status = os.lstat(entry.path)  # on Windows the entry's own stat knows no inode
        except FileNotFoundError:  # gone since it was listed
            return
        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            yield path, status
        else:
            self.skipped.append(path)


def _entry(root: Path, path: str, status: os.stat_result, cache: HashCache) -> FileEntry | None:
    """None: gone since it was listed."""
    place = root / path
    try:
        if stat.S_ISLNK(status.st_mode):
            text = os.readlink(place)  # noqa: PTH115 (a Path would tidy the text)
            return FileEntry(path, 0o777, link=text.replace(os.sep, "/"))
        known = cache.get(path, status)
        if known is None:
            known, status = _hash(place)
            cache.put(path, status, known)
        mode = 0o600 if looks_secret(path) else stat.S_IMODE(status.st_mode) & 0o777  # whatever a lax umask gave it here
        return FileEntry(path, mode, status.st_size, known)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(place, error) from error


def _hash(place: Path) -> tuple[str, os.stat_result]:
    """Content's sha256 with the size of what was read, whatever was written meanwhile."""
    whole, size = hashlib.sha256(), 0
    with place.open("rb", buffering=0) as stream:
        status = os.fstat(stream.fileno())
        while chunk := stream.read(_CHUNK_BYTES):
            whole.update(chunk)
            size += len(chunk)
    if size != status.st_size:  # written to while it was read: the sender will notice
        raise CloudrunError("code-changing", path=str(place))
    return whole.hexdigest(), status


def _unreadable(place: Path, error: OSError) -> CloudrunError:
    return CloudrunError("code-unreadable", path=str(place), reason=error.strerror or str(error))


def _bytes(text: str) -> bytes:
    return os.fsencode(text)


def _fullest_folder(paths: list[str]) -> str:
    counts: dict[str, int] = {}
    for path in paths:
        top = path.split("/")[0]
        counts[top] = counts.get(top, 0) + 1
    return max(counts, key=lambda top: counts[top])
