"""The code on the box: what travels, what is replaced, what is never lost, and what a kill at any step leaves."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from remote_agent import code, protocol
from remote_agent.protocol import AgentError, CodeOffer, FileEntry
from tests.support.codebox import CodeBox, Link, Script, Tree, as_on_disk, entries, frames, on_disk
from tests.support.namespace import in_mount_namespace


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CodeBox:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return CodeBox(tmp_path / "home")


FIRST: Tree = {
    "train.py": "print(1)\n", "run.sh": Script("#!/bin/bash\n"), "pkg/__init__.py": "", "pkg/also_empty.py": "",
    "pkg/model.py": "model\n", "pkg/copy.py": "model\n", "data/训练 é.txt": "names\n", "odd/-n\nl": "x",
    "odd/\udce9.bin": b"\xff\0",
    "latest": Link("pkg/model.py"), "out": Link("/nowhere/at all"), "up": Link("../.."), "gone/deep/er.txt": "bye",
}


def test_everything_arrives_and_nothing_travels_twice(box: CodeBox) -> None:
    applied = box.bring(FIRST)
    assert box.shown() == as_on_disk(FIRST)
    assert len(box.sent) == 8  # of ten files, two pairs have the same content
    assert (applied.placed, applied.kept, applied.removed, applied.put_aside) == (len(FIRST), 0, 0, [])
    assert not box.left_behind()
    inodes = {path: os.lstat(box.tree() / path).st_ino for path in FIRST}

    applied = box.bring(FIRST)
    assert box.sent == []
    assert (applied.placed, applied.kept) == (0, len(FIRST))
    assert inodes == {path: os.lstat(box.tree() / path).st_ino for path in FIRST}

    box.bring({**FIRST, "pkg/model.py": "new\n"}, "other")
    assert box.sent == ["pkg/model.py"]
    assert box.shown("other") == as_on_disk({**FIRST, "pkg/model.py": "new\n"})
    assert not {os.lstat(p).st_ino for p in box.tree().rglob("*")} & {os.lstat(p).st_ino for p in box.tree("other").rglob("*")}


def test_what_is_gone_at_home_goes_and_what_was_not_brought_stays(box: CodeBox) -> None:
    box.bring(FIRST)
    (box.tree() / "pkg/weights.pt").write_text("mine")
    (box.tree() / "kept").mkdir()
    applied = box.bring({"train.py": "print(1)\n"})
    assert box.shown() == {"train.py": b"print(1)\n", "pkg/weights.pt": b"mine", "kept": None}
    assert applied.removed == len(FIRST) - 1
    assert applied.put_aside == []


def test_edited_and_foreign_files_are_put_aside_before_ours_come(box: CodeBox) -> None:
    box.bring(FIRST)
    (box.tree() / "train.py").write_text("edited on the box")
    (box.tree() / "gone/deep/er.txt").write_text("edited, and gone at home")
    (box.tree() / "new.py").write_text("foreign")
    (box.tree() / "same.py").write_text("the same as ours")
    (box.tree() / "folder").write_text("foreign, where a folder goes")
    (box.tree() / "latest").unlink()
    (box.tree() / "latest").symlink_to("elsewhere")
    wanted = {path: content for path, content in FIRST.items() if path != "gone/deep/er.txt"}
    wanted.update({"new.py": "ours", "same.py": "the same as ours", "folder/x": "x"})
    applied = box.bring(wanted)
    assert box.shown() == as_on_disk(wanted)
    assert applied.put_aside == ["folder", "gone/deep/er.txt", "latest", "new.py", "train.py"]
    assert applied.aside is not None
    assert re.search(r"/\.replaced/exp/\d{8}T\d{6}Z$", applied.aside)
    assert on_disk(Path(applied.aside)) == {
        "train.py": b"edited on the box", "gone/deep/er.txt": b"edited, and gone at home", "new.py": b"foreign",
        "folder": b"foreign, where a folder goes", "latest": Link("elsewhere")}
    assert not box.bring(wanted).put_aside


def test_files_and_folders_change_places(box: CodeBox) -> None:
    first: Tree = {"a": "file", "b/x": "x", "b/y/z": "z", "c/x": "x", "d/x": "x", "l": Link("b"), "e/x": "x"}
    second: Tree = {"a/x": "now a folder", "b": "now a file", "c": Link("/"), "d": "file", "l/x": "no link",
                    "e": Link("b")}
    box.bring(first)
    (box.tree() / "d/mine").write_text("foreign")
    (box.tree() / "d/x").write_text("edited")
    applied = box.bring(second)
    assert box.shown() == as_on_disk(second)
    assert applied.put_aside == ["d"]
    assert on_disk(Path(applied.aside or "")) == {"d/mine": b"foreign", "d/x": b"edited"}
    box.bring(first)
    assert box.shown() == as_on_disk(first)


def test_run_bits_follow_and_modes_are_sane(box: CodeBox) -> None:
    box.bring({"a": "text", "b": Script("text")})
    box.bring({"a": Script("text"), "b": "text"})
    assert box.sent == []
    assert [(box.tree() / name).stat().st_mode & 0o777 for name in "ab"] == [0o755, 0o644]
    secret = [FileEntry("key", 0o600, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")]
    wanted = code.offer(CodeOffer("k", box.project, box.project_id, secret))
    code.receive(wanted.staging, io.BytesIO(frames([b""])))
    code.apply(box.project, box.project_id, "k", wanted.staging)
    assert (box.tree("k") / "key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "", "a//b", "a/./b", "a\0b", ".", "\ud800"])
def test_paths_that_leave_the_tree_are_refused(box: CodeBox, path: str) -> None:
    with pytest.raises(AgentError) as caught:
        box.offer({path: "x"})
    assert caught.value.code == "code-path"
    assert not os.path.lexists(box.trees.stagings) or not os.listdir(box.trees.stagings)


def test_a_path_is_not_both_file_and_folder_nor_there_twice(box: CodeBox) -> None:
    for files in (entries({"a": "x", "a/b": "y"}), [*entries({"a": "x"}), *entries({"a": "y"})]):
        with pytest.raises(AgentError, match="code-path"):
            code.offer(CodeOffer("exp", box.project, box.project_id, files))


def test_no_byte_is_written_through_a_link(box: CodeBox, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "precious").write_text("data")
    box.bring({"a": "1", "b": "2"})
    code.make_links(str(box.tree()), {"data": str(disk)}, [], str(tmp_path / "run"))
    before = box.shown()
    with pytest.raises(AgentError) as caught:
        box.bring({"a": "changed", "b": "2", "data/precious": "overwritten"})
    assert (caught.value.code, caught.value.params["at"]) == ("code-through-link", "data")
    assert box.shown() == before
    assert on_disk(disk) == {"precious": b"data"}
    assert not box.left_behind()
    os.rename(box.tree(), tmp_path / "moved")
    box.tree().symlink_to(tmp_path / "moved")
    with pytest.raises(AgentError, match="tree-is-link"):
        box.bring({"a": "changed"})


def test_a_folder_replaced_by_a_link_is_not_emptied_through_it(box: CodeBox, tmp_path: Path) -> None:
    box.bring({"conf/a": "1", "b": "2"})
    os.rename(box.tree() / "conf", tmp_path / "elsewhere")
    (box.tree() / "conf").symlink_to(tmp_path / "elsewhere")
    box.bring({"b": "2"})
    assert on_disk(tmp_path / "elsewhere") == {"a": b"1"}


def test_content_is_checked_where_it_is_copied_and_asked_for_once_it_was_wrong(box: CodeBox) -> None:
    box.bring({"a": "content", "b": "other"})
    file = box.tree() / "a"
    times = file.stat()
    with file.open("r+") as stream:
        stream.write("CONTENT")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(AgentError) as caught:
        box.bring({"a": "content"}, "second")
    assert caught.value.code == "code-changed-on-box"
    assert not box.left_behind()
    box.bring({"a": "content"}, "second")
    assert box.sent == ["a"]
    assert box.shown("second") == {"a": b"content"}
    applied = box.bring({"a": "content", "b": "other"})
    assert applied.put_aside == ["a"]
    assert box.shown() == {"a": b"content", "b": b"other"}


def test_a_source_that_goes_away_after_the_offer_is_said(box: CodeBox) -> None:
    box.bring({"a": "content"})
    staging = box.stage({"b": "content"}, "second")
    (box.tree() / "a").unlink()
    with pytest.raises(AgentError, match="code-changed-on-box"):
        code.apply(box.project, box.project_id, "second", staging)
    box.bring({"b": "content"}, "second")
    assert box.sent == ["b"]


def test_another_project_of_the_same_name_is_refused(box: CodeBox) -> None:
    box.bring({"a": "1"})
    with pytest.raises(AgentError, match="project-name-taken"):
        CodeBox(box.home, project_id="p-2").offer({"a": "2"})
    staging = box.stage({"a": "3"})
    with pytest.raises(AgentError, match="no-staging"):
        code.apply(box.project, "p-2", "exp", staging)
    assert box.shown() == {"a": b"1"}


@pytest.mark.parametrize(("damage", "expected"), [
    (lambda data: data[:-20], "code-cut"), (lambda data: data[:40], "code-cut"), (lambda data: b"", "code-cut"),
    (lambda data: frames([b"WRONG"]), "code-damaged"), (lambda data: frames([b"right", b"more"]), "code-damaged"),
    (lambda data: frames([b"rig"]), "code-damaged"), (lambda data: frames([b"right"], "abort"), "code-given-up"),
    (lambda data: protocol.dump_frame({"kind": "data"}, b"no zlib") + protocol.dump_frame({"kind": "end"}), "code-damaged"),
])
def test_a_stream_that_is_not_whole_leaves_nothing(box: CodeBox, damage: Any, expected: str) -> None:
    box.bring({"a": "old"})
    wanted = box.offer({"a": "right"})
    stream = io.BytesIO(damage(frames([b"right"])) + b"next request\n")
    if expected == "code-cut":
        stream = io.BytesIO(damage(frames([b"right"])))
    with pytest.raises(AgentError) as caught:
        code.receive(wanted.staging, stream)
    assert caught.value.code == expected
    assert stream.read() == (b"" if expected == "code-cut" else b"next request\n")
    assert not box.left_behind()
    assert box.shown() == {"a": b"old"}


def test_staging_areas_are_ours_or_refused(box: CodeBox, tmp_path: Path) -> None:
    box.bring({"a": "1"})
    foreign = tmp_path / "foreign-0123456789abcdef"
    foreign.mkdir()
    os.symlink(foreign, os.path.join(box.trees.stagings, "exp-0123456789abcdef"))
    for path in (str(foreign), os.path.join(box.trees.stagings, "exp-0123456789abcdef"), box.trees.stagings + "/../.trees", ""):
        with pytest.raises(AgentError, match="no-staging"):
            code.receive(path, io.BytesIO(frames([])))
    assert foreign.is_dir()


def test_stagings_of_dead_agents_go_and_those_of_the_living_stay(box: CodeBox) -> None:
    child = os.fork()
    if child == 0:
        try:
            box.offer({"a": "1"})
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    (dead,) = os.listdir(box.trees.stagings)
    mine = os.path.basename(box.offer({"a": "1"}).staging)
    box.offer({"b": "1"}, "other")
    assert dead not in os.listdir(box.trees.stagings)
    assert mine in os.listdir(box.trees.stagings)


# ------------------------------------------------------------------------------------------ kill at any step

OLD: Tree = {"a": "old", "b/x": "old", "b/y": "old", "c": Script("old"), "d/e/f": "old", "l": Link("a"), "same": "same",
             "k": "now a folder"}
NEW: Tree = {"a": "new", "b": "now a file", "c": "old", "g/h": "new", "l": Link("g"), "same": "same", "new": "old",
             "t": "foreign!", "k/x": "old"}
CHANGES = ("replace", "unlink", "rmdir", "mkdir", "chmod", "symlink", "write")


def kill_at(step: int, work: Any) -> bool:
    """Runs `work` in a process that is killed as it makes its `step`th change; whether it came to its end before that."""
    child = os.fork()
    if child == 0:
        left = step

        def counting(call: Any) -> Any:
            def counted(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
                return call(*args, **kwargs)
            return counted

        try:
            for name in CHANGES:
                setattr(os, name, counting(getattr(os, name)))
            work()
            os._exit(0)
        finally:
            sys.stderr.write(f"step {step}: {sys.exc_info()[1]!r}\n")
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFEXITED(status)


def test_a_kill_at_any_step_leaves_the_old_tree_or_is_rolled_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # what was written outlives the process that is killed
    outcomes = []
    for step in range(1000):
        home = tmp_path / str(step)
        home.mkdir()
        monkeypatch.setenv("HOME", str(home))
        box = CodeBox(home)
        box.bring(OLD)
        (box.tree() / "t").write_text("edited")
        (box.tree() / "mine").write_text("mine")
        staging = box.stage(NEW)
        finished = kill_at(step, lambda box=box, staging=staging: code.apply(box.project, box.project_id, "exp", staging))
        half = box.shown()
        box.offer({"z": "z"}, "another")
        old = {**as_on_disk(OLD), "t": b"edited", "mine": b"mine"}
        new = {**as_on_disk(NEW), "mine": b"mine"}
        now = box.shown()
        assert now in (old, new), f"step {step}"
        outcomes.append((half == old, now == new))
        if now == new:
            aside = list(Path(box.trees.path, ".replaced").rglob("t"))
            assert [path.read_text() for path in aside] == ["edited"]
            box.bring({"z": "z"})  # what was brought is known: it goes when it is gone at home
            assert box.shown() == {"z": b"z", "mine": b"mine"}
        else:
            box.bring(NEW)
            assert box.shown() == new
        assert len(list(Path(box.trees.path, ".replaced").rglob("t"))) == 1
        if finished:
            break
    assert (True, False) in outcomes  # killed before the journal: nothing was touched
    assert sum(half_old is False and rolled for half_old, rolled in outcomes) > 10  # killed in the middle
    assert all(rolled for _, rolled in outcomes[outcomes.index(next(o for o in outcomes if o[1])):])


# ---------------------------------------------------------------------------------------------------- links


def test_links_and_outputs_lead_to_the_data_disk(box: CodeBox, tmp_path: Path) -> None:
    run_dir, tree, disk = tmp_path / "run", box.tree(), tmp_path / "dataset"
    box.bring({"a": "1", "runs/keep": "x"})
    (tree / "wandb").mkdir()
    links = {"data": str(disk), "deep/er/训练": "~/sets"}
    done = code.make_links(str(tree), links, ["outputs/", "wandb"], str(run_dir))
    assert done.made == ["data", "deep/er/训练", "outputs/", "wandb"]
    assert done.missing == [str(disk), str(box.home / "sets")]
    assert os.readlink(tree / "deep/er/训练") == str(box.home / "sets")
    (tree / "outputs/model.pt").write_text("written")
    assert (run_dir / "outputs/outputs/model.pt").read_text() == "written"
    again = code.make_links(str(tree), links, ["outputs", "wandb"], str(run_dir))
    assert again.made == []
    moved = code.make_links(str(tree), {"data": str(tmp_path)}, [], str(run_dir))
    assert moved.relinked == {"data": str(disk)}
    assert not box.bring({"a": "1", "runs/keep": "x"}).put_aside
    assert (tree / "outputs/model.pt").read_text() == "written"


@pytest.mark.parametrize(("links", "outputs", "expected"), [
    ({"runs": "/x"}, [], "link-in-the-way"), ({"a": "/x"}, [], "link-in-the-way"), ({}, ["runs"], "link-in-the-way"),
    ({"../x": "/x"}, [], "code-path"), ({"/x": "/x"}, [], "code-path"), ({"data": "relative"}, [], "link-target"),
    ({"up/x": "/x"}, [], "code-through-link"), ({}, ["a/x"], "code-through-link"),
])
def test_links_never_take_the_place_of_content(box: CodeBox, tmp_path: Path, links: dict[str, str], outputs: list[str],
                                               expected: str) -> None:
    box.bring({"a": "1", "runs/keep": "x", "up": Link("/tmp")})
    before = box.shown()
    with pytest.raises(AgentError) as caught:
        code.make_links(str(box.tree()), links, outputs, str(tmp_path / "run"))
    assert caught.value.code == expected
    assert box.shown() == before


# ------------------------------------------------------------------------------------------------- full disk

FULL = """
import hashlib, io, os, zlib
from remote_agent import code
from remote_agent.protocol import AgentError, CodeOffer, FileEntry, dump_frame

