"""The whole way on a real sshd, as a user goes it: host add, doctor, launch, logs, ps, gpu, stop, rm."""

from __future__ import annotations

import hashlib
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import Laptop
from tests.support.sshd import SshBox
from tests.support.waiting import wait_for

TICKER = """\
import sys, time
print('第 0 轮 开始', flush=True)
for i in range(100000):
    print('tick', i, flush=True)
    time.sleep(0.05)
"""


@pytest.fixture
def way(box: SshBox, cloudrun: Laptop) -> Laptop:
    cloudrun.know(box)
    (cloudrun.project / "train.py").write_text(TICKER, encoding="utf-8")
    return cloudrun


def launch(way: Laptop, name: str, *command: str, backend: str = "screen", code: int | None = 0) -> dict[str, object]:
    return dict(way.json("launch", name, "--backend", backend, "--", *command, code=code))


@pytest.mark.parametrize("backend", ["screen", "tmux", "detached"])
def test_the_whole_way(way: Laptop, box: SshBox, backend: str) -> None:
    launched = launch(way, "exp_ticker", "python3", "train.py", backend=backend)
    assert list(launched) == ["run", "host", "attempt", "state", "backend", "session", "run_dir", "log"]
    assert (launched["run"], launched["host"], launched["attempt"]) == ("exp_ticker", "box", 1)
    assert (launched["state"], launched["backend"]) == ("running", backend)
    assert str(launched["run_dir"]).startswith(str(box.data.resolve()))
    log = Path(str(launched["log"]))
    wait_for(lambda: b"tick 3\n" in log.read_bytes(), what="the log on the data disk")
    assert "第 0 轮 开始" in way.run("logs", "-n", "100000").out
    assert way.state("exp_ticker")["state"] == "running"
    again = way.run("launch", "exp_ticker", "--backend", backend, "--", "python3", "train.py")
    assert "already running" in again.out
    refused = way.run("launch", "exp_ticker", "--", "python3", "train.py", "--lr", "1", code=5)
    assert "cloudrun stop exp_ticker" in refused.err
    assert "the command differs" in refused.err
    way.run("rm", "exp_ticker", "--yes", code=5)
    way.run("stop", "exp_ticker", "--grace", "5")
    assert way.state("exp_ticker")["state"] == "stopped"
    assert not running_in(launched["run_dir"])
    assert "stopped" in way.run("stop", "exp_ticker").err
    way.run("rm", "exp_ticker", "--yes")
    assert way.json("ps") == {"runs": [], "errors": []}
    assert not Path(str(launched["run_dir"])).exists()


def running_in(run_dir: object) -> list[str]:
    """Command lines of processes that carry the run's mark."""
    mark = f"CLOUDRUN_RUN_DIR={run_dir}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def test_a_dropped_connection_hurts_nothing_and_logs_go_on(way: Laptop, box: SshBox) -> None:
    log = Path(str(launch(way, "exp_ticker", "python3", "train.py")["log"]))
    follower = way.start("logs", "-f", "--raw", "-n", "100000")
    assert follower.stdout is not None
    assert follower.stderr is not None
    try:
        seen = b""
        for cut in range(3):
            wanted = log.stat().st_size + 200  # bytes that are not there yet: they have to come over this connection
            while len(seen) < wanted:
                seen += follower.stdout.read1(65536)
            assert cut == 2 or box.drop_connections() == 1
        assert log.read_bytes().startswith(seen)
        follower.send_signal(signal.SIGINT)
        rest, talk = follower.communicate(timeout=10)
        assert log.read_bytes().startswith(seen + rest)
        assert follower.returncode == 130
        assert b"still running" in talk
        assert b"cloudrun logs -f exp_ticker" in talk
    finally:
        follower.kill()
        follower.wait()
    assert way.state("exp_ticker")["state"] == "running"


@pytest.mark.parametrize(("command", "words"), [
    (("python3", "-c", "print('last words'); raise SystemExit(7)"), ("exit 7", "last words")),
    (("bash", "-c", "echo last words; kill -9 $$"), ("SIGKILL", "last words")),
    (("/no/such/program",), ("127", "/no/such/program")),
])
def test_a_run_that_dies_at_once_is_reported_with_its_code_and_last_lines(
    way: Laptop, command: tuple[str, ...], words: tuple[str, ...]
) -> None:
    died = way.run("launch", "exp_dies", "--", *command, code=3)
    for word in words:
        assert word in died.err
    error = way.json("launch", "exp_dies", "--", *command, code=3)["error"]
    assert list(error) == ["code", "message", "hint", "exit_code"]
    assert (error["code"], error["exit_code"]) == ("run-died", 3)


