"""Installing a session program: package managers that lock, ask, lie and hang. The real ones are never reached: PATH is ours."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from remote_agent import packages
from remote_agent.protocol import AgentError
from tests.support.programs import fake_program

LOCKED = """\
echo 'E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1719 (unattended-upgr)' >&2
echo 'E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?' >&2; exit 100
"""


@dataclass
class Box:
    """A folder that is the whole PATH, what was called there, and what was said."""

    folder: Path
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    now_s: float = 0.0
    is_root: bool = True

    def manager(self, body: str, name: str = "apt-get") -> None:
        """`$put NAME` makes a program appear. Every call is written down."""
        here = self.folder
        put = f"put() {{ printf '#!/bin/sh\\n' >{here}/$1; /bin/chmod 755 {here}/$1; }}\n"
        fake_program(here, name, f'echo "{name} $*" >>{here}/calls\n{put}{body}')

    def install(self, program: str = "screen", deadline_s: float = 60.0) -> str:
        means = packages.Means(is_root=lambda: self.is_root, clock=lambda: time.monotonic() + self.now_s, sleep=self.sleep)
        return packages.install(program, lambda kind, **params: self.events.append((kind, params)), deadline_s, means)

    def refused(self, **arguments: Any) -> AgentError:
        with pytest.raises(AgentError) as refused:
            self.install(**arguments)
        return refused.value

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events if kind != "working"]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    monkeypatch.setenv("PATH", str(tmp_path))
    return Box(tmp_path)


def test_what_is_there_is_not_installed(own: Box) -> None:
    own.manager("put screen")
    fake_program(own.folder, "screen", "")
    assert own.install() == str(own.folder / "screen")
    assert own.events == []
    assert not (own.folder / "calls").exists()


def test_apt_waits_for_the_lock_when_it_is_told_to(own: Box) -> None:
    own.manager('case "$*" in *DPkg::Lock::Timeout*install*screen*) put screen; exit 0;; esac\n' + LOCKED)
    assert own.install() == str(own.folder / "screen")
    assert len(own.calls) == 1  # no index update before it is needed
    assert own.calls[0].startswith("apt-get -y --no-install-recommends ")
    assert own.kinds == ["installing"]


def test_an_old_apt_that_knows_no_waiting_is_asked_again(own: Box) -> None:
    own.manager(f'if [ "$(/usr/bin/wc -l <{own.folder}/calls)" -gt 3 ]; then put screen; exit 0; fi\n' + LOCKED)
    assert own.install() == str(own.folder / "screen")
    assert len(own.calls) == 4
    assert own.kinds == ["installing", "waiting-for-lock", "waiting-for-lock", "waiting-for-lock"]
    left = [params["left_s"] for kind, params in own.events if kind == "waiting-for-lock"]
    assert left == sorted(left, reverse=True)
    assert left[0] > left[-1]  # a countdown
    assert own.events[1][1]["holder"] == "unattended-upgr (pid 1719)"


def test_a_lock_that_is_never_given_back_ends_at_the_deadline(own: Box) -> None:
    own.manager(LOCKED)
    error = own.refused(deadline_s=30)
    assert (error.code, error.params["holder"]) == ("install-locked", "unattended-upgr (pid 1719)")
    assert 5 <= len(own.calls) <= 11
    assert not any("rm" in call or "kill" in call for call in own.calls)


def test_the_countdown_is_seen_while_apt_itself_waits(own: Box) -> None:
    waiting = "Waiting for cache lock: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)... 0s"
    own.manager(f"printf '{waiting}' >&2\n/bin/sleep 0.6\nput screen\n")
    own.install()
    (kind, params) = own.events[1]
    assert (kind, params["holder"]) == ("waiting-for-lock", "apt (pid 7)")
    assert 50 < params["left_s"] < 60


def test_no_question_is_ever_asked(own: Box) -> None:
    own.manager('[ "$DEBIAN_FRONTEND" = noninteractive ] || { printf "Geographic area: "; read x; }\n'
                'if read -r x; then exit 9; fi\nput screen\n')  # stdin is at its end
    assert own.install(deadline_s=10) == str(own.folder / "screen")


@pytest.mark.parametrize("program", ["screen", "tmux"])
def test_an_exit_code_of_failure_is_not_believed_when_the_program_is_there(own: Box, program: str) -> None:
    own.manager(f"put {program}\necho 'E: Sub-process /usr/bin/dpkg returned an error code (1)' >&2\nexit 100\n")
    assert own.install(program) == str(own.folder / program)
    assert len(own.calls) == 1


def test_an_exit_code_of_success_is_not_believed_when_it_is_not(own: Box) -> None:
    own.manager("echo 'E: Unable to locate package screen' >&2; exit 0")
    error = own.refused()
    assert error.code == "install-failed"
    assert [call.split()[-1] for call in own.calls] == ["screen", "update", "screen"]
    assert "apt-get" in error.params["tried"]
    assert "update" in error.params["tried"]
    assert error.params["output"] == "E: Unable to locate package screen"


def test_the_index_is_updated_only_after_a_first_try(own: Box) -> None:
    own.manager(f'case "$*" in *update) echo >{own.folder}/index;; *install*) [ -e {own.folder}/index ] && put screen;; esac\n')
    assert own.install() == str(own.folder / "screen")
    assert own.kinds == ["installing", "updating-index"]
    assert [call.split()[-1] for call in own.calls] == ["screen", "update", "screen"]


def test_a_manager_that_hangs_costs_the_deadline(own: Box) -> None:
    own.manager("echo 'Connecting to mirror'; exec /bin/sleep 60")
    began = time.monotonic()
    error = own.refused(deadline_s=0.8)
    assert time.monotonic() - began < 3
    assert (error.code, error.params["output"]) == ("install-timeout", "Connecting to mirror")


@pytest.mark.parametrize("name", ["yum", "dnf"])
def test_the_red_hat_family(own: Box, name: str) -> None:
    index = own.folder / "index"
    own.manager(f'case "$*" in "-y makecache") echo >{index};; "-y install tmux") [ -e {index} ] && put tmux;; esac\n', name)
    assert own.install("tmux") == str(own.folder / "tmux")
    assert own.calls == [f"{name} -y install tmux", f"{name} -y makecache", f"{name} -y install tmux"]


@pytest.mark.parametrize(("name", "install", "update", "by_hand"), [
    ("apk", "add --no-progress screen", "update", "apk add screen"),
    ("zypper", "--non-interactive install screen", "--non-interactive refresh", "zypper --non-interactive install screen"),
    ("microdnf", "-y install screen", "-y makecache", "microdnf -y install screen"),
])
def test_other_families(own: Box, name: str, install: str, update: str, by_hand: str) -> None:
    own.manager("echo 'no such package'; exit 1", name)
    error = own.refused()
    assert (error.code, error.params["command"]) == ("install-failed", by_hand)
    assert own.calls == [f"{name} {install}", f"{name} {update}", f"{name} {install}"]


@pytest.mark.parametrize(("said", "code"), [
    ("E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.", "install-interrupted"),
    ("W: Failed to fetch http://a/b  Temporary failure resolving 'a'", "install-unreachable"),
    ("Could not resolve host: mirrors.a; Cannot find a valid baseurl for repo: base/7", "install-unreachable"),
    ("E: Version '4.9' for 'screen' was not found", "install-failed"),
])
def test_why_it_could_not_be_is_told_apart(own: Box, said: str, code: str) -> None:
    """The reason may stand in the index update's words, and the last ones say only "Unable to locate package"."""
    own.manager(f'case "$*" in *update) echo "{said}" >&2;; *) echo "E: Unable to locate package screen" >&2; exit 100;; esac\n')
    error = own.refused()
    assert error.code == code
    assert len(own.calls) == 3
    assert (said in error.params["output"]) == (code == "install-unreachable")


