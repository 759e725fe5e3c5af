"""What runs there are: the files' word held against what is really alive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from remote_agent import atomic, clock, layout, processes, runs
from remote_agent.protocol import AgentError, Desired, Identity, ProcessRef, RunInfo, Spec, State, encode
from tests.support.waiting import wait_for

GONE = ProcessRef(1, 1)  # pid 1 of another boot


class Disk:
    """A data disk with runs whose files a test writes."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder)
        self.data = layout.Data(self.path)

    def add(self, name: str, state: State, project_id: str = "p-1") -> layout.Run:
        run = self.data.run(name)
        os.makedirs(run.launch(1).path)
        os.makedirs(run.logs)
        atomic.write_json(run.identity, encode(Identity(name, "proj", project_id, clock.now_utc())))
        spec = Spec(run=name, project="proj", project_id=project_id, command="true", workdir="/", gpus=[0])
        atomic.write_json(run.launch(1).spec, encode(spec))
        atomic.write_json(run.state, encode(state))
        return run

    def shown(self, name: str) -> RunInfo:
        found = runs.info(self.data.run(name))
        assert found is not None
        return found


def running(**more: object) -> State:
    """A state as a supervisor writes it while the command runs; its supervisor is this very test."""
    state = State(state="running", launch=1, attempt=1, backend="screen", session="x", box_id=processes.box_id(),
                  phase="command", launched_at=clock.now_utc(), supervisor=processes.ref(os.getpid()))
    return replace(state, **more)  # type: ignore[arg-type]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


@contextmanager
def living(argv: list[str], env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until the block ends."""
    process = subprocess.Popen(argv, env=env)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives."""
    with living(["sleep", "60"]) as process:
        yield process


def test_a_supervisor_that_lives_is_believed(disk: Disk) -> None:
    disk.add("exp", running())
    shown = disk.shown("exp")
    assert (shown.state, shown.cause, shown.gpus) == ("running", None, [0])
    assert shown.log == disk.data.run("exp").log(1)


def test_what_happened_to_a_run_whose_supervisor_is_gone_is_told_apart(
        disk: Disk, bystander: subprocess.Popen[bytes]) -> None:
    disk.add("restarted", running(box_id="another boot+1"))
    disk.add("killed", running(supervisor=GONE))
    disk.add("orphan", running(supervisor=GONE, command=processes.ref(bystander.pid)))
    disk.add("never", running(state="pending", supervisor=None, launched_at="2020-01-01T00:00:00Z"))
    disk.add("starting", running(state="pending", supervisor=None))
    found = {run.name: (run.state, run.cause) for run in runs.all_runs(disk.path)}
    assert found == {
        "restarted": ("lost", "box-restarted"), "killed": ("lost", "session-killed"),
        "orphan": ("lost", "supervisor-killed"), "never": ("lost", "never-started"), "starting": ("pending", None),
    }


def test_marked_processes_alone_show_that_a_run_goes_on(disk: Disk) -> None:
    run = disk.add("orphan", running(supervisor=GONE))
    with living(["/bin/sleep", "60"], {processes.MARK: run.path}):
        wait_for(lambda: disk.shown("orphan").cause == "supervisor-killed")
    assert disk.shown("orphan").cause == "session-killed"


@pytest.mark.parametrize(("record", "want", "told"), [
    ({"exit_code": 0, "signal": None}, "run", ("succeeded", None, 0, None)),
    ({"exit_code": 3, "signal": None}, "run", ("failed", None, 3, None)),
    ({"exit_code": None, "signal": 9}, "run", ("failed", "signal", None, 9)),
    ({"exit_code": None, "signal": 15}, "stop", ("stopped", "user", None, 15)),
])
def test_an_exit_record_tells_the_true_ending(disk: Disk, record: dict[str, object], want: str,
                                              told: tuple[object, ...]) -> None:
    """Also after the box was switched off: the command had ended before."""
    run = disk.add("exp", running(supervisor=GONE, box_id="another boot+1"))
    atomic.write_json(run.exit_record(1), {**record, "ended_at": "2026-12-01T00:00:00Z"})
    atomic.write_json(run.desired, encode(Desired(want)))
    shown = disk.shown("exp")
    assert (shown.state, shown.cause, shown.exit_code, shown.signal) == told
    assert shown.ended_at == "2026-12-01T00:00:00Z"


@pytest.mark.parametrize(("record", "log", "before", "told"), [
    ((1, None), "Traceback (most recent call last):\nValueError: no\n", ("running", None), ("failed", "exception")),
    ((1, None), "Traceback (most recent call last):\nRuntimeError: CUDA out of memory\n", ("running", None),
     ("failed", "cuda-oom")),
    ((127, None), "bash: python: command not found\n", ("running", None), ("failed", "never-started")),
    ((None, 2), "epoch 3\n", ("running", None), ("stopped", "user")),  # Ctrl-C
    ((0, None), "saved\n", ("stopping", "session-killed"), ("failed", "session-killed")),
    ((0, None), "saved\n", ("stopping", "user"), ("stopped", "user")),
])
def test_a_reader_judges_an_end_as_the_supervisor_would_have(
        disk: Disk, record: tuple[int | None, int | None], log: str, before: tuple[str, str | None],
        told: tuple[str, str]) -> None:
    state = running(supervisor=GONE)
    state.state, state.cause = before
    run = disk.add("exp", state)
    os.makedirs(run.logs, exist_ok=True)
    Path(run.log(1)).write_text(log)
    atomic.write_json(run.exit_record(1), {"exit_code": record[0], "signal": record[1], "ended_at": None})
    assert (disk.shown("exp").state, disk.shown("exp").cause) == told


def test_a_last_word_that_comes_between_two_looks_is_not_missed(
        disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    run = disk.add("exp", running(supervisor=GONE))
    really = processes.alive

    def alive(process: ProcessRef | None) -> bool:
        atomic.write_json(run.state, encode(running(state="failed", cause="cuda-oom", exit_code=1)))
        return really(process)

    monkeypatch.setattr(processes, "alive", alive)
    assert (disk.shown("exp").state, disk.shown("exp").cause) == ("failed", "cuda-oom")


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"\xff\xfe\0", b'{"state": 1}', b"[" * 100_000,
                                  json.dumps({**encode(running()), "state": "dancing"}).encode()])
