"""What a command costs on the wire, counted by the server itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Laptop
from tests.support.sshd import SshBox
from tests.support.waiting import wait_for


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[SshBox]:
    box = SshBox(tmp_path / "box", settings="LogLevel VERBOSE").start()
    yield box
    box.stop()


def used(box: SshBox, since: int) -> tuple[int, int]:
    """(connections, execs) that the server logged after byte `since` of its log."""
    text = box.log.read_text()[since:]
    return text.count("Accepted publickey"), text.count("Starting session: command")


def test_ps_gpu_and_logs_use_one_connection_and_one_exec_and_launch_at_most_four(counted: SshBox, cloudrun: Laptop) -> None:
    cloudrun.add(counted)
    began = counted.log.stat().st_size
    cloudrun.run("launch", "exp_count", "--wait", "1", "--", "sleep", "60")
    connections, execs = used(counted, began)
    assert connections == 1
    assert execs <= 4  # on a box that had no agent yet
    for command in (("ps",), ("gpu",), ("logs",), ("ps", "--json"), ("logs", "-n", "5", "exp_count")):
        wait_for(lambda: not counted.connections(), what="the last command's connection is gone")
        began = counted.log.stat().st_size
        cloudrun.run(*command)
        assert used(counted, began) == (1, 1), command
