"""Whose project a folder is, and what git says of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cloudrun.project import git
from cloudrun.project.git import GitFacts, git_facts
from cloudrun.project.identity import project_id


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    made = tmp_path / "project"
    made.mkdir()
    return made


def run(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True, timeout=30)
    return done.stdout.strip()


def test_an_id_stays_with_its_folder_and_a_copy_gets_its_own(folder: Path, tmp_path: Path) -> None:
    first = project_id(folder)
    assert project_id(folder) == first
    (tmp_path / "alias").symlink_to(folder)
    assert project_id(tmp_path / "alias") == first
    shutil.copytree(folder, tmp_path / "copy")
    copied = project_id(tmp_path / "copy")
    assert copied != first
    assert (project_id(tmp_path / "copy"), project_id(folder)) == (copied, first)
    folder.rename(tmp_path / "moved")
    assert project_id(tmp_path / "moved") == first
    assert project_id(tmp_path / "moved") == first
    (tmp_path / "moved/.cloudrun/project-id").write_text("damaged")
    assert len(project_id(tmp_path / "moved")) == 32


def test_two_commands_at_once_agree(folder: Path) -> None:
    for _ in range(20):
        with ThreadPoolExecutor(4) as pool:
            assert len(set(pool.map(project_id, [folder] * 4))) == 1
        assert sorted(os.listdir(folder / ".cloudrun")) == [".gitignore", "project-id"]
        shutil.rmtree(folder / ".cloudrun")


def test_the_id_does_not_show_in_git(folder: Path) -> None:
    run(folder, "init", "-q")
    project_id(folder)
    assert run(folder, "status", "--porcelain") == ""


def test_git_facts(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert git_facts(folder) == GitFacts()
    run(folder, "init", "-q")
    (folder / "a.py").write_bytes("wörter\n".encode("latin-1"))
    (folder / "b.bin").write_bytes(bytes(range(256)))
    assert git_facts(folder) == GitFacts(dirty=True)
    run(folder, "add", ".")
    run(folder, "commit", "-qm", "one")
    commit = run(folder, "rev-parse", "HEAD")
    assert git_facts(folder) == GitFacts(commit, False)
    (folder / "untracked").write_text("")
    assert git_facts(folder) == GitFacts(commit, True)
    (folder / "a.py").write_bytes(b"changed \xe9\n")
    (folder / "b.bin").write_bytes(bytes(256))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "of a hook"))
    facts = git_facts(folder)
    assert (facts.commit, facts.dirty) == (commit, True)
    monkeypatch.delenv("GIT_DIR")
    assert facts.diff is not None
    run(folder, "checkout", "-q", "--", ".")
    (tmp_path / "patch").write_bytes(facts.diff.encode("utf-8", "surrogateescape"))
    run(folder, "apply", str(tmp_path / "patch"))
    assert (folder / "a.py").read_bytes() == b"changed \xe9\n"
    assert (folder / "b.bin").read_bytes() == bytes(256)


def test_a_long_diff_is_cut_and_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(folder, "init", "-q")
    (folder / "a").write_text("")
    run(folder, "add", ".")
    run(folder, "commit", "-qm", "one")
    (folder / "a").write_text("line of text\n" * 100_000)
    monkeypatch.setattr(git, "MAX_DIFF_BYTES", 1000)
    diff = git_facts(folder).diff
    assert diff is not None
    assert diff.startswith("diff --git")
    assert diff[1000:] == "\n# cut here by cloudrun: the diff is longer than 1000 bytes\n"


def test_a_git_that_hangs_costs_its_deadline_only(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "bin/git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(git, "_DEADLINE_S", 0.2)
    assert git_facts(folder) == GitFacts()
