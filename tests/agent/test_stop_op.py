"""`stop` and `remove`: the run of exactly that name, verified gone, whatever became of its supervisor."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remote_agent import atomic, layout, processes, sessions
from remote_agent.protocol import ProcessRef, encode
from remote_agent.rpc import stop
from remote_agent.rpc.server import Call
from tests.support.rpcbox import PROJECT, Refused, RpcBox, Talk, Wanted
from tests.support.waiting import wait_for

#: A worker in a session of its own that is deaf to TERM, and a daemon that left the tree.
STUBBORN = """
(trap '' TERM; setsid bash -c 'trap "" TERM; while :; do sleep 0.2; done') &
setsid bash -c 'sleep 300 & disown' &
echo started
while :; do sleep 0.2; done
"""


@pytest.fixture
def boxes(tmp_path: Path, unpacked: Path) -> Iterator[Callable[[], RpcBox]]:
    made: list[RpcBox] = []

    def make() -> RpcBox:
        made.append(RpcBox(tmp_path / str(len(made)), unpacked, sys.executable))
        return made[-1]

    yield make
    for box in made:
        box.close()


@pytest.fixture
def box(boxes: Callable[[], RpcBox], monkeypatch: pytest.MonkeyPatch) -> RpcBox:
    """A box whose home is this process' as well, so that a test may ask a backend itself."""
    made = boxes()
    monkeypatch.setenv("HOME", str(made.home))
    return made


def supervisor(box: RpcBox) -> ProcessRef:
    found = box.state().supervisor
    assert found is not None
    return found


def kill_supervisor(box: RpcBox) -> None:
    """-9, and the run's command goes on."""
    lost = supervisor(box)
    assert processes.send(lost, signal.SIGKILL)
    wait_for(lambda: not processes.alive(lost))
    assert processes.alive(box.state().command)


def test_a_stop_leaves_nothing_of_the_run_and_says_so_when_repeated(box: RpcBox) -> None:
    box.launch(Wanted(command=STUBBORN))
    answer = box.call("stop", name="exp_resnet50", grace_s=0.5)
    assert (answer["run"]["state"], answer["run"]["cause"], answer["already"]) == ("stopped", "user", False)
    assert processes.marked(box.run().path) == set()
    assert not processes.mentioning(box.run().path)
    assert sessions.find_any("exp_resnet50") is None
    again = box.call("stop", name="exp_resnet50", grace_s=0.5)
    assert (again["run"]["state"], again["already"]) == ("stopped", True)


def test_what_is_wanted_is_written_before_anybody_is_signalled(box: RpcBox) -> None:
    box.launch(Wanted(backend="detached", command="""
        trap 'cat "$CLOUDRUN_RUN_DIR/desired.json"; exit 0' TERM
        while :; do sleep 0.1; done"""))
    box.call("stop", name="exp_resnet50", grace_s=10)
    told = json.loads(box.log()[box.log().index("{"):])
    assert (told["want"], told["grace_s"]) == ("stop", 10)


def test_only_the_run_of_exactly_that_name_is_stopped(box: RpcBox) -> None:
    box.launch(Wanted(name="train10"))
    before = box.state("train10").command
    for op in ("stop", "remove"):
        with pytest.raises(Refused) as refused:
            box.call(op, name="train1")
        assert (refused.value.code, refused.value.params["near"]) == ("no-such-run", ["train10"])
    box.launch(Wanted(name="train1", command="exit 1"))
    box.call("stop", name="train1")
    box.call("remove", name="train1")
    assert processes.alive(before)
    assert [run.state for run in box.ps()] == ["running"]