def offer(*contents):
    files = [FileEntry("f%d" % n, 0o644, len(c), hashlib.sha256(c).hexdigest()) for n, c in enumerate(contents)]
    return code.offer(CodeOffer("exp", "proj", "p-1", files))

def bring(wanted, *contents):
    frames = dump_frame({"kind": "data"}, zlib.compress(b"".join(contents))) + dump_frame({"kind": "end"})
    code.receive(wanted.staging, io.BytesIO(frames))
    code.apply("proj", "p-1", "exp", wanted.staging)

def refused(work):
    try:
        work()
    except AgentError as error:
        print(error.code, error.params["needed_bytes"] > error.params["free_bytes"], os.listdir("cloudrun/proj/.staging"))

os.environ["HOME"] = os.path.abspath("home")
os.chdir("home")
old, new = b"old", os.urandom(10 << 20)
bring(offer(old), old)
refused(lambda: offer(os.urandom(40 << 20)))
wanted = offer(new)
with open("ballast", "wb") as ballast:
    try:
        while ballast.write(bytes(1 << 20)):
            ballast.flush()
    except OSError:
        pass
refused(lambda: bring(wanted, new))
print(open("cloudrun/proj/exp/f0").read(), os.listdir("cloudrun/proj/exp"))
os.unlink("ballast")
bring(offer(new), new)
print(os.path.getsize("cloudrun/proj/exp/f0"))
"""


def test_a_full_system_disk_is_said_with_its_figures_and_changes_nothing(tmp_path: Path) -> None:
    said = in_mount_namespace(tmp_path, "mkdir home; mount -t tmpfs -o size=40M none home", FULL, sys.executable)
    assert said.splitlines() == ["code-disk-full True []", "code-disk-full True []", "old ['f0']", str(10 << 20)]
