"""`gpu` and `doctor` as a user types them, against a real sshd. The card is an nvidia-smi that prints recorded text."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Laptop
from tests.support.programs import fake_nvidia_smi
from tests.support.sshd import SshBox

CARD = """\
0, NVIDIA GeForce RTX 4090, 24564, 18321, 97, 71, 402.15, GPU-0
1, GRID T4-8Q, 8192, 0, [N/A], [Unknown Error], [N/A], GPU-1
"""


@pytest.fixture
def gpu_box(tmp_path: Path) -> Iterator[SshBox]:
    fake_nvidia_smi(tmp_path / "bin", CARD)
    box = SshBox(tmp_path / "box", path=f"{tmp_path}/bin:/usr/bin:/bin", settings="LogLevel VERBOSE").start()
    yield box
    box.stop()


def used(box: SshBox, before: str) -> tuple[int, int]:
    """Connections and sessions (exec or sftp) since the log read `before`."""
    since = box.log.read_text()[len(before):]
    return since.count("Accepted publickey"), since.count("Starting session")


def test_one_connection_and_one_exec_also_while_watching(gpu_box: SshBox, cloudrun: Laptop) -> None:
    cloudrun.know(gpu_box)
    checks = cloudrun.json("doctor", code=None)["checks"]  # brings the agent
    assert [check["name"] for check in checks][:5] == ["ssh", "reachable", "host-key", "login", "clock"]
    assert {check["status"] for check in checks} <= {"ok", "warning"}
    before = gpu_box.log.read_text()
    answer = cloudrun.json("gpu")
    assert used(gpu_box, before) == (1, 1)
    assert (answer["state"], answer["errors"], len(answer["gpus"])) == ("ok", [], 2)
    assert (answer["gpus"][0]["power_w"], answer["gpus"][1]["utilization_percent"]) == (402.15, None)

    before = gpu_box.log.read_text()
    watching = cloudrun.start("gpu", "--watch", "--json")
    try:
        assert watching.stdout is not None
        lines = [watching.stdout.readline() for _ in range(2)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == 0  # leaving a watch is no failure
    finally:
        watching.kill()
        watching.wait()
    assert [json.loads(line)["state"] for line in lines] == ["ok", "ok"]
    assert used(gpu_box, before) == (1, 1)


def test_a_broken_driver_is_told_apart_from_no_card(gpu_box: SshBox, cloudrun: Laptop, tmp_path: Path) -> None:
    cloudrun.know(gpu_box)
    fake_nvidia_smi(tmp_path / "bin", "Failed to initialize NVML: Driver/library version mismatch\n", 18)
    broken = cloudrun.run("gpu", code=16)
    assert "different versions" in " ".join(broken.out.split())
    assert broken.err == ""
    assert {check["name"]: check["status"] for check in cloudrun.json("doctor", code=21)["checks"]}["gpu"] == "failure"
    fake_nvidia_smi(tmp_path / "bin", "No devices were found\n", 6)
    assert cloudrun.json("gpu") == {"gpus": [], "state": "no-device", "errors": []}
    doctor = cloudrun.run("doctor", code=20)
    assert "started without a GPU" in " ".join(doctor.out.split())


def test_a_box_that_lets_nobody_in_is_a_finding(gpu_box: SshBox, cloudrun: Laptop) -> None:
    cloudrun.know(gpu_box)
    (gpu_box.folder / "authorized_keys").write_text("")
    found = cloudrun.json("doctor", code=21)
    assert [(line["name"], line["status"]) for line in found["checks"]] == [
        ("ssh", "ok"), ("reachable", "ok"), ("login", "failure")]
    assert found["checks"][2]["code"] == "login-refused"
    assert "cloudrun host set box" in found["checks"][2]["hint"]
