"""`launch` and `prepare`, spoken with as the laptop does: real agent, real screen, real run.sh."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cloudrun.errors import CloudrunError
from cloudrun.errors.assembled import CATALOGUE
from remote_agent import layout, packages, processes, sessions
from remote_agent.protocol import GPU_STATES, AgentError, DataDisk, GpuReport, Launched, Spec, decode, encode
from remote_agent.rpc import launch_session, prepare
from remote_agent.rpc.request import check_name
from remote_agent.rpc.server import Call
from tests.support.agentdir import oldest_python
from tests.support.rpcbox import PROJECT, PROJECT_ID, Refused, RpcBox, Talk, Wanted
from tests.support.sshd import end_processes_of
from tests.support.waiting import wait_for

SLEEP = "echo started; exec sleep 300"


@pytest.fixture
def boxes(tmp_path: Path, unpacked: Path) -> Iterator[Callable[..., RpcBox]]:
    """Makes boxes, each with a home and a data disk of its own."""
    made: list[RpcBox] = []

    def make(python: str = sys.executable) -> RpcBox:
        made.append(RpcBox(tmp_path / str(len(made)), unpacked, python))
        return made[-1]

    yield make
    for box in made:
        box.close()


@pytest.fixture
def box(boxes: Callable[..., RpcBox]) -> RpcBox:
    return boxes()


def sleepers(box: RpcBox, name: str = "exp_resnet50") -> list[int]:
    """Processes of the run's command: the trainings that there are."""
    found = []
    for pid in processes.marked(box.run(name).path):
        try:
            if Path(f"/proc/{pid}/comm").read_text() == "sleep\n":
                found.append(pid)
        except OSError:
            continue
    return found


def test_a_launch_comes_to_a_running_command(box: RpcBox) -> None:
    launched = box.launch(Wanted(secrets={"TOKEN": "a'b $c\n训练"}, command='printf %s "$TOKEN" > seen; ' + SLEEP))
    run = box.run()
    assert (launched.outcome, launched.run.state, launched.run.attempt, launched.run.backend) == (
        "started", "running", 1, "screen")
    assert (launched.run.run_dir, launched.run.log) == (run.path, run.log(1))
    assert stat.S_IMODE(os.stat(run.launch(1).run_sh).st_mode) == 0o755
    assert {"spec.json", "run.sh", "screenrc", "tmux.conf"} == set(os.listdir(run.launch(1).path))
    assert len(sleepers(box)) == 1
    assert (box.work / "seen").read_text() == "a'b $c\n训练"
    secret = Path(layout.Home(str(box.home)).secret_file(run.path, 1))
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE(secret.parent.stat().st_mode) == 0o700
    holders = [path for path in Path(run.path).rglob("*") if path.is_file() and b"a'b" in path.read_bytes()]
    assert holders == []
    attached = box.call("attach", name=None, project_id=PROJECT_ID)
    assert (attached["run"], attached["backend"], attached["clients"]) == ("exp_resnet50", "screen", 0)
    assert attached["session"].endswith(".exp_resnet50")
    assert attached["leave"]


def test_the_oldest_python_goes_the_whole_way(boxes: Callable[..., RpcBox]) -> None:
    python = oldest_python()
    if python is None:
        pytest.skip("there is no Python 3.8 on this machine")
    box = boxes(python)
    assert box.launch().outcome == "started"
    assert [run.state for run in box.ps()] == ["running"]
    assert box.call("stop", name="exp_resnet50", grace_s=5)["run"]["state"] == "stopped"
    assert box.call("remove", name="exp_resnet50")["run"] == "exp_resnet50"


def test_a_command_that_dies_at_once_is_told_with_its_last_lines(box: RpcBox) -> None:
    launched = box.launch(Wanted(command=r"seq 1 30; printf 'bad \377 byte\n'; exit 3", backend="detached"))
    assert (launched.outcome, launched.run.state, launched.run.exit_code) == ("failed-at-once", "failed", 3)
    assert launched.tail is not None
    assert launched.tail.splitlines() == [*map(str, range(12, 31)), "bad � byte"]
    killed = box.launch(Wanted(name="killed", command="kill -9 $BASHPID", backend="detached"))
    assert (killed.outcome, killed.run.exit_code, killed.run.signal) == ("failed-at-once", None, 9)
    quick = box.launch(Wanted(name="quick", command="echo done"))
    assert (quick.outcome, quick.run.state, quick.run.exit_code) == ("started", "succeeded", 0)


