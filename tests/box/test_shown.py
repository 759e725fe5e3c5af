"""What `launch` and `ps` show: the attempt that it began, followed from its first line, and the script as it would be."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.support.cli import Laptop
from tests.support.sshd import SshBox
from tests.support.waiting import wait_for

LINES = 3000  # more than the lines that `logs` shows by itself


def test_an_ended_run_is_followed_from_its_new_attempt_on(box: SshBox, cloudrun: Laptop) -> None:
    cloudrun.add(box)
    told = f"seq -f attempt-$CLOUDRUN_ATTEMPT-%g {LINES}; sleep 3"  # it lives longer than launch looks
    for attempt in (1, 2):
        shown = cloudrun.run("launch", "exp_told", "--follow", "--", "bash", "-c", told)
        lines = [line for line in shown.out.splitlines() if line.startswith("attempt-")]
        assert lines == [f"attempt-{attempt}-{number}" for number in range(1, LINES + 1)]
    assert "attempt 2" in shown.out
    quick = cloudrun.run("launch", "exp_told", "--", "true")
    assert "attempt 3" in quick.out
    dead = cloudrun.run("launch", "exp_told", "--", "false", code=3)
    assert "attempt 4" in dead.err
    unknown = cloudrun.run("logs", "exp_told", "--attempt", "9", code=4)
    assert "attempt 4" in unknown.err


def test_watched_runs_are_json_lines_when_asked_for(box: SshBox, cloudrun: Laptop) -> None:
    cloudrun.add(box)
    cloudrun.run("launch", "exp_seen", "--wait", "1", "--", "sleep", "60")
    for words in (["--watch"], ["--watch", "--all-hosts"]):
        watching = cloudrun.start("ps", "--json", *words)
        try:
            assert watching.stdout is not None
            answers = [json.loads(watching.stdout.readline()) for _ in range(2)]
            watching.send_signal(signal.SIGINT)
            assert watching.wait(10) == 0  # leaving a watch is no failure
        finally:
            watching.kill()
            watching.communicate()
        assert [[run["name"] for run in answer["runs"]] for answer in answers] == [["exp_seen"]] * 2


def test_a_removal_says_what_it_leaves(box: SshBox, cloudrun: Laptop) -> None:
    cloudrun.add(box)
    cloudrun.run("launch", "exp_gone", "--", "true")
    removed = cloudrun.run("rm", "exp_gone", "--yes")
    tree = box.home / "cloudrun" / "net" / "exp_gone"
    assert str(tree) in removed.err
    (cloudrun.project / "train.py").write_text("print('there again')\n")
    cloudrun.run("launch", "exp_gone", "--", "true")
    assert (tree / "train.py").exists()
    removed = cloudrun.run("rm", "exp_gone", "--code", "--yes")
    assert f"its code is deleted: {tree}" in removed.err.splitlines()
    assert not tree.exists()
    cloudrun.run("launch", "exp_gone", "--", "python3", "train.py")  # what the tree held is sent again
    assert "there again" in cloudrun.run("logs", "exp_gone").out
    cloudrun.run("rm", "exp_gone", "--yes")
    # A pipe has no width that lines would have to be broken to.
    died = cloudrun.run("launch", "exp_long" * 7, "--", "/no/such/program", code=3)
    assert "failed at once: cannot be run: command not found (exit 127)" in died.err
    table = cloudrun.run("ps").out.splitlines()
    assert len(table) == 2
    assert "exp_long" * 7 in table[1]


def test_a_dry_run_shows_every_line_of_the_script_whole(box: SshBox, cloudrun: Laptop) -> None:
    cloudrun.add(box)
    (cloudrun.project / "train.py").write_text("print('x')\n" * 100)
    at_home = list(cloudrun.project.iterdir())
    command = ["python3", "train.py", *[f"--option-{number}=value" for number in range(40)]]
    script = cloudrun.json("launch", "exp_dry", "--dry-run", "--", *command)["run_sh"]
    shown = cloudrun.run("launch", "exp_dry", "--dry-run", "--", *command).out
    assert script in shown
    first = shown[:shown.index(script)].splitlines()
    assert len(first) < 16  # what one wants to know fits a screen, and stands before the script
    told = {line[:14].strip(): line[14:].strip() for line in first if line[:14].strip()}
    assert told["command"].split() == command
    assert told["largest"] == "1.1 kB  train.py"
    assert told["code"].startswith("1 files, 1.1 kB, into ")
    assert told["data disk"].startswith(str(box.data.resolve()))
    assert "no nvidia-smi" in told["GPU"] or "of:" in told["GPU"]
    assert list(cloudrun.project.iterdir()) == at_home  # nothing was changed here either


def test_what_looks_like_secrets_is_said_and_nobody_else_reads_it(box: SshBox, cloudrun: Laptop) -> None:
    cloudrun.know(box)
    for name in (".env", ".env.example", "keys/id_ed25519", "train.py"):
        (cloudrun.project / name).parent.mkdir(exist_ok=True)
        (cloudrun.project / name).write_text("x\n")
        (cloudrun.project / name).chmod(0o755)
    warning = cloudrun.run("launch", "exp_a", "--dry-run", "--", "true").out
    assert "echo .env >> .cloudrunignore" in warning
    said = cloudrun.run("launch", "exp_a", "--", "true").err
    assert "warning: .env, keys/id_ed25519: " in said
    tree = box.home / "cloudrun" / "net" / "exp_a"
    modes = {path.name: path.stat().st_mode & 0o777 for path in tree.rglob("*") if path.is_file()}
    assert modes == {".env": 0o600, "id_ed25519": 0o600, ".env.example": 0o755, "train.py": 0o755}
    (cloudrun.project / ".cloudrunignore").write_text(".env\nkeys/\n")
    assert "secrets" not in cloudrun.run("launch", "exp_a", "--", "true").err


def test_the_home_is_never_made_a_project(cloudrun: Laptop) -> None:
    home = cloudrun.project.parent
    cloudrun.project = home
    before = {path for path in home.rglob("*") if path.is_file()}
    for words in ((), ("--dry-run",), ("--no-sync", "--workdir", "/srv")):
        refused = cloudrun.json("launch", "exp_a", "-H", "local", *words, "--", "true", code=7)
        assert refused["error"]["code"] == "project-is-home"
    assert {path for path in home.rglob("*") if path.is_file()} == before


def test_secrets_of_another_run_stay_home_too(box: SshBox, cloudrun: Laptop) -> None:
    cloudrun.add(box)
    (cloudrun.project / "cloudrun.toml").write_text('[runs.exp_a]\nenv_file = "a.env"\ncommand = "true"\n')
    (cloudrun.project / "a.env").write_text("TOKEN=hunter2\n")
    cloudrun.run("launch", "exp_b", "--", "true")
    wait_for(lambda: cloudrun.state("exp_b")["state"] == "succeeded", what="the run's end")
    files = [path for path in Path(box.folder).rglob("*") if path.is_file()]
    assert [path for path in files if b"hunter2" in path.read_bytes()] == []
