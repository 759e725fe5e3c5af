"""Homes that are somebody else's, not there, or not named; a /tmp that runs nothing, and a TMPDIR that is not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloudrun.errors import Exit
from tests.support.cli import Laptop
from tests.support.oddbox import NOBODY, shell_box, user_box
from tests.support.sshd import end_processes_of
from tests.support.waiting import wait_for

#: The namespace has a /tmp of its own where nothing may be executed, and a /run whose folder for screen is of no use.
BARE = """\
mount --bind {folder} /mnt && mount -t tmpfs -o noexec,mode=1777 t /tmp && mkdir -p {folder} && mount --bind /mnt {folder}
mount -t tmpfs t /run && mkdir /run/sshd && mkdir -m 755 /run/screen
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user may enter, as pytest's own is not."""
    made = Path(f"/tmp/cr-home-{os.getpid()}")
    made.mkdir()
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("home", ["{folder}/home", "/no/such/home"])
def test_a_home_that_is_not_the_users_or_not_there(folder: Path, cloudrun: Laptop, home: str) -> None:
    """The agent lies in /tmp, and the session's sockets too; where the code cannot go, that is said, and what goes instead."""
    place = Path(home.format(folder=folder))
    box = user_box(folder, place, mounts=BARE.format(folder=folder), env={"TMPDIR": "/no/tmp"}).start()
    try:
        cloudrun.add(box)
        assert cloudrun.json("ps") == {"runs": [], "errors": []}
        done = cloudrun.run("launch", "exp", "--", "sleep", "60", code=Exit.BOX)
        assert f"the code goes into the home on the box, and {place if place.exists() else '/no'}" in done.err
        assert "ermission denied" in done.err
        assert "--no-sync --workdir" in done.err
        if place.exists():
            cloudrun.json("launch", "exp", "--no-sync", "--workdir", str(box.data), "--backend", "screen", "--", "sh", "-c",
                          'id -u; exec sleep 60')
            wait_for(lambda: cloudrun.run("logs", "exp").out == f"{NOBODY}\n")
            assert cloudrun.state("exp")["backend"] == "screen"
            cloudrun.run("stop", "exp", "--grace", "1")
            assert cloudrun.state("exp")["state"] == "stopped"
            assert list(place.iterdir()) == []
            assert box.process is not None
            left = Path(f"/proc/{box.process.pid}/root/tmp")
            wait_for(lambda: [path.name for path in left.glob("cloudrun-*")] == [f"cloudrun-{NOBODY}"], what="the agent's alone")
    finally:
        box.stop()
        end_processes_of(place)


@pytest.mark.parametrize("line", ["unset HOME", "export HOME="])
def test_a_login_that_names_no_home_has_its_accounts(tmp_path: Path, cloudrun: Laptop, line: str) -> None:
    box = shell_box(tmp_path / "box", "/bin/bash")
    (box.home / ".bashrc").write_text(line + "\n")
    box.start()
    try:
        cloudrun.add(box)
        assert cloudrun.json("ps") == {"runs": [], "errors": []}
        assert (box.home / ".cloudrun" / "agent").is_dir()
    finally:
        box.stop()
