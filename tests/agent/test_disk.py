"""Which disk is the data disk: recorded mounts, and real ones in a mount namespace of the test's own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from remote_agent import disk, mounts, space
from remote_agent.protocol import AgentError
from tests.support.agentdir import oldest_python
from tests.support.namespace import dead_mount, in_mount_namespace

#: A rented container: overlay root, bind mounts of files, a data disk, shared network storage, a name with a space.
RECORDED = rb"""\
1529 1411 0:401 / / rw,relatime master:530 - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w
1530 1529 0:404 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
1531 1529 0:405 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
1540 1531 0:407 / /dev/shm rw - tmpfs shm rw,size=65536k
1601 1529 259:3 /containers/f2/hosts /etc/hosts rw,relatime - xfs /dev/nvme1n1 rw,attr2
1602 1529 8:1 /lib/x86 /usr/bin/nvidia-smi ro,nosuid,nodev,relatime - ext4 /dev/sda1 rw
1603 1529 259:5 /autodl/c1 /root/autodl-tmp rw,relatime - xfs /dev/nvme2n1 rw,attr2
1604 1529 0:511 / /root/my\040disk\0341\134 rw,relatime - nfs4 10.0.0.2:/v rw,vers=4.1
1605 1529 259:9 / /mnt/ro rw,relatime - ext4 /dev/nvme3n1 ro
1606 1529 259:7 / /mnt/a rw,relatime - ext4 /dev/nvme4n1 rw
1607 1606 0:600 / /mnt/a rw,relatime - tmpfs tmpfs rw
garbage
"""


@pytest.fixture
def agent_python() -> str:
    """The oldest Python that the agent may meet here."""
    return oldest_python() or sys.executable


def test_mountinfo_is_read_with_its_escapes_and_both_kinds_of_read_only() -> None:
    found = mounts.parse(RECORDED)
    assert len(found) == 11
    by_point = {mount.point: mount for mount in found}
    assert by_point["/root/my disk\x1c1\\"] == mounts.Mount("/root/my disk\x1c1\\", "0:511", "nfs4", True, "10.0.0.2:/v")
    assert [point for point, mount in by_point.items() if not mount.writable] == ["/usr/bin/nvidia-smi", "/mnt/ro"]


@pytest.mark.parametrize(("path", "fs_type"), [
    ("/root/autodl-tmp/a/b", "xfs"), ("/root/autodl-tmp", "xfs"), ("/root/autodl-tmp2", "overlay"), ("/", "overlay"),
    ("/mnt/a/b", "tmpfs"), ("/dev/shm/x", "tmpfs"),
])
def test_a_path_lies_on_the_deepest_and_latest_mount(path: str, fs_type: str) -> None:
    mount = mounts.holding(path, mounts.parse(RECORDED))
    assert mount is not None
    assert mount.fs_type == fs_type


def test_configured_folder_need_not_exist_and_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    found = disk.data_disk(str(tmp_path / "link" / "new" / "run7"))
    here = os.statvfs(tmp_path)
    assert (found.path, found.source) == (str(tmp_path / "link/new/run7"), "configured")
    assert found.warning == ("data-disk-not-there" if found.mount == "/" else None)
    assert disk.data_disk(str(tmp_path / "link")).warning is None
    assert found.total_bytes == here.f_blocks * here.f_frsize
    assert abs(found.free_bytes - here.f_bavail * here.f_frsize) < 10**9
    assert disk.room(str(tmp_path / "link" / "new")).real == str(tmp_path / "real")


def test_configured_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert disk.data_disk("~/runs").path == str(tmp_path / "runs")


@pytest.mark.parametrize(("given", "code"), [
    ("data", "data-dir-relative"), ("./data", "data-dir-relative"), ("{}/file", "data-dir-not-folder"),
    ("{}/file/below", "data-dir-not-folder"), ("{}/dangling", "data-dir-not-folder"),
    ("{}/dangling/below", "data-dir-not-folder"),
])
def test_configured_folder_that_cannot_be(tmp_path: Path, given: str, code: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "not-mounted" / "disk")
    with pytest.raises(AgentError) as refused:
        disk.data_disk(given.format(tmp_path))
    assert refused.value.code == code


def test_inodes_that_are_not_counted_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """btrfs says 0 of 0, and that is not "none left"."""
    real = os.statvfs("/")
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result((*real[:5], 0, 0, 0, *real[8:])))
    here = disk.room("/")
    assert (here.free_inodes, here.total_inodes) == (None, None)


#: Prints what the agent picks on a machine laid out by the shell lines before it.
PICK = """
from remote_agent import disk
from remote_agent.protocol import encode
import json
disk.KNOWN = ("{base}/autodl-tmp", "{base}/workspace")
print(json.dumps(encode(disk.data_disk({configured!r}))))
"""


def pick(base: Path, shell: str, configured: str | None = None, python: str = sys.executable) -> dict[str, object]:
    script = PICK.format(base=base, configured=configured)
    return json.loads(in_mount_namespace(base, f"export HOME={base}/home; mkdir -p $HOME\n{shell}", script, python))


EXT4 = (
    "truncate -s 8G {0}.img; mkfs.ext4 -q -E lazy_itable_init=1 -O ^has_journal {0}.img; mkdir -p {0}\n"
    "mount -o loop{1} {0}.img {0}\n"
)


def test_a_known_disk_that_is_mounted(tmp_path: Path, agent_python: str) -> None:
    found = pick(tmp_path, f"mkdir {tmp_path}/autodl-tmp\n" + EXT4.format(f"{tmp_path}/workspace", ""), python=agent_python)
    assert (found["path"], found["source"], found["mount"], found["warning"]) == (
        f"{tmp_path}/workspace", "known", f"{tmp_path}/workspace", None)
    assert 7e9 < int(str(found["free_bytes"])) < 8.6e9
    assert int(str(found["free_inodes"])) > 100000


def test_a_known_disk_that_is_not_mounted_is_taken_with_a_warning(tmp_path: Path) -> None:
    """An ordinary folder of that name: the figures are the system disk's, and that is said."""
    found = pick(tmp_path, f"mkdir {tmp_path}/autodl-tmp")
    assert (found["path"], found["source"], found["warning"]) == (f"{tmp_path}/autodl-tmp", "known", "data-disk-not-mounted")
    beneath = pick(tmp_path, "", configured=f"{tmp_path}/autodl-tmp/me")
    assert (beneath["source"], beneath["warning"]) == ("configured", "data-disk-not-mounted")


