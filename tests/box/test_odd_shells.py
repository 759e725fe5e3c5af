"""Login shells that print, eat, wait and end early, and shells that are not bash: the whole way through each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudrun.errors import Exit
from tests.support.cli import Laptop
from tests.support.oddbox import shell_box
from tests.support.sshd import SshBox, program
from tests.support.waiting import wait_for

SFTP_SERVER = "/usr/lib/openssh/sftp-server"
#: A banner of a megabyte with colours, a title and bytes that are no text; words that end no line, on both outputs; some
#: that come later and some at the end; a slow start. SFTP breaks on it.
LOUD = """\
printf '\\033]0;rented\\007\\033[31m+-----AutoDL-----+\\033[0m\\n\\377\\376\\n'
head -c 1000000 /dev/zero | tr '\\0' '~'
printf 'no newline here: '; printf 'nor here: ' >&2
trap 'printf "bye {\\"glued\\": "; echo "bye" >&2' EXIT
(sleep 0.2; printf '\\nlate words {"not": ours}\\n') &
sleep 0.3
"""


def whole_way(cloudrun: Laptop, box: SshBox, *options: str) -> None:
    """From a fresh box to a stopped run."""
    cloudrun.add(box)
    command = ("sh", "-c", 'echo "it is $0"; sleep 300', "a 'b' $c")
    launched = cloudrun.json("launch", "exp", *options, "--wait", "0.3", "--", *command)
    wait_for(lambda: "it is a 'b' $c" in cloudrun.run("logs", "exp").out)
    assert cloudrun.state("exp")["state"] == "running"
    cloudrun.run("stop", "exp", "--grace", "2")
    assert cloudrun.state("exp")["state"] == "stopped"
    assert Path(launched["log"]).read_text() == "it is a 'b' $c\n"


def test_a_shell_that_prints_before_between_after_and_a_lot(tmp_path: Path, cloudrun: Laptop) -> None:
    box = SshBox(tmp_path / "loud", sftp=SFTP_SERVER)
    (box.home / ".bashrc").write_text(LOUD)
    box.start()
    try:
        whole_way(cloudrun, box)
    finally:
        box.stop()


@pytest.mark.parametrize("bashrc", [
    "case $- in *i*) ;; *) return;; esac\nexport PATH=/not/reached\n",
    "set -eu\nfalse || true\n: ${UNSET_THING:-}\nset -u\n",
    "read -t 0.1 eaten; stty -echo; tput setaf 1 >/dev/null\n",
    "export PATH=/opt/conda/bin\n",
    "alias python3=/bin/false cd=/bin/false; python3() { echo mine; }; umask 077; cd /tmp\n",
])
def test_a_bashrc_that_returns_fails_reads_or_renames(box: SshBox, cloudrun: Laptop, bashrc: str) -> None:
    (box.home / ".bashrc").write_text(bashrc)
    cloudrun.know(box)
    assert cloudrun.json("launch", "exp", "--wait", "0.2", "--backend", "detached", "--", "sleep", "60")["state"] == "running"
    assert cloudrun.state("exp")["state"] == "running"


@pytest.mark.parametrize(("bashrc", "said"), [
    ("echo Welcome; echo 'Your account has expired.'; exit 1\n", "ended before it came to our command; it said: Your account"),
    ("set -eu\nfalse\n", "ended before it came to our command; it said: nothing"),
    ("echo Welcome; printf 'Choose an environment: '; read -r answer\n", "(does it wait for an answer?); it said: Choose an env"),
    ("exec bash\n", "did not come to our command within 1 s"),
    ("exec yes 'Connecting to the cluster'\n", "printed 4 MB and did not come to our command; it said: "),
])
def test_a_bashrc_that_never_gives_way_is_said(
    box: SshBox, cloudrun: Laptop, bashrc: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloudrun.agent.ship.HELLO_TIMEOUT_S", 1.0)
    (box.home / ".bashrc").write_text(bashrc)
    cloudrun.know(box)
    done = cloudrun.run("ps", code=Exit.AGENT)
    assert said in done.err
    assert "~/.bashrc on the box" in done.err
    assert "case $- in *i*) ;; *) return;; esac" in done.err


@pytest.mark.parametrize(("shell", "backend", "start_up"), [
    ("tcsh", "tmux", ".tcshrc"), ("fish", "screen", ".config/fish/config.fish"), ("zsh", "tmux", ".zshenv"),
    ("dash", "screen", ""),
])
def test_a_login_shell_that_is_not_bash(tmp_path: Path, cloudrun: Laptop, shell: str, backend: str, start_up: str) -> None:
    box = shell_box(tmp_path / "odd", program(shell))
    if start_up:
        (box.home / start_up).parent.mkdir(parents=True, exist_ok=True)
        (box.home / start_up).write_text("echo 'Welcome to {the} box'\n")
    box.start()
    try:
        whole_way(cloudrun, box, "--backend", backend)
    finally:
        box.stop()


def test_an_account_that_may_not_log_in_is_said(tmp_path: Path, cloudrun: Laptop) -> None:
    box = shell_box(tmp_path / "nologin", "/usr/sbin/nologin").start()
    try:
        cloudrun.add(box)
        done = cloudrun.run("ps", code=Exit.AGENT)
        assert "ended before it came to our command; it said: This account is currently not available" in done.err
        assert "an account without a shell" in done.err
    finally:
        box.stop()
