"""Memory: a real control group, recorded ones of the other version, and little shared memory on a real mount."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from remote_agent.checks import gpu, memory
from remote_agent.protocol import GpuReport
from tests.support.cgroup import little_memory
from tests.support.namespace import ROOT, in_mount_namespace

GIB = 1 << 30
MACHINE = {"MemTotal": 64 * GIB, "MemAvailable": 60 * GIB}
ASK = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
with open(sys.argv[2], "w") as procs:
    procs.write(str(os.getpid()))
from remote_agent.checks import memory
from remote_agent.checks.probe import Asked
(line,) = memory.check(Asked())
print(json.dumps([line.status, line.found, line.hint, line.params]))
"""


def test_the_limit_of_a_real_control_group() -> None:
    with little_memory(96 << 20) as procs:
        done = subprocess.run([sys.executable, "-I", "-S", "-c", ASK, str(ROOT), str(procs)], capture_output=True, text=True,
                              timeout=30, check=True)
    status, found, hint, params = json.loads(done.stdout)
    assert (status, found, hint) == ("warning", "memory-limit", "memory-little")
    assert params["limit_bytes"] == 96 << 20
    assert 0 < params["used_bytes"] < 96 << 20
    assert params["cgroup"] in (1, 2)


def group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name.replace("__", ".")).write_text(f"{value}\n")


def looked(tmp_path: Path, own: str) -> memory.Limit | None:
    (tmp_path / "own").write_text(own)
    return memory.limit(64 * GIB, str(tmp_path / "cgroup"), str(tmp_path / "own"))


def test_version_2(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    group(root / "pod", memory__max=32 * GIB, memory__current=8 * GIB, memory__stat=f"anon 1\ninactive_file {3 * GIB}\nfile 2")
    group(root / "pod" / "job", memory__max="max", memory__current=GIB)
    assert looked(tmp_path, "0::/pod/job\n") == memory.Limit(32 * GIB, 5 * GIB, 2)
    group(root / "pod" / "job", memory__max=2 * GIB)
    assert looked(tmp_path, "0::/pod/job\n") == memory.Limit(2 * GIB, GIB, 2)
    assert looked(tmp_path, "0::/elsewhere\n") is None
    # In a container: the path is the outside's, and the group itself is what one sees as the root.
    group(root, memory__max=16 * GIB, memory__current=4 * GIB, memory__stat="inactive_file 0")
    assert looked(tmp_path, "0::/docker/0123abc\n") == memory.Limit(16 * GIB, 4 * GIB, 2)


def test_version_1(tmp_path: Path) -> None:
    root = tmp_path / "cgroup" / "memory"
    own = "12:pids:/docker/abc\n4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n1:name=systemd:/docker/abc\n0::/system.slice\n"
    group(root, memory__limit_in_bytes=9223372036854771712, memory__usage_in_bytes=GIB)
    assert looked(tmp_path, own) is None
    cached = f"cache 5\ntotal_inactive_file {GIB // 2}"
    group(root, memory__limit_in_bytes=2 * GIB, memory__usage_in_bytes=GIB, memory__stat=cached)
    assert looked(tmp_path, own) == memory.Limit(2 * GIB, GIB // 2, 1)
    group(root / "docker" / "abc", memory__limit_in_bytes=GIB, memory__usage_in_bytes=5)
    assert looked(tmp_path, own) == memory.Limit(GIB, 5, 1)


def test_no_limit_and_one_that_is_more_than_there_is(tmp_path: Path) -> None:
    group(tmp_path / "cgroup", memory__max=128 * GIB, memory__current=GIB)
    assert looked(tmp_path, "0::/\n") is None
    assert looked(tmp_path, "") is None
    line = memory.judge(None, MACHINE)
    assert (line.status, line.found, line.params) == ("ok", "memory-no-limit",
                                                      {"total_bytes": 64 * GIB, "available_bytes": 60 * GIB})
    assert memory.judge(None, {}).status == "warning"
    assert memory.parse_meminfo("MemTotal:       24683656 kB\nHugePages_Total:       3\nodd\n") == {
        "MemTotal": 24683656 * 1024, "HugePages_Total": 3}


@pytest.mark.parametrize(("limit_bytes", "used_bytes", "status", "hint"), [
    (32 * GIB, 8 * GIB, "ok", None), (32 * GIB, 30 * GIB, "warning", "memory-full"), (2 * GIB, GIB, "warning", "memory-little"),
    (32 * GIB, None, "ok", None),
])
def test_a_limit_is_judged(limit_bytes: int, used_bytes: int | None, status: str, hint: str | None) -> None:
    line = memory.judge(memory.Limit(limit_bytes, used_bytes, 2), MACHINE)
    assert (line.status, line.hint) == (status, hint)


@pytest.mark.parametrize(("state", "limit_bytes", "code", "status"), [
    ("no-device", 2 * GIB, "gpu-no-card-mode", "warning"), ("not-installed", 2 * GIB, "gpu-no-card-mode", "warning"),
    ("no-device", 60 * GIB, "gpu-no-device", "warning"), ("no-device", None, "gpu-no-device", "warning"),
    ("driver-unreachable", 2 * GIB, "gpu-driver-unreachable", "failure"),
])
def test_the_mode_without_a_card_is_told_from_a_card_that_is_gone(
    state: str, limit_bytes: int | None, code: str, status: str,
) -> None:
    line = gpu.judge(GpuReport(state, detail="No devices were found"), limit_bytes)
    assert (line.found, line.status, line.hint) == (code, status, code)


@pytest.mark.parametrize(("mount", "code", "status"), [
    ("mount -t tmpfs -o size=64m,mode=1777 t /dev/shm", "shared-memory-little", "warning"),
    ("mount -t tmpfs -o size=2g,mode=1777 t /dev/shm", "shared-memory", "ok"),
    ("mount -t tmpfs -o size=2g t /dev/shm && mount -o remount,ro /dev/shm", "shared-memory-refused", "warning"),
    ("mount -t tmpfs t /dev", "shared-memory-missing", "warning"),
    ("mkdir d && mount --bind d /dev/shm", "shared-memory-disk", "warning"),
])
def test_shared_memory(tmp_path: Path, mount: str, code: str, status: str) -> None:
    said = in_mount_namespace(tmp_path, mount, (
        "from remote_agent.checks import memory\nfrom remote_agent.checks.probe import Asked\n"
        "(line,) = memory.check_shared(Asked())\nprint(line.status, line.found, line.hint, line.params.get('size_bytes'))\n"
    ), "/usr/bin/python3")
    told = said.split()
    assert told[:2] == [status, code]
    assert (told[2] == "None") == (status == "ok")
    if "64m" in mount:
        assert told[3] == str(64 << 20)


def test_shared_memory_that_dead_trainings_fill() -> None:
    assert memory.judge_shared(8 * GIB, 100 << 20, True).found == "shared-memory-full"
    assert os.path.isdir(memory.SHARED)
