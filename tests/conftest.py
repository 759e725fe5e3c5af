"""Fixtures that every part of the suite shares."""

from __future__ import annotations

import compileall
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloudrun.agent import archive
from tests.support.agentdir import unpacked_agent
from tests.support.cli import Laptop
from tests.support.sshd import SshBox, end_processes_of


@pytest.fixture
def box(tmp_path: Path) -> Iterator[SshBox]:
    """A box of its own for this test: a real sshd on loopback."""
    box = SshBox(tmp_path / "box").start()
    yield box
    box.stop()


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A laptop of its own: HOME and config folder are fresh, no ssh agent, no settings of the developer's."""
    home = tmp_path / "laptop"
    home.mkdir()
    for name in ("SSH_AUTH_SOCK", "CLOUDRUN_HOST", "CLOUDRUN_LANG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CLOUDRUN_CONFIG_DIR", str(home / "config"))
    yield home
    end_processes_of(home)


@pytest.fixture(scope="session")
def agent_of_boxes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent's folder, unpacked and compiled, under the name that a box gives it."""
    folder = unpacked_agent(tmp_path_factory.mktemp("agents") / archive.installed().sha12)
    compileall.compile_dir(folder, quiet=2)
    return folder


@pytest.fixture
def cloudrun(laptop: Path, agent_of_boxes: Path) -> Laptop:
    """The command, in an empty project folder `net` of a fresh laptop."""
    project = laptop / "net"
    project.mkdir()
    return Laptop(project, agent_of_boxes)
