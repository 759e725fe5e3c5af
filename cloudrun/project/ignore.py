"""What of a project stays at home: `.gitignore` as git itself reads it, and `.cloudrunignore` in the same language.

Decided, in this order:
1. `.git` (folder or file, at any depth) and `.cloudrun` at the top never travel.
2. `.cloudrunignore`, one in any folder, speaks first, whether it takes out or (`!`) brings back.
3. A file that git tracks travels, even where a pattern matches it: to git a pattern says nothing about tracked files.
4. `.gitignore` of every folder from the repository's top down, then `.git/info/exclude`, then `core.excludesFile`.

As in git, a folder that is ignored is not entered, so nothing beneath it can be brought back (tracked files excepted).
A repository inside the project adds its own rules and tracked files to those above it.
Where the folder itself is ignored by a repository around it, that repository's rules are left out: it would be empty.
Outside a repository the `.gitignore` files count and the two files of git's own do not.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from cloudrun.errors import CloudrunError
from cloudrun.project import git
from cloudrun.project.wildmatch import Pattern, parse

GIT_FILE = ".gitignore"
OWN_FILE = ".cloudrunignore"
#: Git reads no larger one (`PATTERN_MAX_FILE_SIZE`).
_MAX_FILE_BYTES = 100 << 20


@dataclass(frozen=True)
class _List:
    """The patterns of one file; `base` is the folder they stand in, relative to the anchor, with a slash behind, or b""."""

    base: bytes
    patterns: list[Pattern]

    def verdict(self, path: bytes, name: bytes, is_folder: bool) -> bool | None:
        """True: ignored; False: brought back; None: nothing said. The last line that matches decides."""
        below = path[len(self.base):]
        for pattern in reversed(self.patterns):
            if pattern.matches(below, name, is_folder):
                return not pattern.negated
        return None


@dataclass(frozen=True)
class Rules:
    """What holds in one folder: lists from the weakest to the strongest, and what repositories track. Paths are relative
    to the anchor: the top of the repository around the project, or the project's own folder."""

    git: tuple[_List, ...] = ()
    own: tuple[_List, ...] = ()
    tracked: frozenset[bytes] = frozenset()
    #: Folders on the way to a tracked file.
    tracked_folders: frozenset[bytes] = frozenset()
    ignore_case: bool = False
    #: Inside a folder that is ignored: only tracked files are looked for.
    inside_ignored: bool = False

    def keeps_out(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        """Whether the entry stays at home (a folder: with all beneath it that is not tracked)."""
        own = _last_verdict(self.own, path, name, is_folder)
        if own is not None:
            return own
        if not is_folder and path in self.tracked:
            return False
        return self.inside_ignored or bool(_last_verdict(self.git, path, name, is_folder))

    def leads_to_tracked(self, path: bytes, name: bytes) -> bool:
        """Whether an ignored folder has to be entered all the same."""
        return path in self.tracked_folders and not _last_verdict(self.own, path, name, True)

    def ignored(self) -> Rules:
        """The same inside a folder that is ignored."""
        return replace(self, inside_ignored=True)


def _last_verdict(lists: tuple[_List, ...], path: bytes, name: bytes, is_folder: bool) -> bool | None:
    for patterns in reversed(lists):
        verdict = patterns.verdict(path, name, is_folder)
        if verdict is not None:
            return verdict
    return None


def around(root: Path) -> tuple[bytes, Rules]:
    """Where the project lies below the anchor (b"" or `a/b/`), and what a repository around it says of it."""
    top = next((folder for folder in root.parents if os.path.lexists(folder / ".git")), None)
    if top is None or os.path.lexists(root / ".git"):
        return b"", Rules()
    prefix = os.fsencode(root.relative_to(top).as_posix()) + b"/"
    rules = _join_repository(Rules(), top, b"", (root, prefix))
    base = b""
    for part in prefix.rstrip(b"/").split(b"/"):
        rules = _join_file(rules, top / os.fsdecode(base), base, GIT_FILE)
        if _last_verdict(rules.git, base + part, part, True):
            return prefix, replace(rules, git=())
        base += part + b"/"
    return prefix, rules


def enter(rules: Rules, folder: Path, base: bytes, names: set[str]) -> Rules:
    """Rules inside `folder`, which holds `names`; `base` is its path from the anchor with a slash behind, or b""."""
    if ".git" in names:
        rules = _join_repository(rules, folder, base, (folder, base))
    for name in (GIT_FILE, OWN_FILE):
        if name in names:
            rules = _join_file(rules, folder, base, name)
    return rules


def _join_repository(rules: Rules, top: Path, base: bytes, listed: tuple[Path, bytes]) -> Rules:
    """Adds a repository's own rules (weaker than any file in its folders) and what it tracks in the folder `listed`."""
    place, prefix = listed
    tracked = frozenset(prefix + path for path in git.tracked_files(place))
    folders = {path[:at] for path in tracked for at, char in enumerate(path) if char == 0x2F}
    joined = replace(rules, tracked=rules.tracked | tracked, tracked_folders=rules.tracked_folders | folders,
                     ignore_case=git.setting(top, "core.ignoreCase", "bool") == "true")
    for path in (_personal_file(top), _exclude_file(top)):
        found = _read(path, base, joined.ignore_case, follow=True)
        if found:
            joined = replace(joined, git=(*joined.git, found))
    return joined


def _personal_file(top: Path) -> Path:
    chosen = git.setting(top, "core.excludesFile", "path")
    if chosen is not None:
        return top / chosen
    settings = os.environ.get("XDG_CONFIG_HOME")
    return (Path(settings) if settings else Path.home() / ".config") / "git" / "ignore"


def _exclude_file(top: Path) -> Path:
    """`info/exclude`; git is asked, since worktrees and submodules keep it elsewhere."""
    said = git.run_git(top, ["rev-parse", "--git-path", "info/exclude"])
    return top / os.fsdecode(said.removesuffix(b"\n")) if said else top / ".git" / "info" / "exclude"


def _join_file(rules: Rules, folder: Path, base: bytes, name: str) -> Rules:
    found = _read(folder / name, base, rules.ignore_case)
    if found is None:
        return rules
    if name == GIT_FILE:
        return replace(rules, git=(*rules.git, found))
    return replace(rules, own=(*rules.own, found))


def _read(path: Path, base: bytes, ignore_case: bool, follow: bool = False) -> _List | None:
    """The file's patterns; None where there are none. As git, no link is followed for a file in a folder.

    Raises CloudrunError("code-unreadable"): read as empty, it would send what was to stay at home.
    """
    try:
        status = path.stat() if follow else path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_FILE_BYTES:
            return None
        patterns = parse(path.read_bytes(), ignore_case)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CloudrunError("code-unreadable", path=str(path), reason=error.strerror or str(error)) from error
    return _List(base, patterns) if patterns else None
