"""Many launches of one name at the same moment make one run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.box.test_main_way import running_in
from tests.support.cli import Laptop
from tests.support.sshd import SshBox


@pytest.mark.parametrize("backend", ["screen", "tmux"])
@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.campaign)])
def test_simultaneous_launches_make_one_run(
    box: SshBox, cloudrun: Laptop, laptop: Path, figure: Callable[[str], None], backend: str, count: int
) -> None:
    cloudrun.know(box)
    other = laptop / "config of another laptop"
    shutil.copytree(cloudrun.environment()["CLOUDRUN_CONFIG_DIR"], other)
    (cloudrun.project / "train.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(600)\n")
    cloudrun.json("launch", "warm", "--dry-run", "--", "true")  # the project has its id
    words = ("launch", "exp_race", "--backend", backend, "--json", "--", "python3", "train.py")
    launching = []
    for number in range(count):
        cloudrun.env = {"CLOUDRUN_CONFIG_DIR": str(other)} if number % 2 else {}
        launching.append(cloudrun.start(*words))
    answers = [(one.communicate(timeout=300), one.returncode) for one in launching]
    cloudrun.env = {}
    failed = [err.decode() + out.decode() for (out, err), code in answers if code != 0]
    assert not failed
    told = [json.loads(out) for (out, _err), _code in answers]
    run_dir = Path(told[0]["run_dir"])
    assert {(one["run_dir"], one["attempt"], one["session"]) for one in told} == {(str(run_dir), 1, told[0]["session"])}
    trainings = [line for line in running_in(run_dir) if line.startswith("python3 train.py")]
    assert len(trainings) == 1
    assert [path.name for path in (run_dir / "launches").iterdir()] == ["001"]
    assert not list((box.home / ".cloudrun").rglob("*stag*/*"))
    figure(f"simultaneous launches of one name, {backend}: runs made | {count} launches | 1")