@pytest.mark.parametrize("file", ["state.json", "run.json", "heartbeat.json", "launches/001/spec.json"])
def test_junk_in_a_file_never_breaks_ps(disk: Disk, junk: bytes, file: str) -> None:
    run = disk.add("exp", running())
    disk.add("healthy", running())
    Path(run.path, file).write_bytes(junk)
    found = {shown.name: shown for shown in runs.all_runs(disk.path)}
    assert found["healthy"].state == "running"
    expected = ("lost", None) if file == "state.json" else ("running", None)
    assert (found["exp"].state, found["exp"].cause) == expected
    json.dumps(encode(found["exp"]), allow_nan=False)


def test_a_heartbeat_is_read_cell_by_cell(disk: Disk) -> None:
    run = disk.add("exp", running())
    assert disk.shown("exp").progress is None
    Path(run.heartbeat).write_text('{"step": 12.0, "epoch": "x", "loss": NaN, "rate": 1e999, "phase": "eval"}')
    os.utime(run.heartbeat, (time.time() - 100, time.time() - 100))
    shown = disk.shown("exp")
    assert shown.progress is not None
    assert (shown.progress.step, shown.progress.epoch, shown.progress.loss, shown.progress.rate,
            shown.progress.phase) == (12, None, None, None, "eval")
    assert shown.progress_age_s == pytest.approx(100, abs=5)


def test_ages_are_the_boxs_and_never_negative(disk: Disk) -> None:
    disk.add("ahead", running(launched_at="2999-01-01T00:00:00Z"))
    disk.add("odd", running(launched_at="yesterday"))
    assert disk.shown("ahead").age_s == 0.0
    assert disk.shown("odd").age_s is None


def test_which_run_is_meant(disk: Disk) -> None:
    for index, (name, state, project) in enumerate([
            ("old_live", "running", "p-1"), ("new_ended", "failed", "p-1"), ("other_live", "running", "p-2")]):
        disk.add(name, running(state=state, launched_at=f"2026-12-01T00:00:0{index}Z"), project)
    assert runs.resolve(disk.path, None, "p-1").name == "old_live"
    assert runs.resolve(disk.path, None, None).name == "other_live"
    assert runs.resolve(disk.path, "new_ended", "p-2").name == "new_ended"
    with pytest.raises(AgentError) as caught:
        runs.resolve(disk.path, "new_endet", None)
    assert (caught.value.code, caught.value.params["near"]) == ("no-such-run", ["new_ended"])
    for name in ("old", "../runs/old_live", ".archive", ""):
        with pytest.raises(AgentError, match="no-such-run"):
            runs.resolve(disk.path, name, None)
    with pytest.raises(AgentError, match="no-runs"):
        runs.resolve(disk.path, None, "p-3")


def test_archived_runs_show_when_asked(disk: Disk) -> None:
    run = disk.add("exp", running(state="failed"))
    os.makedirs(disk.data.archive)
    os.rename(run.path, os.path.join(disk.data.archive, "exp-20261201T000000Z"))
    assert runs.all_runs(disk.path) == []
    found, = runs.all_runs(disk.path, archived=True)
    assert (found.name, found.archived, found.state) == ("exp-20261201T000000Z", True, "failed")


def test_fifty_runs_are_listed_at_once_and_without_a_process(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(50):
        run = disk.add(f"run{index}", running() if index % 2 else running(supervisor=GONE))
        Path(run.heartbeat).write_text('{"step": 1}')

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(os, "fork", refuse)
    took_s = []
    for _ in range(5):
        begun = time.process_time()
        assert len(runs.all_runs(disk.path)) == 50
        took_s.append(time.process_time() - begun)
    assert min(took_s) < 0.05, took_s  # processor time: other tests share the machine


def test_a_process_is_signalled_only_while_it_is_the_same(bystander: subprocess.Popen[bytes]) -> None:
    reference = processes.ref(bystander.pid)
    assert reference is not None
    assert not processes.send(replace(reference, start_ticks=reference.start_ticks + 1), 15)
    assert bystander.poll() is None
    assert processes.send(reference, 15)
    assert bystander.wait(10) == -15
    assert not processes.send(reference, 15)


def test_a_group_of_zombies_does_not_live() -> None:
    command = ["bash", "-c", "sleep 60 & echo $!; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as leader:
        assert leader.stdout is not None
        below = int(leader.stdout.readline())
        leader.kill()
        os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
        assert processes.group_lives(leader.pid), "the other one of it does"
        os.kill(below, signal.SIGKILL)
        wait_for(lambda: not processes.group_lives(leader.pid))
        os.killpg(leader.pid, 0)  # the kernel counts the zombie


def test_a_command_line_is_matched_by_whole_names(disk: Disk) -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(60)", disk.data.run("train10").path]
    with living(argv) as process:
        wait_for(lambda: process.pid in processes.mentioning(disk.data.run("train10").path))
        assert process.pid not in processes.mentioning(disk.data.run("train1").path)
