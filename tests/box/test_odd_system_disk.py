"""A box whose network disk is gone: a real mount that never answers. What lies elsewhere goes on; what hangs is named."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloudrun.app import hosts
from tests.support.cli import Laptop
from tests.support.namespace import dead_mount
from tests.support.programs import fake_nvidia_smi
from tests.support.sshd import SshBox

CARD = "0, NVIDIA GeForce RTX 4090, 24564, 18321, 97, 71, 402.15, GPU-1f\n"


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return tmp_path / "box" / "autodl-fs"


@pytest.fixture
def odd(tmp_path: Path, network: Path) -> Iterator[SshBox]:
    folder = tmp_path / "box"
    serving = folder / "serving.py"
    home = folder / "home"
    box = SshBox(folder, path=f"{folder}/bin:/usr/bin:/bin", mounts=(
        f"HOME={home} python3 {serving} >{folder}/up 2>&1 &\n"
        f"until grep -q up {folder}/up; do read -rt 0.02 <> <(:) || :; done\n"))
    serving.write_text(dead_mount(network) + "print('up', flush=True)\nimport signal\nsignal.pause()\n")
    fake_nvidia_smi(folder / "bin", CARD)
    (folder / "up").touch()
    yield box.start()
    box.stop()


def test_a_dead_network_disk_holds_up_only_what_lies_on_it(odd: SshBox, network: Path, cloudrun: Laptop) -> None:
    cloudrun.know(odd)
    (cloudrun.project / "cloudrun.toml").write_text(f'[defaults]\nlinks = {{ dataset = "{network}/imagenet" }}\n')
    hosts.add_host("far", hosts.Wanted(target=odd.login, key=str(odd.key), data_dir=f"{network}/runs"), None)
    asked = [cloudrun.start(*words) for words in (("ps", "--host", "far"), ("launch", "x", "--host", "far", "--", "true"))]
    cloudrun.env["CLOUDRUN_HOST"] = "box"
    launched = cloudrun.run("launch", "exp_local", "--", "bash", "-c", "echo ready; sleep 300")
    assert f"{network}/imagenet, which a link of the project leads to, lies on a disk that does not answer" in launched.err
    began = time.monotonic()
    assert cloudrun.state("exp_local")["state"] == "running"
    assert "ready" in cloudrun.run("logs", "exp_local").out
    assert cloudrun.json("gpu")["gpus"][0]["name"] == "NVIDIA GeForce RTX 4090"
    cloudrun.run("stop", "exp_local", "--grace", "2")
    assert time.monotonic() - began < 8
    for process in asked:
        said = " ".join(process.communicate(timeout=20)[1].decode().split())
        assert f"the disk mounted on {network} (fuse.dead, from 10.0.0.2:/share) did not answer" in said
        assert f"umount -l {network}" in said
        assert process.returncode == 16
