"""The manifest: what it says of odd files, what it does not read twice, and what counts as the same code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cloudrun.errors import CloudrunError
from cloudrun.project import hashcache, manifest
from cloudrun.project.manifest import Manifest, build_manifest, digest


@pytest.fixture
def project(laptop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(laptop / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(laptop / "settings"))
    folder = laptop / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that was written so far is older than any race."""
    now = hashcache.time.time_ns
    monkeypatch.setattr(hashcache.time, "time_ns", lambda: now() + 10**10)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Names of the files that were read since it was asked last."""
    seen: list[str] = []
    real = manifest._hash

    def counted(place: Path) -> tuple[str, os.stat_result]:
        seen.append(place.name)
        return real(place)

    def taken() -> list[str]:
        names, seen[:] = sorted(seen), []
        return names

    monkeypatch.setattr(manifest, "_hash", counted)
    return taken


def shown(found: Manifest) -> dict[str, object]:
    return {entry.path: entry.link if entry.link is not None else (entry.mode, entry.size_bytes, entry.sha256[:8])
            for entry in found.files}


def test_odd_entries(project: Path) -> None:
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o755)
    (project / "key").write_text("k")
    (project / "key").chmod(0o600)
    for name in ("训练 é.txt", "-n", "new\nline", "nfd-e\u0301", "a"):
        (project / name).write_text("x")
        (project / name).chmod(0o644)
    Path(os.fsdecode(os.fsencode(project) + b"/latin-\xe9")).write_text("x")
    (project / "in").symlink_to("a")
    (project / "out").symlink_to("/etc/./passwd//")
    (project / "loop").symlink_to("loop")
    (project / "folder").symlink_to("..")
    (project / "empty/folder").mkdir(parents=True)
    os.mkfifo(project / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(project / "sock"))
        found = build_manifest(project)
    plain, k, script = (hashlib.sha256(text).hexdigest()[:8] for text in (b"x", b"k", b"#!/bin/sh\n"))
    x = (0o644, 1, plain)
    assert shown(found) == {
        "-n": x, "a": x, "latin-\udce9": x, "new\nline": x, "nfd-e\u0301": x, "训练 é.txt": x,
        "in": "a", "out": "/etc/./passwd//", "loop": "loop", "folder": "..",
        "run.sh": (0o755, 10, script), "key": (0o600, 1, k),
    }
    assert sorted(found.skipped) == ["pipe", "sock"]
    assert [entry.path for entry in found.files] == sorted(entry.path for entry in found.files)
    assert found.size_bytes == 17


def test_secrets_and_what_will_be_links_stay_home(project: Path, tmp_path: Path) -> None:
    for name in (".env", "sub/.env", "data/x", "outputs/y", "src/outputs/z", ".git/config", "sub/.git", ".cloudrun/project-id"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x")
    (tmp_path / "alias").symlink_to(project)
    found = build_manifest(tmp_path / "alias", skip=[tmp_path / "alias/.env"], without=["data", "outputs/"])
    assert [entry.path for entry in found.files] == ["src/outputs/z", "sub/.env"]


@pytest.mark.usefixtures("later")
def test_what_has_not_changed_is_not_read_again(project: Path, reads: Callable[[], list[str]]) -> None:
    for name in "abc":
        (project / name).write_text(name)
    first = build_manifest(project)
    assert reads() == ["a", "b", "c"]
    assert build_manifest(project).files == first.files
    assert reads() == []
    before = (project / "a").stat()
    (project / "a").write_text("A")
    os.utime(project / "a", ns=(before.st_atime_ns, before.st_mtime_ns))  # same size, same time: its change time tells
    (project / "new").write_text("b")
    os.replace(project / "new", project / "b")
    second = build_manifest(project)
    assert reads() == ["a", "b"]
    assert second.files[0].sha256 == hashlib.sha256(b"A").hexdigest()
    (next((project.parent / "cache/cloudrun/hashes").iterdir())).write_text('{"schema": 1, "files": {"a": 3}}')
    assert build_manifest(project).files == second.files
    assert reads() == ["a", "b", "c"]


def test_what_was_written_just_now_is_read_again(project: Path, reads: Callable[[], list[str]],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "a").write_text("a")
    build_manifest(project)
    build_manifest(project)
    assert reads() == ["a", "a"]
    ahead = (project / "a").stat().st_mtime_ns
    monkeypatch.setattr(hashcache.time, "time_ns", lambda: ahead - 10**9)  # the file is from the future
    build_manifest(project)
    build_manifest(project)
    assert reads() == ["a", "a"]


def test_the_digest_is_of_what_makes_a_difference(project: Path) -> None:
    (project / "a").write_text("a")
    (project / "l").symlink_to("a")
    (project / "a").chmod(0o644)
    first = digest(build_manifest(project))
    (project / "a").chmod(0o660)
    assert digest(build_manifest(project)) == first
    seen = {first}
    for change in (lambda: (project / "a").chmod(0o755), lambda: (project / "a").write_text("b"),
                   lambda: (project / "a").rename(project / "b"), lambda: (project / "l").unlink(),
                   lambda: (project / "l").symlink_to("b"), lambda: (project / "b\udce9").write_text("")):
        change()
        seen.add(digest(build_manifest(project)))
    assert len(seen) == 7


def test_home_and_root_are_no_projects(laptop: Path) -> None:
    for folder in (laptop, Path("/")):
        with pytest.raises(CloudrunError) as caught:
            build_manifest(folder)
        assert caught.value.code == "project-is-home"


def test_too_many_files_name_the_folder_that_holds_them(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "MAX_FILES", 3)
    for name in ("a", "frames/1", "frames/2", "frames/3"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("")
    with pytest.raises(CloudrunError) as caught:
        build_manifest(project)
    assert "echo 'frames/' >> .cloudrunignore" in caught.value.hint


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that any user may enter."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("closed", ["secret.py", "folder", ".gitignore"])
def test_what_cannot_be_read_is_named(public: Path, closed: str) -> None:
    (public / "folder").mkdir()
    for name in ("secret.py", "folder/x", ".gitignore"):
        (public / name).write_text("x\n")
    (public / closed).chmod(0)
    code, message, path = as_nobody(public, lambda: build_manifest(public))
    assert code == "code-unreadable"
    assert str(public / closed) in message
    assert path == str(public / closed)


def as_nobody(folder: Path, work: Callable[[], object]) -> tuple[str, str, str]:
    """The error of `work` done by a user who may read less than root."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.environ["HOME"] = os.environ["XDG_CACHE_HOME"] = str(folder / "none")
            if os.geteuid() == 0:
                os.setuid(65534)
            work()
        except CloudrunError as error:
            os.write(sender, json.dumps([error.code, error.message, error.params["path"]]).encode())
        finally:
            os._exit(0)
    os.close(sender)
    with open(receiver, "rb") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    code, message, path = json.loads(said)
    return code, message, path
