"""nvidia-smi: recorded text, every way it is not well, and a program that hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from remote_agent import gpu, programs
from remote_agent.protocol import Gpu
from tests.support.programs import fake_nvidia_smi, fake_program
from tests.support.waiting import wait_for

MIB = 1 << 20
COLUMNS = ("index", "name", "memory.total", "memory.used", "utilization.gpu", "temperature.gpu", "power.draw")
RECORDED = """\
0, NVIDIA GeForce RTX 4090, 24564, 18321, 97, 71, 402.15
1, NVIDIA A100-SXM4-80GB, [Insufficient Permissions], [Insufficient Permissions], [N/A], 47, [N/A]
2, GRID T4-8Q, 8192, 0, [Not Supported], [Unknown Error], [Not Supported]
3, NVIDIA GeForce RTX 3090, 24576 MiB, 512 MiB, 3 %, 33, 18.02 W
"""
CARDS = [
    Gpu(0, "NVIDIA GeForce RTX 4090", 97.0, 18321 * MIB, 24564 * MIB, 71.0, 402.15),
    Gpu(1, "NVIDIA A100-SXM4-80GB", None, None, None, 47.0, None),
    Gpu(2, "GRID T4-8Q", None, 0, 8192 * MIB, None, None),
    Gpu(3, "NVIDIA GeForce RTX 3090", 3.0, 512 * MIB, 24576 * MIB, 33.0, 18.02),
]
HEADER = ("index, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%], temperature.gpu, power.draw [W]\n")


@pytest.mark.parametrize("text", [
    RECORDED, RECORDED + "\n  \n", HEADER + RECORDED, RECORDED.replace(", ", ","), RECORDED.replace("\n", "\r\n"),
    "WARNING: infoROM is corrupted at gpu 0000:3D:00.0\n" + RECORDED,
], ids=["plain", "blank-line", "header", "no-spaces", "crlf", "warning-before"])
def test_unknown_cells_are_unknown_and_the_others_survive(text: str) -> None:
    assert gpu.parse_cards(text, COLUMNS) == CARDS


def test_a_header_says_which_column_is_which() -> None:
    (card,) = gpu.parse_cards("index, uuid, power.draw [W], name\n5, GPU-1f, 33.50 W, Tesla V100, 32GB\n")
    assert (card.index, card.uuid, card.power_w, card.name) == (5, "GPU-1f", 33.5, "Tesla V100, 32GB")


@pytest.mark.parametrize("cell", ["[N/A]", "N/A", "[GPU requires reset]", "ERR!", "", "-", "nan", "12 furlongs"])
def test_what_is_no_number_is_never_zero(cell: str) -> None:
    (card,) = gpu.parse_cards(f"0, X, {cell}, {cell}, {cell}, {cell}, {cell}\n", COLUMNS)
    assert card == Gpu(0, "X")


@pytest.mark.parametrize(("code", "text", "stream", "state"), [
    (6, "No devices were found", 1, "no-device"),
    (0, "No devices were found", 1, "no-device"),
    (18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161", 1, "driver-mismatch"),
    (255, "Failed to initialize NVML: Unknown Error", 1, "device-unknown"),
    (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver "
        "is installed and running.", 1, "driver-unreachable"),
    (15, "Unable to determine the device handle for GPU 0000:3D:00.0: GPU is lost.  Reboot the system to recover this GPU", 1,
     "gpu-lost"),
    (127, "bash: nvidia-smi: command not found", 2, "not-installed"),
    (255, "Failed to initialize NVML: Driver Not Loaded", 2, "driver-unreachable"),
    (12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", 1, "driver-unreachable"),
    (2, 'Field "uuid" is not a valid field to query.', 1, "error"),
    (0, "", 1, "error"),
    (3, "", 1, "error"),
    (6, "", 1, "no-device"),
    (9, "", 1, "driver-unreachable"),
    (15, "", 1, "gpu-lost"),
    (255, "", 1, "error"),
])
def test_each_way_of_being_broken_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, text: str, stream: int, state: str,
) -> None:
    fake_nvidia_smi(tmp_path, text, code, stream=stream)
    monkeypatch.setenv("PATH", str(tmp_path))
    report = gpu.report()
    assert (report.state, report.gpus) == (state, [])
    assert report.detail == (text.splitlines()[0] if text else report.detail)
    assert report.detail


def test_garbage_is_said_and_steers_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are no text, escape sequences, a line without end."""
    body = "printf '\\033[2J\\377\\000oops\\007 '; /usr/bin/head -c 3000000 /dev/zero | /usr/bin/tr '\\0' x"
    fake_program(tmp_path, "nvidia-smi", body)
    monkeypatch.setenv("PATH", str(tmp_path))
    report = gpu.report()
    assert (report.state, report.gpus) == ("error", [])
    assert report.detail is not None
    assert report.detail.isprintable()
    assert len(report.detail) < 300
    fake_program(tmp_path, "nvidia-smi", "printf '\\033[2J\\377oops\\007\\n'; exit 1")
    assert gpu.report().detail == "[2J\ufffdoops"