def test_a_setup_is_said_and_its_failure_is_the_runs(box: RpcBox) -> None:
    request = box.request(Wanted(spec={"setup": "sleep 0.5; echo no such package; exit 7"}, backend="detached"))
    talk = Talk(box)
    talk.send("launch", request)
    launched = decode(Launched, talk.answer())
    talk.close()
    assert [event["setup"] for event in talk.events if event["event"] == "setup"] == [request["spec"]["setup"]]
    assert (launched.outcome, launched.run.cause) == ("failed-at-once", "setup-failed")
    assert "no such package" in str(launched.tail)


def test_what_a_second_launch_of_a_live_name_is_told(box: RpcBox) -> None:
    box.launch()
    supervisor = box.state().supervisor
    assert box.launch().outcome == "already-running"
    for other, differing in (
        (Wanted(command="echo other"), ["command"]), (Wanted(secrets={"A": "hunter2"}), ["secrets"]),
        (Wanted(spec={"env": {"A": "hunter2"}, "log_limit_bytes": 1, "code_digest": "d"}), ["env", "log_limit", "code"]),
        (Wanted(fresh=True), []),
    ):
        with pytest.raises(Refused) as refused:
            box.launch(other)
        assert refused.value.code == ("run-differs" if differing else "run-live")
        assert refused.value.params["differing"] == differing
        assert "hunter2" not in str(refused.value.params)
    with pytest.raises(Refused) as refused:
        box.launch(Wanted(project_id="p-2"))
    assert (refused.value.code, refused.value.params["project"]) == ("run-name-taken", PROJECT)
    with pytest.raises(Refused) as refused:
        box.call("remove", name="exp_resnet50")
    assert refused.value.code == "run-live"
    assert box.state().supervisor == supervisor
    assert len(sleepers(box)) == 1


def test_an_ended_run_goes_on_in_its_folder_and_fresh_puts_it_aside(box: RpcBox) -> None:
    run = box.run()
    first = Wanted(command="exit 1", backend="detached", secrets={"A": "1"})
    box.launch(first)
    checkpoint = Path(run.checkpoints, "step-1", "state.pt")
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"weights")
    again = box.launch(first)
    assert (again.run.attempt, again.run.launch) == (2, 2)
    assert checkpoint.exists()
    assert [attempt.number for attempt in box.state().attempts] == [1, 2]
    fresh = box.launch(Wanted(command="exit 1", backend="detached", fresh=True))
    assert (fresh.run.attempt, fresh.run.launch) == (1, 1)
    assert fresh.archived_to is not None
    assert Path(fresh.archived_to, "ckpt/step-1/state.pt").read_bytes() == b"weights"
    assert not os.path.exists(run.checkpoints)
    assert os.listdir(layout.Home(str(box.home)).secrets) == []
    assert sorted((shown.name, shown.archived) for shown in box.ps(archived=True)) == [
        ("exp_resnet50", False), (os.path.basename(fresh.archived_to), True)]


def test_a_launch_that_was_prepared_for_something_else_starts_nothing(box: RpcBox) -> None:
    stale = box.request(Wanted(command="exit 1", backend="detached"))
    box.launch(Wanted(command="exit 1", backend="detached"))
    for body in (stale, {**stale, "launch": 2, "spec": {**stale["spec"], "code_digest": "c0de"}}):
        with pytest.raises(Refused) as refused:
            box.call("launch", **body)
        assert refused.value.code == "launch-again"
    assert box.run().launches() == [1]