def test_else_the_largest_mounted_one_that_can_be_written(tmp_path: Path, agent_python: str) -> None:
    """Beside it: one that is larger and read-only, a file mounted by itself, memory, and a small one."""
    shell = (
        EXT4.format(f"{tmp_path}/data", "") + EXT4.format(f"{tmp_path}/larger", ",ro").replace("8G", "9G")
        + EXT4.format(f"{tmp_path}/small", "").replace("8G", "1G")
        + f"mkdir {tmp_path}/memory; mount -t tmpfs -o size=20G tmpfs {tmp_path}/memory\n"
        f"echo >{tmp_path}/data/hosts; echo >{tmp_path}/hosts; mount --bind {tmp_path}/data/hosts {tmp_path}/hosts\n"
    )
    found = pick(tmp_path, shell, python=agent_python)
    assert (found["path"], found["source"], found["warning"]) == (f"{tmp_path}/data", "mounted", None)


def test_else_the_home_with_a_warning(tmp_path: Path) -> None:
    found = pick(tmp_path, f"mkdir {tmp_path}/memory; mount -t tmpfs -o size=20G tmpfs {tmp_path}/memory")
    assert (found["path"], found["source"], found["warning"]) == (f"{tmp_path}/home", "home", "data-disk-is-home")


def test_a_folder_in_memory_is_said(tmp_path: Path) -> None:
    shell = f"mkdir {tmp_path}/memory; mount -t tmpfs -o size=20M,nr_inodes=50 tmpfs {tmp_path}/memory"
    found = pick(tmp_path, shell, configured=f"{tmp_path}/memory/runs")
    assert (found["warning"], found["mount"], found["total_bytes"]) == ("data-disk-in-memory", f"{tmp_path}/memory", 20 << 20)
    assert found["total_inodes"] == 50


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    script = f"""
from remote_agent import disk
from remote_agent.protocol import AgentError
try:
    disk.data_disk("{tmp_path}/ro/runs")
except AgentError as error:
    print(error.code, error.params["stands"])
"""
    shell = f"mkdir {tmp_path}/ro; mount -t tmpfs -o ro tmpfs {tmp_path}/ro"
    assert in_mount_namespace(tmp_path, shell, script, sys.executable) == f"data-dir-not-writable {tmp_path}/ro\n"