#: Waits for a child of vfork: in the kernel (state D), as one does whose driver hangs.
HELD = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.prctl(15, b"nvidia-smi")
print(flush=True)
if libc.vfork() == 0:
    libc.sleep(600)
"""


def test_one_that_the_kernel_holds_is_left_alone_by_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever started it: every launch and every monitor would leave another one hanging beside it."""
    fake_nvidia_smi(tmp_path, RECORDED)
    monkeypatch.setenv("PATH", str(tmp_path))
    held = subprocess.Popen([sys.executable, "-c", HELD], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert held.stdout is not None
        held.stdout.readline()
        wait_for(lambda: "\nState:\tD" in Path(f"/proc/{held.pid}/status").read_text(), what="the kernel holds it")
        assert gpu.report().state == "ok"  # it may only be slow
        monkeypatch.setattr(gpu, "_STUCK_AFTER_S", -1.0)
        report, computing = gpu.look()
        assert (report.state, report.gpus, computing) == ("timeout", [], {})
        assert f"(pid {held.pid}) hangs in the driver" in (report.detail or "")
    finally:
        os.killpg(held.pid, 9)
        held.communicate()
    assert gpu.report().state == "ok"


def test_a_lost_card_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = "Unable to determine the device handle for GPU 0000:3D:00.0: GPU is lost.  Reboot the system to recover this GPU"
    fake_nvidia_smi(tmp_path, RECORDED + lost, 15)
    monkeypatch.setenv("PATH", str(tmp_path))
    report = gpu.report()
    assert (report.state, report.detail, report.gpus) == ("gpu-lost", lost, CARDS)


def test_no_program_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gpu, "USUAL_PLACES", ())
    assert gpu.report().state == "not-installed"


def test_found_in_its_usual_place_when_path_does_not_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvidia_smi(tmp_path / "driver", RECORDED, apps="GPU-1f, 4312\nGPU-1f, [Not Found]\n")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(gpu, "USUAL_PLACES", (str(tmp_path / "nothing"), str(tmp_path / "driver")))
    report, computing = gpu.look()
    assert (report.state, len(report.gpus), computing) == ("ok", 4, {"GPU-1f": {4312}})


def test_a_hanging_program_costs_its_deadline_and_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f'echo "$$" >>{tmp_path}/pids\n/bin/sleep 60 & echo "$!" >>{tmp_path}/pids\nwait\n'
    path = fake_program(tmp_path, "nvidia-smi", body)
    monkeypatch.setenv("PATH", str(tmp_path))
    began = time.monotonic()
    report = gpu.report(deadline_s=0.6)
    assert time.monotonic() - began < 2.0
    assert report.state == "timeout"
    assert str(path) in (report.detail or "")
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2  # it, and what it had started
    wait_for(lambda: not any(_runs(pid) for pid in pids), what="nvidia-smi and its children are killed")


def test_one_that_cannot_be_killed_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a driver that hangs in the kernel does: here the kill is kept from it."""
    path = fake_program(tmp_path, "nvidia-smi", f'echo "$$" >>{tmp_path}/pids\nexec /bin/sleep 60\n')
    monkeypatch.setenv("PATH", str(tmp_path))
    kill = os.killpg
    monkeypatch.setattr(os, "killpg", lambda group, number: None)
    try:
        assert gpu.report(deadline_s=0.3).state == "timeout"
        began = time.monotonic()
        again = gpu.report(deadline_s=30)
        assert (again.state, time.monotonic() - began < 1) == ("timeout", True)
        assert "cannot be killed" in (again.detail or "")
        assert len((tmp_path / "pids").read_text().split()) == 1
    finally:
        for pid in (tmp_path / "pids").read_text().split():
            kill(int(pid), 9)
    wait_for(lambda: not programs.undying(str(path)), what="what could not be killed has gone")


def test_a_child_that_keeps_the_output_open_does_not_hold_us(tmp_path: Path) -> None:
    path = fake_program(tmp_path, "wrapper", f"/bin/sleep 30 & echo $! >{tmp_path}/pid\necho said\nexit 7\n")
    began = time.monotonic()
    try:
        done = programs.run([str(path)], deadline_s=20)
        assert time.monotonic() - began < 5
        assert (done.returncode, done.stdout) == (7, b"said\n")
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 9)


def _runs(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