@pytest.mark.parametrize("backend", ["screen", "tmux", "detached"])
def test_two_launches_at_the_same_moment_make_one_run(box: RpcBox, backend: str) -> None:
    request = box.request(Wanted(backend=backend))
    talks = [Talk(box) for _ in range(3)]
    together = threading.Barrier(len(talks))

    def launch(talk: Talk) -> str:
        together.wait()
        talk.send("launch", request)
        return decode(Launched, talk.answer()).outcome

    with ThreadPoolExecutor(len(talks)) as pool:
        outcomes = sorted(pool.map(launch, talks))
    for talk in talks:
        talk.close()
    assert outcomes == ["already-running", "already-running", "started"]
    assert len(sleepers(box)) == 1
    assert box.run().launches() == [1]


def test_a_launch_goes_on_when_nobody_listens_any_more(box: RpcBox) -> None:
    talk = Talk(box)
    talk.send("launch", box.request(Wanted(spec={"setup": "sleep 1"})))
    for number in (signal.SIGHUP, signal.SIGINT):
        talk.process.send_signal(number)
    talk.close()
    box.await_state("running")
    pid, = wait_for(lambda: sleepers(box))
    ignored = int(Path(f"/proc/{pid}/status").read_text().partition("SigIgn:")[2].split()[0], 16)
    assert not ignored & (1 << signal.SIGHUP - 1 | 1 << signal.SIGINT - 1), "our deafness is not the run's"


#: Runs the agent's launch and kills it, -9, at its n-th step: each durable write, each rename, the session's start.
KILLED = """
import os, signal, sys
agent, step = sys.argv[1], int(sys.argv[2])
sys.path.insert(0, agent)
from remote_agent import atomic
from remote_agent.rpc import launch, operations
left = [step]

def counted(function):
    def instead(*given, **named):
        for _ in (0, 1):  # before it and after it
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            result = function(*given, **named) if _ == 0 else result
        return result
    return instead

atomic.write_bytes = counted(atomic.write_bytes)
os.rename = counted(os.rename)
launch.start_session = counted(launch.start_session)
sys.exit(operations.main(["--nonce", "n0", "--agent", "0"]))
"""


def killed_at(box: RpcBox, step: int, request: dict[str, Any]) -> bool:
    """Whether the launch was killed at that step; False when it has no such step and went through."""
    said = subprocess.run([box.python, "-I", "-c", KILLED, str(box.agent), str(step)], env=box.env, timeout=60,
                          input=json.dumps({"id": 1, "op": "launch", **request}).encode() + b"\n",
                          capture_output=True, check=False)
    assert said.returncode in (0, -9), said
    return said.returncode == -9


def repeat_killed(boxes: Callable[..., RpcBox], relaunch: bool, steps: list[int]) -> list[bool]:
    """A launch killed at each of the steps and then repeated ends in one run; gives which of the steps there were."""
    made = {step: boxes() for step in steps}

    def try_step(step: int) -> bool:
        box, wanted = made[step], Wanted(backend="detached", secrets={"A": "1"})
        if relaunch:
            box.launch(Wanted(backend="detached", command="exit 1"))
        killed = killed_at(box, step, box.request(wanted))
        again = box.launch(wanted)
        assert again.outcome in ("started", "already-running"), (step, again)
        assert len(sleepers(box)) == 1, step
        assert [shown.state for shown in box.ps()] == ["running"], step
        return killed

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(try_step, steps))


@pytest.mark.parametrize(("relaunch", "steps"), [
    (False, [9, 19, 22]),  # files half written; all in place and no session; the process made and not let go
    (True, [13, 15]),  # wanted and not yet said; said and no session
])
def test_a_launch_killed_half_way_and_repeated_ends_in_one_run(
        boxes: Callable[..., RpcBox], relaunch: bool, steps: list[int]) -> None:
    assert all(repeat_killed(boxes, relaunch, steps))


@pytest.mark.campaign
@pytest.mark.parametrize("relaunch", [False, True])
def test_a_launch_killed_at_any_point_at_all(boxes: Callable[..., RpcBox], relaunch: bool) -> None:
    reached = repeat_killed(boxes, relaunch, list(range(30)))
    assert sum(reached) >= 18
    assert not reached[-1], "there are more points than these"


