"""What was hashed before and has not changed since, so that a launch does not read the whole project again.

A file is taken as unchanged when size, modification time, change time and inode are. One whose times lie within two seconds
of the moment it was hashed (or after it) is not remembered: a later write could leave the very same times behind.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

RACY_NS = 2_000_000_000
_SCHEMA = 1
Key = tuple[int, int, int, int]


@dataclass
class HashCache:
    """sha256 by path, of one project. Losing it costs time, never correctness: nothing here raises."""

    file: Path
    known: dict[str, tuple[Key, str]]
    used: dict[str, tuple[Key, str]] = field(default_factory=dict)

    @classmethod
    def load(cls, root: Path) -> HashCache:
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32] + ".json"
        file = Path(platformdirs.user_cache_dir("cloudrun", appauthor=False)) / "hashes" / name
        return cls(file, _load(file))

    def get(self, path: str, status: os.stat_result) -> str | None:
        """The content's sha256 when the file is as it was hashed."""
        entry = self.known.get(path)
        if entry is None or entry[0] != _key(status):
            return None
        self.used[path] = entry
        return entry[1]

    def put(self, path: str, status: os.stat_result, sha256: str) -> None:
        if max(status.st_mtime_ns, status.st_ctime_ns) < time.time_ns() - RACY_NS:
            self.used[path] = (_key(status), sha256)

    def save(self) -> None:
        """Writes what this pass used, whole or not at all."""
        if self.used == self.known:
            return
        temporary = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        body = {"schema": _SCHEMA, "files": {path: [*key, sha256] for path, (key, sha256) in self.used.items()}}
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(body, separators=(",", ":")), encoding="ascii")
            temporary.replace(self.file)
        except OSError:
            temporary.unlink(missing_ok=True)


def _key(status: os.stat_result) -> Key:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _load(file: Path) -> dict[str, tuple[Key, str]]:
    try:
        body = json.loads(file.read_text(encoding="ascii"))
        if body["schema"] != _SCHEMA:
            return {}
        return {path: ((size, mtime, ctime, inode), sha256)
                for path, (size, mtime, ctime, inode, sha256) in body["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
