"""The doctor's disks on real mounts: full, out of inodes, read-only, a container's layer, a network disk's place."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from remote_agent import bounded, mounts
from remote_agent.checks import disk, loginkeys, writing
from remote_agent.checks.probe import Asked
from remote_agent.protocol import DataDisk
from tests.support.namespace import in_mount_namespace

PYTHON = "/usr/bin/python3"
TELL = """
import json
from remote_agent.checks import disk, loginkeys
from remote_agent.checks.probe import Asked
def tell(*checks):
    return [[check.name, check.status, check.found, check.hint, check.params] for group in checks for check in group]
"""
GB = 10**9


def told(base: Path, shell: str, asks: str) -> list[list[Any]]:
    """[name, status, found, hint, params] of the checks of `asks`, with mounts laid out by `shell`."""
    script = f"{TELL}\nos.environ['HOME'] = os.getcwd()\nprint(json.dumps(tell({asks})))\n"
    found: list[list[Any]] = json.loads(in_mount_namespace(base, shell, script, PYTHON))
    return found


def test_disks_that_take_no_write_say_why_and_leave_nothing(tmp_path: Path) -> None:
    """Each on a real file system. `read-only` is met as the home, `full` and `none` (no inodes) as data disk too."""
    shell = (
        "mkdir full none ro well && mount -t tmpfs -o size=64k,nr_inodes=50 t full\n"
        "(cat /dev/zero > full/fill || true) 2>/dev/null\n"
        "mount -t tmpfs -o nr_inodes=3 t none && touch none/a none/b\n"
        "mount -t tmpfs -o size=1m t well\n"
        "mount --bind ro ro && mount -o remount,ro,bind ro\n"
    )
    names = ("full", "none", "ro", "well")
    asks = ", ".join(f"[disk.judge_write('data-write', os.path.abspath('{name}/cloudrun'))]" for name in names)
    found = told(tmp_path, shell, asks + ", disk.check_write(Asked(data_dir=os.path.abspath('none'))), "
                 "disk.check(Asked(data_dir=os.path.abspath('none'))), "
                 "(os.environ.update(HOME=os.path.abspath('ro')), disk.check_system(Asked()))[1], "
                 "(os.environ.update(HOME=os.path.abspath('full')), disk.check_system(Asked()))[1], "
                 "[disk.Check(name, 'ok', ' '.join(sorted(os.listdir(name)))) for name in ('full', 'none', 'well')]")
    by_place = [(line[1], line[2]) for line in found]
    assert by_place[:4] == [
        ("failure", "write-full"), ("failure", "write-no-inodes"), ("failure", "write-read-only"), ("ok", "write")]
    assert by_place[4] == ("failure", "write-no-inodes")
    assert ["inodes", "failure", "inodes", "inodes-low", {"path": f"{tmp_path}/none", "free": 0, "total": 3}] in found
    assert ("data-disk", "warning", "data-disk-in-memory") in [tuple(line[:3]) for line in found]
    systems = [(line[2], line[3]) for line in found if line[0] == "system-disk"]
    assert systems == [("write-read-only", "system-write-read-only"), ("write-full", "system-write-full")]
    assert found[0][4]["path"] == f"{tmp_path}/full"
    assert [line[2] for line in found[-3:]] == ["fill", "a b", ""]


def test_a_folder_on_the_containers_layer_is_a_warning_also_when_it_was_configured(tmp_path: Path) -> None:
    """An overlay is the root here, as in a container; a disk mounted beneath it is none."""
    shell = (
        "mkdir lower over && mount -t tmpfs t over && mkdir over/upper over/work merged\n"
        "mount -t overlay -o lowerdir=lower,upperdir=over/upper,workdir=over/work o merged\n"
        "mkdir -p merged/runs merged/disk merged/.ssh && touch merged/.ssh/authorized_keys && mount -t tmpfs t merged/disk\n"
    )
    found = told(tmp_path, shell, (
        "disk.check(Asked(data_dir=os.path.abspath('merged/runs')))[:1],"
        " disk.check(Asked(data_dir=os.path.abspath('merged/x')))[:1],"
        " disk.check(Asked(data_dir=os.path.abspath('merged/disk')))[:1],"
        " (os.environ.update(HOME=os.path.abspath('merged')), loginkeys.check(Asked()))[1]"))
    assert [(line[0], line[1], line[2]) for line in found] == [
        ("data-disk", "warning", "data-disk-on-layer"), ("data-disk", "warning", "data-disk-on-layer"),
        ("data-disk", "warning", "data-disk-in-memory"), ("login-keys", "ok", "login-keys-layer")]
    assert found[0][3] == "data-disk-on-layer"


def test_autodls_network_disk_is_recognised(tmp_path: Path) -> None:
    shell = (
        "mount -t tmpfs t /root && mkdir /root/autodl-fs /root/autodl-tmp\n"
        "mount -t tmpfs -o size=8g,nr_inodes=200k t /root/autodl-fs && mkdir /root/autodl-fs/mine\n"
        "ln -s /root/autodl-fs/mine link\n"
    )
    found = told(tmp_path, shell, (
        "disk.check(Asked(data_dir='/root/autodl-fs'))[:1], disk.check(Asked(data_dir=os.path.abspath('link')))[:1],"
        " disk.check_network(Asked()), disk.check(Asked(data_dir='/root/autodl-tmp'))[:1]"))
    assert [(line[0], line[1], line[2]) for line in found] == [
        ("data-disk", "warning", "data-disk-autodl-fs"), ("data-disk", "warning", "data-disk-autodl-fs"),
        ("network-disk", "ok", "network-disk-counted"), ("data-disk", "warning", "data-disk-in-memory")]
    assert found[2][4]["path"] == "/root/autodl-fs"


def test_autodls_network_disk_is_never_chosen_by_itself() -> None:
    assert disk.disk._may_hold_runs(mounts.Mount("/root/data", "0:50", "nfs4", True), None)
    assert not disk.disk._may_hold_runs(mounts.Mount("/root/autodl-fs", "0:50", "nfs4", True), None)


@pytest.mark.parametrize(("fs_type", "code"), [
    ("ext4", "data-disk"), ("xfs", "data-disk"), ("overlay", "data-disk-on-layer"), ("nfs4", "data-disk-network"),
    ("fuse.juicefs", "data-disk-network"), ("aufs", "data-disk-on-layer"), ("fuse.lxcfs", "data-disk"),
])
def test_what_lies_where(fs_type: str, code: str) -> None:
    found = DataDisk("/data/x", "configured", "/data", 100 * GB, 200 * GB, None, None)
    line = disk.places(found, mounts.Mount("/data", "0:1", fs_type, True), "/data/x")
    assert (line.found, line.status) == (code, "ok" if code == "data-disk" else "warning")
    at_root = DataDisk("/x", "configured", "/", 100 * GB, 200 * GB, None, None)
    assert disk.places(at_root, mounts.Mount("/", "8:1", "ext4", True), "/x").found == "data-disk-root"


@pytest.mark.parametrize(("free_bytes", "free_inodes", "status", "hint"), [
    (10 * GB, 10**6, "ok", None), (2 * GB - 1, 10**6, "warning", "system-disk-low"), (10**8, 10**6, "failure", "system-disk-low"),
    (10 * GB, 19999, "warning", "system-inodes-low"), (10 * GB, 100, "failure", "system-inodes-low"), (10 * GB, None, "ok", None),
])
def test_the_system_disk(free_bytes: int, free_inodes: int | None, status: str, hint: str | None) -> None:
    room = disk.disk.Room("/root", True, True, True, free_bytes, 30 * GB, free_inodes, free_inodes)
    line = disk.judge_system("/root", room, {"folder": "/root", "took_ms": 1})
    assert (line.status, line.hint) == (status, hint)


def test_keys_in_memory_are_a_warning() -> None:
    path = "/root/.ssh/authorized_keys"
    cases = [("tmpfs", True, "login-keys-memory"), ("ext4", True, "login-keys"), ("tmpfs", False, "login-keys-none")]
    for fs_type, there, code in cases:
        line = loginkeys.judge(path, there, mounts.Mount("/root", "0:1", fs_type, True))
        assert (line.found, line.status) == (code, "warning" if code == "login-keys-memory" else "ok")


def test_a_disk_that_hangs_costs_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that nobody reads hangs whoever opens it, as a dead mount does."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(writing, "_write", lambda place: os.close(os.open(pipe, os.O_WRONLY)))
    with pytest.raises(TimeoutError):
        writing.try_in(str(tmp_path), 0.2)


def test_a_write_that_fails_only_when_it_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a dying disk and a full network disk do."""
    def flush(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(writing.os, "fsync", flush)
    line = disk.judge_write("data-write", str(tmp_path))
    assert (line.status, line.found, line.params["detail"]) == ("failure", "write-error", "Input/output error")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_has_no_second_line() -> None:
    assert disk.check_write(Asked(data_dir="not/absolute")) == []


def test_many_questions_side_by_side_leave_no_child_behind() -> None:
    before, wrong = len(bounded._left), []

    def ask() -> None:
        try:
            for number in range(8):
                assert bounded.in_child(lambda number=number: number, 10.0) == number
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []
    assert bounded.in_child(lambda: 1, 10.0) == 1
    assert len(bounded._left) <= before + 1
