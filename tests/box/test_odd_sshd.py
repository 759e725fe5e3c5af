"""Servers that allow little: one session, no terminal, one command, no files; and file transfer that is broken in every way."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cloudrun.errors import Exit
from tests.box.test_host_commands import on_a_terminal
from tests.box.test_odd_shells import whole_way
from tests.support.cli import Laptop
from tests.support.sshd import SshBox


@pytest.mark.parametrize("sftp", ["/no/such/program", "/bin/sleep 100", "/bin/cat"])
def test_files_travel_where_sftp_is_missing_hangs_or_talks_nonsense(tmp_path: Path, cloudrun: Laptop, sftp: str) -> None:
    (cloudrun.project / "data.bin").write_bytes(bytes(range(256)) * 4000)
    box = SshBox(tmp_path / "box", sftp=sftp).start()
    try:
        began = time.monotonic()
        cloudrun.add(box)
        cloudrun.json("launch", "exp", "--wait", "0.2", "--backend", "detached", "--", "sleep", "60")
        assert time.monotonic() - began < 20  # one look at SFTP, however often files travel
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
        assert "Please use the web console." in done.err
    finally:
        box.stop()


def test_a_server_without_terminals_runs_trainings_and_attach_says_so(tmp_path: Path, cloudrun: Laptop, laptop: Path) -> None:
    box = SshBox(tmp_path / "box", settings="PermitTTY no").start()
    try:
        whole_way(cloudrun, box)
        cloudrun.json("launch", "exp", "--wait", "0.2", "--", "sleep", "60")
        screen, code = on_a_terminal(laptop, ["attach", "exp"], [])
        assert code not in (0, None)
        assert "PermitTTY" in screen
        assert "logs -f" in screen
    finally:
        box.stop()


def test_a_full_server_is_waited_for(tmp_path: Path, cloudrun: Laptop) -> None:
    """MaxStartups: more logins are under way than it allows."""
    import socket

    box = SshBox(tmp_path / "box", settings="MaxStartups 2:100:2").start()
    waiting = [socket.create_connection(("127.0.0.1", box.port)) for _number in range(2)]
    try:
        cloudrun.know(box)
        assert {one.recv(4) for one in waiting} == {b"SSH-"}  # it counts them by now
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