def test_a_start_that_fails_during_its_imports_is_seen_and_a_silent_one_is_said(way: Laptop) -> None:
    (way.project / "late.py").write_text("import time\ntime.sleep(2.5)\nimport no_such_module\n")
    assert "no_such_module" in way.run("launch", "exp_late", "--", "python3", "late.py", code=3).err
    silent = way.run("launch", "exp_silent", "--wait", "1.2", "--", "sleep", "60").out
    assert "has written nothing yet" in silent
    assert "has written nothing yet" not in way.run("launch", "exp_chatty", "--", "python3", "train.py").out


def test_an_ended_run_gets_its_next_attempt_in_the_same_folder_and_fresh_puts_it_aside(way: Laptop) -> None:
    (way.project / "count.sh").write_text('echo attempt $CLOUDRUN_ATTEMPT; echo kept >>"$CLOUDRUN_RUN_DIR/kept"\n')
    first = launch(way, "exp_again", "bash", "count.sh")
    wait_for(lambda: way.state("exp_again")["state"] == "succeeded")
    second = launch(way, "exp_again", "bash", "count.sh")
    assert (first["run_dir"], second["attempt"]) == (second["run_dir"], 2)
    wait_for(lambda: way.state("exp_again")["state"] == "succeeded")
    assert "attempt 2" in way.run("logs", "exp_again", "--attempt", "2").out
    fresh = way.json("launch", "exp_again", "--fresh", "--", "bash", "count.sh")
    assert fresh["attempt"] == 1
    wait_for(lambda: way.state("exp_again")["state"] == "succeeded")
    assert (Path(str(fresh["run_dir"])) / "kept").read_text() == "kept\n"
    archived = [run for run in way.json("ps", "--archived")["runs"] if run["run_dir"] != fresh["run_dir"]]
    assert [(Path(run["run_dir"]) / "kept").read_text() for run in archived] == ["kept\nkept\n"]


def test_two_launches_at_the_same_moment_start_one_run(way: Laptop) -> None:
    both = [way.start("launch", "exp_twice", "--json", "--", "python3", "train.py", stderr=subprocess.DEVNULL) for _ in range(2)]
    answers = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    assert way.state("exp_twice")["attempt"] == 1
    trainings = [line for line in running_in(way.state("exp_twice")["run_dir"]) if line.startswith("python3 train.py")]
    assert len(trainings) == 1


def test_secrets_reach_the_run_and_nothing_else(way: Laptop, box: SshBox) -> None:
    (way.project / ".env").write_text("TOKEN='hunter2 $x'\n")
    (way.project / "show.sh").write_text('printf "%s" "$TOKEN" | sha256sum\n')
    launched = way.json("launch", "exp_secret", "--env-file", ".env", "--", "bash", "show.sh")
    wait_for(lambda: way.state("exp_secret")["state"] == "succeeded")
    assert hashlib.sha256(b"hunter2 $x").hexdigest() in way.run("logs", "exp_secret").out
    files = [path for path in [*box.data.rglob("*"), *box.home.rglob("*")] if path.is_file()]
    holding = [path for path in files if b"hunter2" in path.read_bytes()]
    assert [path.parent.name for path in holding] == ["secrets"]
    assert [oct(path.stat().st_mode & 0o777) for path in holding] == ["0o600"]
    assert launched["state"] in ("running", "succeeded")


def test_dry_run_changes_nothing(way: Laptop, box: SshBox) -> None:
    way.run("doctor", code=None)  # the agent is there
    before = sorted(path for root in (box.home, box.data) for path in root.rglob("*"))
    shown = way.run("launch", "exp_dry", "--dry-run", "--", "python3", "train.py").out
    assert "python3 train.py" in shown
    assert "nothing was changed" in shown
    assert sorted(path for root in (box.home, box.data) for path in root.rglob("*")) == before
