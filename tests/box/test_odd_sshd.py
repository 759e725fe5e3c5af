"""Servers that allow little: one session, no terminal, one command, no files; and file transfer that is broken in every way."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from cloudrun.errors import Exit
from cloudrun.transport.sftp import VERSION_TIMEOUT_S
from tests.box.test_host_commands import on_a_terminal
from tests.support.cli import Laptop
from tests.support.sshd import SshBox
from tests.support.waiting import wait_for


@pytest.mark.parametrize("sftp", ["/no/such/program", "/bin/sleep 100", "/bin/cat"])
def test_files_travel_where_sftp_is_missing_hangs_or_talks_nonsense(
    tmp_path: Path, cloudrun: Laptop, sftp: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert VERSION_TIMEOUT_S <= 5
    monkeypatch.setattr("cloudrun.transport.sftp.VERSION_TIMEOUT_S", 1.0)
    (cloudrun.project / "data.bin").write_bytes(bytes(range(256)) * 4000)
    box = SshBox(tmp_path / "box", sftp=sftp).start()
    try:
        began = time.monotonic()
        cloudrun.add(box)
        cloudrun.json("launch", "exp", "--wait", "0.2", "--backend", "detached", "--", "sleep", "60")
        assert time.monotonic() - began < 10  # one look at SFTP, however often files travel
        (arrived,) = (box.home / "cloudrun").rglob("data.bin")
        assert arrived.read_bytes() == bytes(range(256)) * 4000
    finally:
        box.stop()


def test_one_session_at_a_time_is_enough(tmp_path: Path, cloudrun: Laptop) -> None:
    box = SshBox(tmp_path / "box", settings="MaxSessions 1").start()
    try:
        cloudrun.add(box)
        cloudrun.json("launch", "exp", "--wait", "0.2", "--", "sh", "-c", "while :; do echo tick; sleep 0.1; done")
        follower = cloudrun.start("logs", "exp", "-f")
        assert follower.stdout is not None
        assert follower.stdout.readline()
        cloudrun.run("stop", "exp", "--grace", "2")
        _out, _err = follower.communicate(timeout=20)
        assert follower.returncode == Exit.RUN_FAILED
    finally:
        box.stop()


def test_no_session_at_all_is_said(tmp_path: Path, cloudrun: Laptop) -> None:
    box = SshBox(tmp_path / "box", settings="MaxSessions 0").start()
    try:
        cloudrun.add(box)
        done = cloudrun.run("ps", code=Exit.UNREACHABLE)
        assert "MaxSessions" in done.err
    finally:
        box.stop()


def test_a_server_that_runs_one_command_only_is_said(tmp_path: Path, cloudrun: Laptop) -> None:
    box = SshBox(tmp_path / "box", settings="ForceCommand echo Please use the web console.").start()
    try:
        cloudrun.add(box)
        done = cloudrun.run("ps", code=Exit.AGENT)
        assert "ended before it came to our command; it said: Please use the web console." in done.err
        assert "ForceCommand" in done.err
    finally:
        box.stop()


def test_a_server_without_terminals_runs_trainings_and_attach_says_so(tmp_path: Path, cloudrun: Laptop, laptop: Path) -> None:
    box = SshBox(tmp_path / "box", settings="PermitTTY no").start()
    try:
        cloudrun.know(box)
        cloudrun.json("launch", "exp", "--wait", "0.2", "--", "sleep", "60")
        screen, code = on_a_terminal(laptop, ["attach", "exp"], [])
        assert code not in (0, None)
        assert "PermitTTY" in screen
        assert "logs -f" in screen
        cloudrun.run("stop", "exp", "--grace", "2")
    finally:
        box.stop()


def test_a_full_server_is_waited_for(tmp_path: Path, cloudrun: Laptop) -> None:
    """MaxStartups: more logins are under way than it allows."""
    box = SshBox(tmp_path / "box", settings="MaxStartups 2:100:2").start()
    waiting: list[socket.socket] = []
    try:
        cloudrun.know(box)
        while len(waiting) < 2:
            waiting.append(wait_for(lambda: _begun_login(box.port), what="the server takes one more"))
        asking = cloudrun.start("ps", "--json")
        assert asking.stderr is not None
        assert b"waiting for" in asking.stderr.readline()  # why, the server says only to who listens before it hangs up
        for one in waiting:
            one.close()
        asking.communicate(timeout=30)
        assert asking.returncode == 0
    finally:
        for one in waiting:
            one.close()
        box.stop()


def _begun_login(port: int) -> socket.socket | None:
    """A login that stays at its beginning; None where the server is still busy with an earlier one."""
    begun = socket.create_connection(("127.0.0.1", port), timeout=5)
    if begun.recv(4) == b"SSH-":
        return begun
    begun.close()
    return None