@pytest.mark.parametrize("secrets", [{"A-B": "sesame"}, {"A": "sesame\0"}, {"A": "sesame\ud800"}])
def test_a_secret_that_cannot_be_is_refused_without_its_value(box: RpcBox, secrets: dict[str, str]) -> None:
    request = box.request(Wanted())
    with pytest.raises(Refused) as refused:
        box.call("launch", **{**request, "secrets": secrets})
    assert (refused.value.code, refused.value.params) == ("bad-secret", {"name": next(iter(secrets))})
    assert box.ps() == []


def test_a_home_that_takes_no_writes_serves_a_run_without_secrets(box: RpcBox) -> None:
    box.env["HOME"] = "/proc/no-home"
    try:
        assert box.launch().outcome == "started"
        assert box.call("stop", name="exp_resnet50", grace_s=5)["run"]["state"] == "stopped"
        assert box.call("remove", name="exp_resnet50")["run"] == "exp_resnet50"
    finally:
        end_processes_of(Path(box.env["HOME"]))


@pytest.mark.parametrize("backend", ["screen", "tmux", "detached"])
def test_a_live_run_of_that_name_on_another_data_disk_is_left_alone(box: RpcBox, tmp_path: Path, backend: str) -> None:
    """The code, the secrets and the session go by the name: the second is refused before it touches any."""
    box.launch(Wanted(secrets={"A": "first"}))
    secrets, supervisor = box.home / ".cloudrun/secrets", box.state().supervisor
    before = everything(secrets)
    first = box.run()
    request = {**box.request(Wanted(secrets={"A": "first"})), "secrets": {"A": "second"}}
    other = tmp_path / "other"
    other.mkdir()
    for op, body in (("prepare", {"run": first.name, "project": PROJECT, "project_id": PROJECT_ID}),
                     ("launch", {**request, "spec": {**request["spec"], "backend": backend}, "launch": 1})):
        with pytest.raises(Refused) as refused:
            box.call(op, **{**body, "data_dir": str(other)})
        assert refused.value.code == "session-of-another"
    assert processes.alive(supervisor)
    assert (len(sleepers(box)), box.state().state) == (1, "running")
    assert everything(secrets) == before


def test_a_session_that_cannot_start_leaves_a_failure_and_no_limbo(box: RpcBox) -> None:
    request = box.request(Wanted(spec={"screen_escape": "^Cc"}))
    with pytest.raises(Refused) as refused:
        box.call("launch", **request)
    assert refused.value.code == "escape-invalid"
    assert [(shown.state, shown.cause) for shown in box.ps()] == [("failed", "never-started")]
    assert box.launch().outcome == "started"


# --------------------------------------------------------------------------------------------- preflight


def everything(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in folder.rglob("*")}


def ask_prepare(box: RpcBox, **more: Any) -> Any:
    asked = {"run": "exp_resnet50", "project": PROJECT, "project_id": PROJECT_ID, "min_free_bytes": 1000, **more}
    return box.call("prepare", **asked)


