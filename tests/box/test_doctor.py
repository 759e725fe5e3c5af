"""`doctor` as a user types it, against a real sshd: the way there, what the end says, and a box that cannot be reached."""

from __future__ import annotations

import functools
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from cloudrun.app.doctor import Means
from cloudrun.config.hosts import known_hosts_path
from tests.support.cli import Laptop
from tests.support.programs import fake_nvidia_smi, fake_program
from tests.support.sshd import SshBox, free_port, program

CARD = "0, NVIDIA GeForce RTX 4090, 24564, 18321, 97, 71, 402.15, GPU-0\n"


def by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in document["checks"]}


def test_the_way_there_is_told_as_it_was_gone_and_clocks_are_compared(
    box: SshBox, cloudrun: Laptop, monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloudrun.know(box)
    before = box.log.read_text()
    # This laptop's clock is 95 s behind.
    monkeypatch.setattr("cloudrun.app.doctor.Means", functools.partial(Means, wall=lambda: time.time() - 95))
    found = by_name(cloudrun.json("doctor", code=None))
    said = subprocess.check_output([program("ssh-keygen"), "-l", "-f", str(box.host_key)], text=True)
    assert found["host-key"]["params"] == {
        "type": "ssh-ed25519", "fingerprint": said.split()[1], "known_in": str(known_hosts_path())}
    assert found["login"]["params"] == {"by": str(box.key)}
    assert (found["ssh"]["params"]["port"], found["ssh"]["params"]["user"]) == (box.port, box.user)
    assert 0 < found["reachable"]["params"]["round_trip_ms"] < 500
    assert (found["clock"]["status"], found["clock"]["code"]) == ("warning", "clock-ahead")
    assert found["clock"]["params"]["ahead_s"] == pytest.approx(95, abs=0.5)
    assert box.log.read_text()[len(before):].count("Accepted publickey") == 1
    assert list(box.data.iterdir()) == []


def test_the_end_says_the_worst_and_what_to_type(tmp_path: Path, cloudrun: Laptop) -> None:
    """A torch for the CPU beside a card; the project's file names the environment, and another run's file another one."""
    fake_nvidia_smi(tmp_path / "bin", CARD)
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "__version__ = '2.4.0+cpu'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n")
    fake_program(tmp_path / "env" / "bin", "python", f'PYTHONPATH={tmp_path} exec /usr/bin/python3 "$@"\n')
    (tmp_path / "env" / "bin" / "activate").write_text(f'export PATH="{tmp_path}/env/bin:$PATH"\n')
    (cloudrun.project / "cloudrun.toml").write_text(
        f'[runs.exp_a]\nactivate = "{tmp_path}/env"\n[runs.exp_b]\nactivate = "/no/such/env"\n')
    box = SshBox(tmp_path / "box", path=f"{tmp_path}/bin:/usr/bin:/bin").start()
    try:
        cloudrun.know(box)
        done = cloudrun.run("doctor", code=21)
        lines = done.out.splitlines()
        assert any(line.startswith("✗ failure  torch  ") for line in lines)
        closing = lines[lines.index("") + 1:]
        assert closing[0].startswith("✗ box: 1 × failure, ")
        assert closing[1] == "first: torch: torch 2.4.0+cpu is built for the CPU only; the cards of this box would stand idle"
        assert closing[2].startswith("try: ")
        assert "the one of exp_a (another: --run RUN)" in done.err
        other = by_name(cloudrun.json("doctor", "--run", "exp_b", code=21))
        assert other["training-python"]["params"]["detail"] == "cloudrun: nothing to activate at /no/such/env"
        assert other["gpu"]["status"] == "ok"
        (cloudrun.project / "cloudrun.toml").write_text("[runs.exp_a]\nactivate = 3\n")
        wrong = by_name(cloudrun.json("doctor", code=21))
        assert (wrong["project"]["status"], wrong["project"]["code"]) == ("failure", "project-file")
        assert wrong["data-disk"]["status"] == "ok"
    finally:
        box.stop()


def test_a_box_that_cannot_be_reached_has_a_table_too(
    box: SshBox, cloudrun: Laptop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cloudrun.cli.context.CONNECT_TIMEOUT_S", 0.3)
    cloudrun.know(box)
    cloudrun.run("host", "set", "box", f"ssh -p {free_port()} root@127.0.0.1")
    gone = cloudrun.json("doctor", code=21)
    assert [(check["name"], check["status"]) for check in gone["checks"]] == [("ssh", "ok"), ("reachable", "failure")]
    assert "cloudrun host set box" in gone["checks"][1]["hint"]
    assert "✗ failure" in cloudrun.run("doctor", code=21).out

    cloudrun.run("host", "set", "box", box.login)
    shutil.copy(box.key.with_suffix(".pub"), tmp_path / "other.pub")
    known = known_hosts_path()
    algorithm, key = (tmp_path / "other.pub").read_text().split()[:2]
    known.write_text(f"[127.0.0.1]:{box.port} {algorithm} {key}\n")
    changed = cloudrun.json("doctor", code=21)
    assert [(check["name"], check["status"]) for check in changed["checks"]] == [
        ("ssh", "ok"), ("reachable", "ok"), ("host-key", "failure")]
    assert f"cloudrun host trust '[127.0.0.1]:{box.port}'" in changed["checks"][2]["hint"]
