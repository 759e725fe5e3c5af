"""The doctor on the box: every probe has a line of its own, whatever another does."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote_agent import checks
from remote_agent.checks import disk, gpu, python, sessions
from remote_agent.checks.probe import Asked, Probe, run_all
from remote_agent.protocol import AgentError, Check, DataDisk, Gpu, GpuReport
from remote_agent.rpc import doctor
from tests.support.agentdir import oldest_python
from tests.support.programs import fake_nvidia_smi, fake_program
from tests.support.rpc import ask
from tests.support.sshd import end_processes_of

GB = 10**9


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home of the test's own: the doctor makes the folder for sockets, there or under /tmp."""
    monkeypatch.setenv("HOME", str(tmp_path))
    yield
    end_processes_of(tmp_path)


def test_it_answers_from_real_parts(tmp_path: Path) -> None:
    found = ask("doctor", doctor.check, data_dir=str(tmp_path))["checks"]
    by_name = {check["name"]: check for check in found}
    assert list(by_name) == [
        "python", "gpu", "training-python", "torch", "data-disk", "disk-space", "inodes", "data-write", "system-disk", "memory",
        "shared-memory", "sessions", "sockets", "pty", "locale", "packages", "login-keys"]
    assert {check["found"] for check in found} & {"check-broke", "no-answer"} == set()
    assert by_name["python"]["params"]["path"] == sys.executable
    assert by_name["data-disk"]["params"]["path"] == str(tmp_path)
    assert by_name["disk-space"]["params"]["free_bytes"] > 0
    assert "screen 4" in by_name["sessions"]["params"]["programs"]
    assert "tmux 3" in by_name["sessions"]["params"]["programs"]


def test_it_runs_on_the_oldest_python(tmp_path: Path) -> None:
    script = (
        "import io, sys, json; sys.path.insert(0, sys.argv[1])\n"
        "from remote_agent.rpc import server, doctor, gpu\n"
        "asked = b'{\"id\": 1, \"op\": \"doctor\"}\\n{\"id\": 2, \"op\": \"gpu\"}\\n'\n"
        "server.serve({'doctor': doctor.check, 'gpu': gpu.gpu}, io.BytesIO(asked), sys.stdout.buffer)\n"
    )
    done = subprocess.run([oldest_python() or sys.executable, "-I", "-c", script, str(Path(__file__).parents[2])],
                          capture_output=True, text=True, timeout=30, check=True)
    first, second = map(json.loads, done.stdout.splitlines())
    assert {check["name"] for check in first["result"]["checks"]} >= {"python", "data-disk", "sessions", "gpu"}
    assert second["result"]["state"]
    assert done.stderr == ""


def test_another_python_than_the_configured_one_is_said(tmp_path: Path) -> None:
    def found(configured: str) -> tuple[str, str]:
        (line,) = python.check(Asked(python=configured))
        return line.status, line.found

    assert found("/nope/bin/python") == ("warning", "python-missing")
    assert found(str(fake_program(tmp_path, "old", "exit 1\n"))) == ("warning", "python-not-used")
    (tmp_path / "link").symlink_to(sys.executable)
    assert found(str(tmp_path / "link"))[0] == "ok"
    assert found(str(fake_program(tmp_path, "shim", f'exec {sys.executable} "$@"\n')))[0] == "ok"


def test_a_folder_that_cannot_be_is_a_line_and_hides_no_other() -> None:
    found = {check["name"]: check for check in ask("doctor", doctor.check, data_dir="not/absolute")["checks"]}
    assert found["data-disk"] == {"name": "data-disk", "status": "failure", "found": "data-dir-relative",
                                  "params": {"path": "not/absolute"}, "hint": "data-dir-relative"}
    assert found["sessions"]["status"] == "ok"


