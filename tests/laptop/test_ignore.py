"""What stays at home is what git would leave out, held against git itself over random trees and the known traps."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from cloudrun.errors import CloudrunError
from cloudrun.project.manifest import build_manifest

PIECES = ("a", "b", "ab", ".c", "*", "**", "?", "/", "/", "[ab]", "[!a]", "[^a]", "[a-b]", "\\*", "\\", "!", "#", " ", "é",
          "[[:alpha:]]", "[", "a*", "*b", "**/", "/**", "x.py", "-", "]", "[]a]", "[a-]", "[[:punct:]-z]", "[b-a]", "[\\]]",
          "[[:foo:]]", "[!/]", "[[:]", "\r", "[a-\\b]")
NAMES = ("a", "b", "ab", ".c", "aa", "ba", "x.py", "é", "*", "a b", "!a", "#a", "-", "a ", "[", "\\", "aab", "[ab]", "]", ":",
         "a\r", "new\nline", "A")


def git(folder: Path, *arguments: str, text: str | None = None) -> bytes:
    environment = dict(os.environ, GIT_CONFIG_NOSYSTEM="1", HOME=str(folder.parent), XDG_CONFIG_HOME=str(folder.parent / "xdg"))
    return subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True,
                          input=None if text is None else text.encode(), timeout=30).stdout


def listed(folder: Path, *options: str) -> set[bytes]:
    options = options or ("-c", "-o", "--exclude-standard")
    return {path for path in git(folder, "ls-files", "-z", *options).split(b"\0") if path and os.path.lexists(
        os.fsencode(folder) + b"/" + path)}


def sent(folder: Path) -> set[bytes]:
    return {os.fsencode(entry.path) for entry in build_manifest(folder).files}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Git's and our settings of this test alone."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return tmp_path


def put(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder


def pattern(chance: random.Random) -> str:
    text = "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 4)))
    return chance.choice(["", "", "", "!"]) + chance.choice(["", "", "", "/"]) + text + chance.choice(["", "", "", "/"])


def grow(chance: random.Random, folder: Path, depth: int, folders: list[Path]) -> None:
    folder.mkdir()
    folders.append(folder)
    for name in chance.sample(NAMES, 7):
        if depth and chance.random() < 0.5:
            grow(chance, folder / name, depth - 1, folders)
        else:
            (folder / name).write_text("x")


@pytest.mark.parametrize("seed", range(3))
def test_random_trees_give_what_git_gives(home: Path, seed: int) -> None:
    chance = random.Random(seed)
    root, folders = home / "project", []
    grow(chance, root, 3, folders)
    git(root, "init", "-q")
    git(root, "config", "core.excludesFile", str(home / "personal"))
    for _ in range(25):
        for folder in folders:
            (folder / ".gitignore").unlink(missing_ok=True)
        for file in [root / ".gitignore", *(f / ".gitignore" for f in chance.sample(folders, 3)), root / ".git/info/exclude",
                     home / "personal"]:
            lines = [pattern(chance) for _ in range(chance.randint(1, 4))]
            file.write_text(chance.choice(["", "", "\ufeff"]) + "\n".join(lines), encoding="utf-8", newline="")
        assert sent(root) == listed(root)


def test_own_file_speaks_the_same_language(home: Path) -> None:
    chance = random.Random(7)
    root, folders = home / "project", []
    grow(chance, root, 2, folders)
    git(root, "init", "-q")
    for _ in range(15):
        for folder in (root, *chance.sample(folders, 2)):
            (folder / ".cloudrunignore").write_text("\n".join(pattern(chance) for _ in range(4)), newline="")
        assert sent(root) == listed(root, "-o", "--exclude-per-directory=.cloudrunignore")


def test_tracked_files_travel_although_a_pattern_matches(home: Path) -> None:
    root = put(home / "project", {".gitignore": "build/\n*.json\n", "build/keep.txt": "", "build/drop.txt": "", "c.json": "",
                                  "d.json": "", "build/deep/er.txt": ""})
    git(root, "init", "-q")
    git(root, "add", "-f", "build/keep.txt", "c.json", "build/deep/er.txt")
    assert sent(root) == listed(root) == {b".gitignore", b"build/keep.txt", b"c.json", b"build/deep/er.txt"}
    put(root, {".cloudrunignore": "c.json\n!d.json\n/build/deep/\n"})
    assert sent(root) == {b".gitignore", b".cloudrunignore", b"build/keep.txt", b"d.json"}


def test_a_project_inside_a_repository_obeys_the_files_above_it(home: Path) -> None:
    whole = put(home / "mono", {".gitignore": "*.pt\n/exp/data/\n", "exp/.gitignore": "!good.pt\n", "exp/train.py": "",
                                "exp/bad.pt": "", "exp/good.pt": "", "exp/data/x": "", "exp/sub/data/x": ""})
    git(whole, "init", "-q")
    assert sent(whole / "exp") == listed(whole / "exp") == {b".gitignore", b"train.py", b"good.pt", b"sub/data/x"}
    put(whole, {".gitignore": "exp/\n"})
    assert sent(whole / "exp") == {b".gitignore", b"train.py", b"good.pt", b"bad.pt", b"data/x", b"sub/data/x"}


def test_repositories_inside_bring_their_own_rules_and_no_git_folder_travels(home: Path) -> None:
    root = put(home / "project", {".gitignore": "*.so\n", "third/.gitignore": "out/\n", "third/out/x": "", "third/a.so": "",
                                  "third/b.so": "", "third/src/.git": "gitdir: ../../modules/src\n", "third/src/x.py": ""})
    git(root, "init", "-q")
    git(root / "third", "init", "-q")
    git(root / "third", "add", "-f", "a.so")
    assert sent(root) == {b".gitignore", b"third/.gitignore", b"third/a.so", b"third/src/x.py"}


def test_worktree_finds_the_shared_exclude_file(home: Path) -> None:
    main = put(home / "main", {"x.py": ""})
    git(main, "init", "-q")
    git(main, "add", ".")
    git(main, "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "x")
    git(main, "worktree", "add", "-q", str(home / "tree"))
    (main / ".git/info/exclude").write_text("*.log\n")
    put(home / "tree", {"a.log": "", "b.txt": ""})
    assert sent(home / "tree") == listed(home / "tree") == {b"x.py", b"b.txt"}


def test_without_git_the_files_count_all_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home / "nothing"))
    root = put(home / "project", {".gitignore": "data/*\n!data/keep\nlogs/\n", "data/x": "", "data/keep": "", "logs/keep": "",
                                  "logs/.gitignore": "!keep\n", "src/.gitignore": "/only\n", "src/only": "", "src/a/only": ""})
    assert sent(root) == {b".gitignore", b"data/keep", b"src/.gitignore", b"src/a/only"}


def test_an_ignore_file_that_cannot_be_read_is_no_empty_one(home: Path) -> None:
    root = put(home / "project", {"x": ""})
    (root / ".gitignore").symlink_to("elsewhere")  # as in git: a link is not followed here
    put(root, {"elsewhere": "x\n"})
    assert b"x" in sent(root)
    if os.geteuid() == 0:
        return
    put(root / "sub", {".gitignore": "y\n"})
    (root / "sub/.gitignore").chmod(0)
    with pytest.raises(CloudrunError) as caught:
        sent(root)
    assert caught.value.code == "code-unreadable"
