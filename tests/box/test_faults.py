"""What goes wrong around a run, on a real sshd: launches cut off half-way, a supervisor killed, one dead host among others."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.box.test_main_way import TICKER, running_in
from tests.support.cli import Laptop
from tests.support.sshd import SshBox
from tests.support.waiting import wait_for


@pytest.fixture
def way(box: SshBox, cloudrun: Laptop) -> Laptop:
    cloudrun.know(box)
    (cloudrun.project / "train.py").write_text(TICKER, encoding="utf-8")
    return cloudrun


def test_a_launch_whose_connection_breaks_half_way_can_be_repeated_and_ends_in_one_run(way: Laptop, box: SshBox) -> None:
    run_dir = box.data / "cloudrun" / "runs" / "exp_cut"
    tree = box.home / "cloudrun" / "net"
    command = ("launch", "exp_cut", "--json", "--", "python3", "train.py")
    # The agent has come; the code is coming; the launch is written; the session lives.
    for reached in (box.connections, tree.exists, (run_dir / "launches").exists, (run_dir / "logs").exists):
        assert cut_off(way, box, command, reached) != 5  # never refused by what an earlier one left
    assert json.loads(way.run(*command).out)["attempt"] == 1
    trainings = [line for line in running_in(run_dir.resolve()) if line.startswith("python3 train.py")]
    assert len(trainings) == 1
    assert [path.name for path in (run_dir / "launches").iterdir()] == ["001"]


def cut_off(way: Laptop, box: SshBox, command: tuple[str, ...], reached: Callable[[], object]) -> int:
    """Starts a launch and cuts its connection when `reached` comes true (or it has ended); gives its exit code."""
    launching = way.start(*command)
    wait_for(lambda: reached() or launching.poll() is not None)
    box.drop_connections()
    launching.communicate(timeout=60)
    return launching.returncode


def test_a_training_that_outlived_its_supervisor_is_followed_until_it_ends(way: Laptop) -> None:
    launched = way.json("launch", "exp_orphan", "--", "python3", "train.py")
    log, state = Path(launched["log"]), Path(launched["run_dir"]) / "state.json"
    os.kill(json.loads(state.read_text())["supervisor"]["pid"], signal.SIGKILL)
    wait_for(lambda: way.state("exp_orphan")["state"] == "lost")
    follower = way.start("logs", "-f", "--raw", "-n", "100000")
    assert follower.stdout is not None
    try:
        wanted, seen = log.stat().st_size + 500, 0
        while seen < wanted:
            seen += len(follower.stdout.read1(65536))  # type: ignore[attr-defined]
        assert follower.poll() is None
        way.run("stop", "exp_orphan", "--grace", "2")
        seen += len(follower.communicate(timeout=20)[0])
        assert (follower.returncode, seen) == (3, log.stat().st_size)
    finally:
        follower.kill()
        follower.wait()


def test_one_dead_host_costs_the_others_nothing(way: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloudrun.cli.ps.ALL_HOSTS_TIMEOUT_S", 1.0)
    way.run("host", "add", "dead", "ssh -p 1 root@127.0.0.1", "--no-connect")
    way.run("launch", "exp_alive", "-H", "box", "--wait", "1", "--", "sleep", "60")
    answer = way.json("ps", "--all-hosts")
    assert [(run["host"], run["name"], run["state"]) for run in answer["runs"]] == [("box", "exp_alive", "running")]
    assert [error["host"] for error in answer["errors"]] == ["dead"]
