"""The connection is lost after the request has passed and before its answer: what the box did is looked up, not guessed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cloudrun.app.surely import Errand, surely
from cloudrun.errors import CloudrunError
from tests.support.cli import Laptop
from tests.support.cutting import Cutting
from tests.support.sshd import SshBox
from tests.support.waiting import wait_for


@pytest.fixture
def link(box: SshBox) -> Iterator[Cutting]:
    with Cutting(box.port) as cutting:
        yield cutting


@pytest.fixture
def way(cloudrun: Laptop, box: SshBox, link: Cutting) -> Laptop:
    """The host `box` is reached by the link that fails."""
    cloudrun.know(box)
    cloudrun.run("host", "set", "box", box.login.replace(str(box.port), str(link.port)), "--accept-new")
    return cloudrun


def lose_the_answer(link: Cutting, done: Callable[[], bool]) -> None:
    """The next connection ends at the first byte from the box after `done` has come true."""
    link.plans.append(lambda direction, _passed: 0 if direction == "down" and done() else None)


def state_of(run_dir: Path) -> str:
    try:
        return str(json.loads((run_dir / "state.json").read_text())["state"])
    except OSError:
        return ""


@pytest.mark.parametrize("fresh", [False, True])
def test_a_launch_is_found_again_and_not_done_twice(way: Laptop, box: SshBox, link: Cutting, fresh: bool) -> None:
    run_dir = box.data / "cloudrun" / "runs" / "exp"
    lose_the_answer(link, lambda: state_of(run_dir) == "running")
    done = way.run("launch", "exp", *(["--fresh"] if fresh else []), "--json", "--wait", "0.5", "--", "sleep", "60")
    assert link.cuts == 1
    assert "looking up" in done.err
    answer = json.loads(done.out)
    assert (answer["state"], answer["attempt"]) == ("running", 1)
    assert [path.name for path in (run_dir / "launches").iterdir()] == ["001"]
    assert not list((box.data / "cloudrun").glob("archive*/*"))


def test_a_command_that_ended_meanwhile_is_not_run_a_second_time(way: Laptop, box: SshBox, link: Cutting) -> None:
    run_dir = box.data / "cloudrun" / "runs" / "exp"
    lose_the_answer(link, lambda: state_of(run_dir) == "failed")
    done = way.run("launch", "exp", "--", "sh", "-c", "echo once >>ran; exit 3", code=3)
    assert link.cuts == 1
    assert "failed at once" in done.err
    ran = wait_for(lambda: list((box.home / "cloudrun").rglob("ran")))
    assert ran[0].read_text() == "once\n"


def test_a_stop_and_a_removal_are_looked_up(way: Laptop, box: SshBox, link: Cutting) -> None:
    run_dir = box.data / "cloudrun" / "runs" / "exp"
    way.run("launch", "exp", "--wait", "0.5", "--", "sleep", "60")
    lose_the_answer(link, lambda: state_of(run_dir) == "stopped")
    done = way.run("stop", "exp", "--json")
    assert (link.cuts, json.loads(done.out)["state"], json.loads(done.out)["already"]) == (1, "stopped", False)
    lose_the_answer(link, lambda: not run_dir.exists())
    done = way.run("rm", "exp", "--yes")
    assert link.cuts == 2
    assert "exp is deleted" in done.err
    assert way.json("ps")["runs"] == []


def test_a_link_that_falls_silent_after_the_request_is_given_up_and_the_outcome_found(
    way: Laptop, box: SshBox, link: Cutting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody closes anything: the peer has vanished, and the kernel knows of nothing."""
    monkeypatch.setattr("cloudrun.transport.base.DEAD_AFTER_S", 2.0)
    run_dir = box.data / "cloudrun" / "runs" / "exp"
    link.manner = "silent"
    lose_the_answer(link, lambda: state_of(run_dir) == "running")
    answer = way.json("launch", "exp", "--wait", "0.5", "--", "sleep", "60")
    assert (link.cuts, answer["state"], answer["attempt"]) == (1, "running", 1)


def test_a_box_that_refuses_us_afterwards_leaves_the_outcome_unknown_and_says_why() -> None:
    from contextlib import nullcontext

    opened: list[int] = []

    def open_() -> nullcontext[None]:
        opened.append(1)
        if len(opened) > 1:
            raise CloudrunError("password-wrong", host="box", user="root")
        return nullcontext()

    def ask(_box: None, _again: bool) -> None:
        raise CloudrunError("connection-lost", host="box")

    with pytest.raises(CloudrunError) as caught:
        surely(Errand(open_, ask, lambda _error: None))
    assert caught.value.code == "outcome-unknown"
    assert "does not take that password" in caught.value.message


def test_a_box_that_stays_away_is_said_as_unknown_with_the_time_it_was_looked_for() -> None:
    from contextlib import nullcontext

    from cloudrun.app.logs import Patience

    clock = [0.0]
    said: list[str] = []
    opened: list[float] = []

    def open_() -> nullcontext[None]:
        opened.append(clock[0])
        if len(opened) > 1:
            raise CloudrunError("unreachable", host="box", detail="off")
        return nullcontext()

    def ask(_box: None, _again: bool) -> None:
        raise CloudrunError("connection-lost", host="box")

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    with pytest.raises(CloudrunError) as caught:
        surely(Errand(open_, ask, lambda error: said.append(error.code)), Patience(lambda: clock[0], sleep, lambda: 1.0))
    assert caught.value.code == "outcome-unknown"
    assert said == ["connection-lost"]
    assert 60 <= clock[0] <= 90
    assert len(opened) < 15