@pytest.mark.parametrize("backend", ["screen", "tmux"])
def test_a_run_whose_supervisor_was_killed_is_told_refused_and_ended(box: RpcBox, backend: str) -> None:
    box.launch(Wanted(backend=backend, command=STUBBORN))
    kill_supervisor(box)
    shown, = box.ps()
    assert (shown.state, shown.cause) == ("lost", "supervisor-killed")
    with pytest.raises(Refused) as refused:
        box.launch(Wanted(backend=backend))
    assert refused.value.code == "run-half-alive"
    with pytest.raises(Refused) as refused:
        box.call("remove", name="exp_resnet50")
    assert refused.value.code == "run-live"
    answer = box.call("stop", name="exp_resnet50", grace_s=0.5)
    assert (answer["run"]["state"], answer["already"]) == ("stopped", False)
    assert processes.marked(box.run().path) == set()
    assert sessions.find_any("exp_resnet50") is None
    assert box.launch(Wanted(backend=backend)).run.attempt == 2


def test_a_command_that_ends_after_its_supervisor_is_told_truly(box: RpcBox) -> None:
    box.launch(Wanted(backend="detached", command="until [ -e go ]; do sleep 0.05; done; exit 5"))
    kill_supervisor(box)
    (box.work / "go").touch()
    shown = box.await_state("failed")
    assert (shown.exit_code, shown.cause) == (5, None)
    answer = box.call("stop", name="exp_resnet50")
    assert (answer["run"]["state"], answer["already"]) == ("failed", True)
    assert box.state().state == "failed"


def test_what_an_ended_command_left_behind_is_ended_and_its_end_stays_told(box: RpcBox) -> None:
    box.launch(Wanted(backend="detached", command="sleep 300 & until [ -e go ]; do sleep 0.05; done; exit 5"))
    kill_supervisor(box)
    (box.work / "go").touch()
    box.await_state("failed")
    with pytest.raises(Refused) as refused:
        box.launch(Wanted(backend="detached"))
    assert refused.value.code == "run-half-alive"
    answer = box.call("stop", name="exp_resnet50", grace_s=5)
    assert (answer["run"]["state"], answer["run"]["exit_code"], answer["already"]) == ("failed", 5, True)
    assert processes.marked(box.run().path) == set()
    assert (box.state().state, box.state().exit_code) == ("failed", 5)
    assert box.launch(Wanted(backend="detached")).outcome == "started"


@pytest.mark.parametrize("fresh", [False, True])
def test_a_run_that_lives_under_a_damaged_state_is_not_launched_over(box: RpcBox, fresh: bool) -> None:
    box.launch()
    lives, request = supervisor(box), box.request(Wanted(fresh=fresh))
    Path(box.run().state).write_text("{")
    for op, body in (("prepare", {"run": "exp_resnet50", "project": PROJECT, "project_id": "p-1", "fresh": fresh}),
                     ("launch", request)):
        with pytest.raises(Refused) as refused:
            box.call(op, **body)
        assert refused.value.code == "run-half-alive"
    assert processes.alive(lives)
    assert box.call("stop", name="exp_resnet50", grace_s=5)["run"]["state"] == "stopped"
    assert processes.marked(box.run().path) == set()
    assert not processes.alive(lives)
    assert sessions.find_any("exp_resnet50") is None


