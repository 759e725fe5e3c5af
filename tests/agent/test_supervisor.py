"""The supervisor with real processes: how a command ends, and what is written down of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from remote_agent import layout, processes, tree
from tests.support.agentdir import oldest_python
from tests.support.cgroup import little_memory
from tests.support.sshd import program
from tests.support.supervised import Supervised
from tests.support.waiting import wait_for

Launch = Callable[..., Supervised]


@pytest.mark.parametrize(("terminal", "command", "state", "cause", "exit_code", "number"), [
    (True, "echo fine", "succeeded", None, 0, None),
    (False, "echo fine", "succeeded", None, 0, None),
    (True, "echo bad; exit 7", "failed", None, 7, None),
    (False, "kill -SEGV $$", "failed", "signal", None, 11),
])
def test_how_a_command_ends(launched: Launch, terminal: bool, command: str, state: str, cause: str | None,
                            exit_code: int | None, number: int | None) -> None:
    run = launched(command, terminal=terminal)
    ended = run.ended()
    assert (ended.state, ended.cause, ended.exit_code, ended.signal) == (state, cause, exit_code, number)
    assert [a.exit_code for a in ended.attempts] == [exit_code]
    assert ended.started_at
    assert ended.ended_at
    assert ended.attempts[0].ended_at == ended.ended_at
    assert Path(run.run.current_log).resolve() == Path(run.run.log(1)).resolve()


@pytest.mark.parametrize(("command", "cause", "exit_code"), [
    ("no_such_program", "never-started", 127),
    ("python3 -c '1/0'", "exception", 1),
])
def test_cause(launched: Launch, command: str, cause: str, exit_code: int) -> None:
    ended = launched(command, terminal=False).ended()
    assert (ended.state, ended.cause, ended.exit_code) == ("failed", cause, exit_code)


def test_what_bash_says_before_there_is_a_log_is_in_the_log(launched: Launch) -> None:
    run = launched("true", terminal=False, start=False)
    script = Path(run.run.launch(1).run_sh)
    script.write_text(script.read_text().replace(f"cloudrun_agent={run.agent}", "cloudrun_agent=/no/such/agent"))
    ended = run.start().ended()
    assert (ended.state, ended.cause, ended.exit_code) == ("failed", "never-started", 125)
    assert "the agent is gone: /no/such/agent" in run.log()


def test_oldest_python(launched: Launch) -> None:
    python = oldest_python()
    if python is None:
        pytest.skip("there is no Python 3.8 on this machine")
    run = launched("echo hello; exec sleep 600", setup="echo installing", python=python)
    run.says("hello")
    run.wants_stop(grace_s=5)
    ended = run.ended()
    assert (ended.state, ended.cause, ended.signal) == ("stopped", "user", 15)
    assert run.log().splitlines()[0] == "installing"


def test_a_python_built_for_an_old_system(launched: Launch, tmp_path: Path) -> None:
    """conda's and uv's are built for glibc 2.17: what came into it later is not in their `os`, whatever the box has."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site, = venv.glob("lib/python*/site-packages")
    (site / "sitecustomize.py").write_text(
        "import os\nfor name in ('memfd_create', 'copy_file_range', 'getrandom', 'eventfd'):\n"
        "    vars(os).pop(name, None)\n")
    run = launched("echo fine", terminal=False, python=str(venv / "bin/python"))
    assert (run.ended().state, run.log()) == ("succeeded", "fine\n")