def test_an_old_apt_that_names_nobody_is_asked_by_the_lock_itself(own: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = own.folder / "lock"
    lock.touch()
    monkeypatch.setattr(packages.dpkg.holder, "__defaults__", ((str(lock),),))
    own.manager("echo 'E: Could not get lock /var/lib/dpkg/lock - open (11: Resource temporarily unavailable)' >&2; exit 100")
    hold = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    holding = subprocess.Popen([sys.executable, "-c", hold, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holding.stdout is not None
        holding.stdout.readline()
        error = own.refused(deadline_s=8)
        assert error.code == "install-locked"
        assert error.params["holder"].endswith(f" (pid {holding.pid})")
    finally:
        holding.communicate(timeout=10)


def test_no_manager(own: Box) -> None:
    assert own.refused().code == "install-no-manager"


def test_without_root_only_a_sudo_that_asks_no_password(own: Box) -> None:
    own.is_root = False
    own.manager('[ "$DEBIAN_FRONTEND" = noninteractive ] && put screen\n')
    assert own.refused().code == "install-needs-root"
    fake_program(own.folder, "sudo", "echo 'sudo: a password is required' >&2; exit 1")
    asked = own.refused()
    assert (asked.code, asked.params["command"]) == ("install-sudo-password", "apt-get -y install screen")
    (own.folder / "timeout").symlink_to("/usr/bin/timeout")
    # Like the real one it clears the environment, except for PATH.
    clean = f"/usr/bin/env -i PATH={own.folder}:/usr/bin:/bin"
    fake_program(own.folder, "sudo", f'[ "$1" = -n ] || exit 1\nshift\nexec {clean} "$@"\n')
    assert own.install() == str(own.folder / "screen")