def test_a_supervisor_that_does_not_answer_is_not_waited_for_for_ever(
        box: RpcBox, monkeypatch: pytest.MonkeyPatch) -> None:
    box.launch(Wanted(backend="detached"))
    kill_supervisor(box)
    state = box.state()
    with subprocess.Popen(["bash", "-c", "trap '' TERM; echo deaf; read -t 60"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as deaf:
        assert deaf.stdout is not None
        assert deaf.stdout.readline() == b"deaf\n"
        state.supervisor = processes.ref(deaf.pid)
        atomic.write_json(box.run().state, encode(state))
        monkeypatch.setattr(stop, "MARGIN_S", 0.5)
        answer = stop.stop(Call({"data_dir": str(box.data), "name": "exp_resnet50", "grace_s": 0.2},
                                io.BytesIO(), io.BytesIO()))
        assert deaf.wait(10) == -signal.SIGKILL
    assert (answer["run"].state, answer["run"].cause) == ("stopped", "user")
    assert processes.marked(box.run().path) == set()


def test_a_supervisor_that_somebody_stopped_goes_on_to_end_its_run(box: RpcBox) -> None:
    box.launch(Wanted(command="trap 'echo saved; exit 0' TERM; while :; do sleep 0.1; done"))
    processes.send(supervisor(box), signal.SIGSTOP)
    begun = time.monotonic()
    answer = box.call("stop", name="exp_resnet50", grace_s=20)
    assert time.monotonic() - begun < 15, "neither the grace nor the margin was waited out"
    assert (answer["run"]["state"], answer["run"]["exit_code"]) == ("stopped", 0)
    assert "saved" in box.log()


def test_a_stop_goes_on_when_nobody_listens_any_more(box: RpcBox) -> None:
    box.launch()
    talk = Talk(box)
    talk.send("stop", {"data_dir": str(box.data), "name": "exp_resnet50", "grace_s": 5})
    talk.close()
    box.await_state("stopped")


def test_a_lost_run_is_laid_to_rest(box: RpcBox) -> None:
    box.launch(Wanted(command="exit 1", backend="detached"))
    state = box.state()
    state.state, state.box_id = "running", "another boot+1"
    os.unlink(box.run().exit_record(1))
    atomic.write_json(box.run().state, encode(state))
    assert [(run.state, run.cause) for run in box.ps()] == [("lost", "box-restarted")]
    answer = box.call("stop", name="exp_resnet50")
    assert (answer["already"], answer["run"]["state"], answer["run"]["cause"]) == (True, "stopped", "box-restarted")


def test_a_stop_works_on_a_disk_that_takes_no_more_files(box: RpcBox, monkeypatch: pytest.MonkeyPatch) -> None:
    box.launch(Wanted(backend="detached"))
    really, run = atomic.write_json, box.run()

    def full(path: str, *given: Any) -> None:
        if path == run.desired:
            raise OSError(28, "No space left on device", path)
        really(path, *given)

    monkeypatch.setattr(atomic, "write_json", full)
    answer = stop.stop(Call({"data_dir": str(box.data), "name": run.name, "grace_s": 5}, io.BytesIO(), io.BytesIO()))
    assert (answer["run"].state, answer["run"].cause) == ("stopped", "user")
    assert processes.marked(run.path) == set()
    monkeypatch.undo()
    assert box.launch(Wanted(backend="detached")).outcome == "started", "an old stop does not outlive a launch"
    assert box.state().state == "running"


def test_a_removed_run_is_gone_and_what_its_links_lead_to_is_not(box: RpcBox) -> None:
    run = box.run()
    box.launch(Wanted(command="exit 1", backend="detached", secrets={"A": "1"}))
    box.launch(Wanted(name="exp_resnet50-001", command="exit 1", backend="detached", secrets={"A": "1"}))
    treasure = box.data / "dataset"
    treasure.mkdir()
    (treasure / "image.png").write_bytes(b"png")
    os.makedirs(run.outputs)
    os.symlink(treasure, os.path.join(run.outputs, "data"))
    tree = box.home / "cloudrun" / PROJECT / "exp_resnet50"
    tree.mkdir(parents=True)
    (tree / "train.py").touch()
    answer = box.call("remove", name="exp_resnet50")
    assert answer == {"run": "exp_resnet50", "run_dir": run.path, "tree": str(tree), "tree_kept": str(tree)}
    assert not os.path.lexists(run.path)
    assert [name for name in os.listdir(os.path.dirname(run.path)) if name.startswith(".removed")] == []
    assert (treasure / "image.png").exists()
    assert (tree / "train.py").exists()
    kept = layout.Home(str(box.home)).secret_file(box.run("exp_resnet50-001").path, 1)
    assert os.listdir(os.path.dirname(kept)) == [os.path.basename(kept)]
    assert [shown.name for shown in box.ps()] == ["exp_resnet50-001"]