DEAD_MOUNT = """
import json, time
from remote_agent import disk, silence
from remote_agent.protocol import AgentError
disk.KNOWN, disk._ASIDE_S, silence._SILENT_S = (), 0.5, 0.5
os.symlink("{base}/dead/below", "{base}/link")
for path in ("{base}/dead/below", "{base}/link"):
    began = time.monotonic()
    try:
        disk.room(path, deadline_s=0.3)
    except AgentError as error:
        print(json.dumps([error.code, error.params["mount"], error.params["source"], time.monotonic() - began]))
began = time.monotonic()
print(json.dumps([disk.data_disk(None).source, time.monotonic() - began]))
os.environ["PATH"] = "{base}/dead/conda/bin:" + os.environ["PATH"]
for _ in range(2):
    began = time.monotonic()
    print(json.dumps([silence.which("bash"), time.monotonic() - began]))
"""


def test_a_mount_that_does_not_answer_costs_its_deadline_and_is_named(tmp_path: Path, agent_python: str) -> None:
    """A real FUSE file system whose server never says a word: whoever asks it, hangs in the kernel. So with PATH."""
    script = dead_mount(tmp_path / "dead") + DEAD_MOUNT.replace("{base}", str(tmp_path))
    said = [json.loads(line) for line in in_mount_namespace(tmp_path, "", script, agent_python).splitlines()]
    for code, mount, source, took_s in said[:2]:
        assert (code, mount, source) == ("disk-hangs", str(tmp_path / "dead"), "10.0.0.2:/share")
        assert took_s < 2
    assert said[2][0] == "home"
    assert said[2][1] < 2
    assert [found for found, _ in said[3:]] == ["/usr/bin/bash"] * 2
    assert said[4][1] < 0.5  # the folder that was silent is not asked again


ONE_DEAD_RUN = """
import json
from remote_agent import runs
from remote_agent.protocol import AgentError
runs._ALL_S = runs._ONE_S = 0.5
found = runs.all_runs("{base}/data")
print(json.dumps([[run.name, run.state, run.cause] for run in found]))
print(runs.resolve("{base}/data", "exp_good", None).name)
"""


def test_one_run_whose_files_hang_hides_no_other(tmp_path: Path, agent_python: str) -> None:
    (tmp_path / "data/cloudrun/runs/exp_good").mkdir(parents=True)
    script = dead_mount(tmp_path / "data/cloudrun/runs/exp_dead") + ONE_DEAD_RUN.replace("{base}", str(tmp_path))
    listed, resolved = in_mount_namespace(tmp_path, "", script, agent_python).splitlines()
    assert sorted(json.loads(listed)) == [["exp_dead", "lost", "disk-hangs"], ["exp_good", "lost", None]]
    assert resolved == "exp_good"


def test_what_takes_the_space_with_each_run_apart(tmp_path: Path) -> None:
    sizes = {"dataset/a/b.bin": 900, "cloudrun/runs/exp1/ckpt/x": 500, "cloudrun/runs/exp2/log": 200,
             "cloudrun/runs/.archive/old/log": 300, "tiny": 4}
    for name, kib in sizes.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(os.urandom(kib * 1024))
    os.link(tmp_path / "dataset/a/b.bin", tmp_path / "dataset/again.bin")
    (tmp_path / "link").symlink_to("/usr")
    found = space.largest(str(tmp_path), deadline_s=10, count=4)
    assert [os.path.relpath(one.path, tmp_path) for one in found] == [
        "dataset", "cloudrun/runs/exp1", "cloudrun/runs/.archive/old", "cloudrun/runs/exp2"]
    assert all(one.complete for one in found)
    assert 900 * 1024 <= found[0].size_bytes < 1000 * 1024  # the second name of a file takes nothing


def test_counting_ends_at_its_deadline_and_says_so() -> None:
    found = space.largest("/usr", deadline_s=0.05, count=3)
    assert found
    assert not all(one.complete for one in found)