def test_the_preflight_tells_the_facts_and_changes_nothing(box: RpcBox) -> None:
    before = everything(box.home), everything(box.data)
    prepared = ask_prepare(box)
    facts = prepared["facts"]
    assert facts["agent_dir"] == str(box.agent)
    assert os.path.samefile(facts["python"], box.python)
    assert facts["tree"] == str(box.home / "cloudrun" / PROJECT / "exp_resnet50")
    assert facts["run_dir"] == box.run().path
    assert facts["secret_file"] == layout.Home(str(box.home)).secret_file(box.run().path, 1)
    told = subprocess.run(["bash", "-c", "locale charmap"], env={**box.env, "LC_ALL": facts["utf8_locale"]},
                          capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "UTF-8"
    assert (prepared["existing"], prepared["next_attempt"], prepared["next_launch"]) == (None, 1, 1)
    assert (prepared["backend"], prepared["will_install"]) == ("screen", None)
    assert (everything(box.home), everything(box.data)) == before


def test_the_preflight_refuses_a_full_disk_with_the_figures(box: RpcBox) -> None:
    (box.data / "dataset.tar").write_bytes(bytes(300_000))
    with pytest.raises(Refused) as refused:
        ask_prepare(box, min_free_bytes=10**18)
    params = refused.value.params
    assert (refused.value.code, params["needed_bytes"], params["path"]) == ("disk-low", 10**18, str(box.data))
    assert 0 < params["free_bytes"] <= params["total_bytes"]
    assert params["largest"][0]["path"] == str(box.data / "dataset.tar")
    shown = CloudrunError("disk-low", **params)
    assert "1000 PB" in shown.message
    assert "dataset.tar" not in shown.message  # 300 kB are not what fills this disk


def test_two_more_checkpoints_must_fit_and_inodes_count(tmp_path: Path) -> None:
    run = layout.Run(str(tmp_path / "exp"))
    for name, size in (("step-1", 1000), ("step-2", 3000)):
        os.makedirs(os.path.join(run.checkpoints, name))
        Path(run.checkpoints, name, "state.pt").write_bytes(bytes(size))
    disk = DataDisk(str(tmp_path), "configured", "/", 5999, 10**6, 10**6, 10**6)
    with pytest.raises(AgentError) as caught:
        prepare.check_space(disk, 10, run)
    assert (caught.value.code, caught.value.params["needed_bytes"]) == ("disk-low-for-checkpoints", 6000)
    disk.free_bytes = 6000
    prepare.check_space(disk, 10, run)
    disk.free_inodes = 10
    with pytest.raises(AgentError, match="inodes-low"):
        prepare.check_space(disk, 10, run)
    disk.free_inodes = disk.total_inodes = None  # not counted there
    prepare.check_space(disk, 10, run)


def test_a_missing_gpu_refuses_only_where_gpus_is_set() -> None:
    for state in GPU_STATES[1:]:
        prepare.check_gpus(GpuReport(state), None)
        with pytest.raises(AgentError) as caught:
            prepare.check_gpus(GpuReport(state), [0])
        assert caught.value.code == f"gpu-{state}"
        assert caught.value.code in CATALOGUE


@pytest.mark.parametrize(("wanted", "found", "missing"), [([0, 3], [0, 1], "3"), ([1], [0, 1], None)])
def test_the_cards_that_are_asked_for_must_be_there(wanted: list[int], found: list[int], missing: str | None) -> None:
    report = decode(GpuReport, {"state": "ok", "gpus": [{"index": index, "name": "NVIDIA L4"} for index in found]})
    if missing is None:
        prepare.check_gpus(report, wanted)
        return
    with pytest.raises(AgentError) as caught:
        prepare.check_gpus(report, wanted)
    assert (caught.value.code, caught.value.params["missing"]) == ("gpu-index", missing)


@pytest.mark.parametrize(("name", "character"), [("a/b", "/"), ("-a", "-"), ("训练", "训"), ("a" * 64, "")])
def test_a_name_that_cannot_be_a_runs_is_refused_with_its_character(name: str, character: str) -> None:
    with pytest.raises(AgentError) as caught:
        check_name(name)
    assert (caught.value.code, caught.value.params["character"]) == ("bad-run-name", character)


def test_without_screen_and_tmux_one_is_installed_or_the_detached_process_serves(
        monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[str] = []
    monkeypatch.setattr(sessions, "choose", lambda wanted: there[0] if there else None)

    def install(program: str, say: Callable[..., None], deadline_s: float) -> str:
        say("installing", program=program)
        raise AgentError("install-no-manager", program=program, managers="apt-get")

    def pick(install_allowed: bool = True) -> tuple[str, list[str]]:
        out = io.BytesIO()
        spec = Spec(run="exp", project=PROJECT, project_id=PROJECT_ID, command="true", workdir="/")
        request = launch_session.LaunchRequest(spec, "", "", "", install=install_allowed)
        backend = launch_session.pick_backend(Call({"id": 1}, io.BytesIO(), out), request)
        return backend, [json.loads(line)["event"] for line in out.getvalue().splitlines()]

    monkeypatch.setattr(packages, "install", install)
    assert encode(launch_session.choose_backend("auto", install=True)) == {"backend": None, "will_install": "screen"}
    assert pick(install_allowed=False) == ("detached", ["fallback-detached"])
    assert pick() == ("detached", ["installing", "install-failed", "fallback-detached"])
    monkeypatch.setattr(packages, "install", lambda program, say, deadline_s: there.append(program))
    assert pick() == ("screen", [])