def test_one_supervisor_per_run(launched: Launch) -> None:
    run = launched("echo here; exec sleep 600")
    run.says("here")
    first = run.state().supervisor
    second = subprocess.run(
        [run.setting.python, "-I", str(run.agent), "supervise", run.run.path, "1", "--backend", "detached"],
        capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode == 3
    assert "waits for a supervisor" in second.stderr
    assert run.state().supervisor == first
    assert processes.alive(first)
    assert processes.alive(run.state().command)


def test_a_stop_that_came_before_the_start_wins(launched: Launch) -> None:
    run = launched("echo never", terminal=False, start=False)
    run.wants_stop(grace_s=5)
    ended = run.start().ended()
    assert (ended.state, ended.cause, ended.attempts, run.log()) == ("stopped", "user", [], "")


def test_a_daemon_that_holds_the_pipe_does_not_keep_the_run(launched: Launch) -> None:
    run = launched("setsid sleep 600 & echo done; exit 4", terminal=False)
    ended = run.ended()
    assert (ended.state, ended.exit_code) == ("failed", 4)
    assert run.log() == "done\n"


def test_without_the_tee_the_command_is_still_waited_for(launched: Launch, tmp_path: Path) -> None:
    go = tmp_path / "go"
    run = launched(f"trap '' PIPE; echo on; while [ ! -e {go} ]; do sleep 0.05; done; exit 9")
    run.says("on")
    command = wait_for(lambda: run.state().command)
    os.kill(processes.parent(command.pid) or 0, signal.SIGKILL)
    wait_for(lambda: run.told("tee-died"))
    go.touch()
    ended = run.ended()
    assert (ended.state, ended.exit_code, ended.signal) == ("failed", 9, None)


def test_the_training_outlives_its_supervisor_and_can_be_ended(launched: Launch) -> None:
    run = launched("echo on; while sleep 0.05; do echo more; done")
    run.says("on")
    state = wait_for(lambda: run.state() if run.state().command else None)
    assert state.supervisor
    assert state.command
    os.kill(state.supervisor.pid, signal.SIGKILL)
    wait_for(lambda: not processes.alive(state.supervisor))
    said = len(run.log())
    wait_for(lambda: len(run.log()) > said + 20, what="the log going on")
    assert processes.alive(state.command)
    ended = tree.end_tree(run.run.path, [state.command], grace_s=5)
    assert ended.left == []
    assert run.ended().state == "running"  # the file's last word; readers derive the rest


def test_session_killed(launched: Launch) -> None:
    run = launched("trap 'echo saving; exit 0' TERM; echo on; while :; do sleep 0.05; done")
    run.says("on")
    run.hang_up()
    ended = run.ended()
    assert (ended.state, ended.cause) == ("failed", "session-killed")
    run.says("saving")


def test_quiet_supervisor_costs_next_to_nothing(launched: Launch) -> None:
    run = launched("echo on; exec sleep 600")
    run.says("on")
    supervisor = wait_for(lambda: run.state().command and run.state().supervisor)
    wait_for(_Rests(supervisor.pid), what="three rests of nearly a second on end")
    assert _rss_bytes(supervisor.pid) < 25 << 20


class _Rests:
    """True once a process slept three times in a row for nearly a second."""

    def __init__(self, pid: int) -> None:
        self.pid, self.seen, self.since, self.rests = pid, -1, 0.0, 0

    def __call__(self) -> bool:
        switches, now = _switches(self.pid), time.monotonic()
        if switches != self.seen:
            self.rests = self.rests + 1 if now - self.since > 0.8 else 0
            self.seen, self.since = switches, now
        return self.rests >= 3


def _switches(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches:"):
            return int(line.split()[1])
    raise AssertionError(pid)


def _rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_a_real_out_of_memory_kill(launched: Launch) -> None:
    with little_memory(128 << 20) as procs:
        run = launched("python3 -c 'held = bytearray(1 << 30)'", terminal=False, joins=procs)
        ended = run.ended()
    assert (ended.state, ended.cause) == ("failed", "oom-killed")


def test_a_kill_by_somebody_is_not_taken_for_it(launched: Launch) -> None:
    ended = launched("kill -9 $$", terminal=False).ended()
    assert (ended.state, ended.cause, ended.signal) == ("failed", "signal", 9)


def test_a_full_data_disk_costs_no_word_of_how_it_ended(launched: Launch, tmp_path: Path) -> None:
    """The whole run folder is a disk of its own, seen through an open folder also when its namespace is gone."""
    run = launched(f"echo on; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 5", start=False, before=[
        program("unshare"), "--mount", "--propagation", "private", "bash", "-c",
        'cp -a "$0" "$0.aside" && mount -t tmpfs -o size=256k tmpfs "$0" && cp -a "$0.aside/." "$0" && exec "$@"',
        str(layout.Data(str(tmp_path / "data")).run("exp_resnet50").path)])
    run.start()
    supervisor = run.processes[0].pid
    disk = Path(f"/proc/{supervisor}/root{run.run.path}")
    wait_for(lambda: os.path.ismount(disk) and "on" in run.window().decode(), what="the run on its small disk")
    disk = Path(f"/proc/self/fd/{os.open(disk, os.O_RDONLY)}")
    wait_for(lambda: json.loads((disk / "state.json").read_text())["command"], what="the command's process")
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"\0" * 4096)
    (tmp_path / "go").touch()
    wait_for(lambda: b"takes no file now" in run.window(), what="the supervisor's word on the full disk")
    assert json.loads((disk / "state.json").read_text())["state"] == "running"
    assert run.processes[0].poll() is None
    (disk / "filler").unlink()
    wait_for(lambda: run.processes[0].poll() is not None, what="the supervisor's end")
    said = json.loads((disk / "state.json").read_text())
    assert (said["state"], said["exit_code"]) == ("failed", 5)
    os.close(int(disk.name))
