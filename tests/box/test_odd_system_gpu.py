"""A box whose nvidia-smi hangs: the user's commands say so and go on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.cli import Laptop
from tests.support.programs import fake_program
from tests.support.sshd import SshBox


@pytest.mark.campaign
def test_a_hanging_nvidia_smi_holds_up_nothing(tmp_path: Path, cloudrun: Laptop) -> None:
    """It heeds no TERM, and its child holds the output open. Launch waits its deadline and starts; the others do not wait."""
    programs = tmp_path / "bin"
    fake_program(programs, "nvidia-smi", "trap '' TERM INT HUP\nsleep 600 &\nwait\nsleep 600\n")
    box = SshBox(tmp_path / "box", path=f"{programs}:/usr/bin:/bin").start()
    try:
        cloudrun.know(box)
        asking = cloudrun.start("gpu")
        cloudrun.run("launch", "exp", "--", "bash", "-c", "echo ready; sleep 300")
        asked = asking.communicate(timeout=20)
        assert "nvidia-smi" in asked[0].decode() + asked[1].decode()
        assert "did not answer within 10 s" in asked[0].decode() + asked[1].decode()
        assert asking.returncode == 16
        began = time.monotonic()
        assert cloudrun.state("exp")["state"] == "running"
        assert "ready" in cloudrun.run("logs", "exp").out
        cloudrun.run("stop", "exp", "--grace", "2")
        assert time.monotonic() - began < 8
    finally:
        box.stop()