def test_a_hanging_driver_costs_no_more_than_its_own_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_program(tmp_path, "nvidia-smi", "exec /bin/sleep 60\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(gpu, "_DEADLINE_S", 0.4)
    began = time.monotonic()
    found = {check.name: check for check in run_all(checks.PROBES, Asked())}
    assert time.monotonic() - began < 4
    assert (found["gpu"].status, found["gpu"].found) == ("failure", "gpu-timeout")
    assert found["python"].status == "ok"


def test_probes_that_hang_break_or_refuse() -> None:
    never = threading.Event()

    def hang(asked: Asked) -> list[Check]:
        never.wait(30)
        return []

    def refuse(asked: Asked) -> list[Check]:
        raise AgentError("disk-timeout", path=asked.data_dir)

    def fine(asked: Asked) -> list[Check]:
        return [Check("a", "ok", "a"), Check("b", "warning", "b")]

    probes = [Probe("slow", hang, 0.2), Probe("slow-too", hang, 0.2), Probe("broken", lambda asked: [][0], 5),
              Probe("refused", refuse, 5), Probe("fine", fine, 5)]
    began = time.monotonic()
    try:
        found = run_all(probes, Asked("/d"))
    finally:
        never.set()
    assert time.monotonic() - began < 2
    assert [(check.name, check.status, check.found) for check in found] == [
        ("slow", "failure", "no-answer"), ("slow-too", "failure", "no-answer"), ("broken", "failure", "check-broke"),
        ("refused", "failure", "disk-timeout"), ("a", "ok", "a"), ("b", "warning", "b"),
    ]
    assert "IndexError" in found[2].params["detail"]


@pytest.mark.parametrize(("free_bytes", "free_inodes", "space", "inodes"), [
    (100 * GB, 10**6, "ok", "ok"), (10 * GB, 100000, "ok", "ok"), (10 * GB - 1, 99999, "warning", "warning"),
    (5 * GB - 1, 9999, "failure", "failure"), (0, 0, "failure", "failure"), (100 * GB, None, "ok", "ok"),
])
def test_bytes_and_inodes(free_bytes: int, free_inodes: int | None, space: str, inodes: str) -> None:
    found = DataDisk("/d", "known", "/d", free_bytes, 200 * GB, free_inodes, free_inodes and 10**7)
    answers = [disk.space(found), disk.inodes(found)]
    assert [answer.status for answer in answers] == [space, inodes]
    assert [answer.hint is None for answer in answers] == [space == "ok", inodes == "ok"]


def test_a_box_without_screen_and_tmux_is_a_warning() -> None:
    assert sessions.judge({"screen": None, "tmux": None}).hint == "no-session-program"
    assert sessions.judge({"screen": None, "tmux": "3.3a"}).params == {"programs": "tmux 3.3a"}
    assert sessions.parse_version("Screen version 4.09.00 (GNU) 30-Jan-22\n") == "4.09.00"
    assert sessions.parse_version("tmux next-3.5\n") == "next-3.5"
    assert sessions.parse_version("cannot execute binary file") is None


def test_python_below_the_one_that_libtmux_needs() -> None:
    assert python.judge("/p", "3.8.10", (3, 8)).found == "python-plain-tmux"
    assert python.judge("/p", "3.10.0", (3, 10)).found == "python"


@pytest.mark.parametrize(("report", "status", "found"), [
    (GpuReport("ok", [Gpu(0, "A100"), Gpu(1, "A100"), Gpu(2, None)]), "ok", "gpu-ok"),
    (GpuReport("not-installed"), "warning", "gpu-not-installed"),
    (GpuReport("no-device", detail="No devices were found"), "warning", "gpu-no-device"),
    (GpuReport("gpu-lost", [Gpu(0, "A100")], "GPU is lost"), "failure", "gpu-gpu-lost"),
])
def test_a_broken_card_is_worse_than_none(report: GpuReport, status: str, found: str) -> None:
    check = gpu.judge(report)
    assert (check.status, check.found) == (status, found)
    if status == "ok":
        assert check.params["names"] == "2 x A100, 1 x ?"


def test_the_cards_of_a_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvidia_smi(tmp_path, "0, NVIDIA A100-SXM4-80GB, 81920, 3, 0, 30, 60, GPU-1\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = gpu.check(Asked())
    assert (check.status, check.params["names"]) == ("ok", "1 x NVIDIA A100-SXM4-80GB")
