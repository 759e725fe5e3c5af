"""Whether packages can be installed: a lock that another process really holds, and every way that it cannot be done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from remote_agent.checks import installing
from remote_agent.checks.installing import Found

HOLD = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"


def test_who_holds_the_lock_is_asked_without_taking_it(tmp_path: Path) -> None:
    free, lock, missing = tmp_path / "free", tmp_path / "lock", tmp_path / "missing"
    for path in (free, lock):
        path.touch()
    assert installing.holder([str(free), str(lock), str(missing)]) is None
    holding = subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holding.stdout is not None
        assert holding.stdout.readline() == b"held\n"
        said = installing.holder([str(missing), str(free), str(lock)])
        assert said is not None
        assert said.endswith(f" (pid {holding.pid})")
        assert said.startswith("python")
    finally:
        holding.communicate(timeout=10)
    assert installing.holder([str(lock)]) is None


def test_dpkg_that_was_cut_off(tmp_path: Path) -> None:
    (tmp_path / "tmp.i").touch()
    assert not installing.interrupted(str(tmp_path))
    assert not installing.interrupted(str(tmp_path / "none"))
    (tmp_path / "0003").touch()
    assert installing.interrupted(str(tmp_path))


@pytest.mark.parametrize(("found", "code", "status", "unneeded"), [
    (Found("apt-get", "root", None, False, False), "packages-root", "ok", "ok"),
    (Found("dnf", "sudo", None, False, False), "packages-sudo", "ok", "ok"),
    (Found(None, None, None, False, True), "packages-no-manager", "warning", "ok"),
    (Found("apt-get", None, None, False, True), "packages-needs-root", "warning", "ok"),
    (Found("apt-get", "root", "unattended-upgr (pid 7)", False, True), "packages-locked", "warning", "ok"),
    (Found("apt-get", "root", None, True, False), "packages-interrupted", "warning", "warning"),
])
def test_a_warning_where_a_launch_would_need_it(found: Found, code: str, status: str, unneeded: str) -> None:
    line = installing.judge(found)
    assert (line.found, line.status) == (code, status)
    assert (line.hint == code) == (status == "warning")
    without_need = installing.judge(Found(found.manager, found.way, found.holder, found.interrupted, needed=False))
    assert without_need.status == unneeded
