"""What every transport promises, over a real sshd and on this machine."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloudrun.errors import CloudrunError
from cloudrun.transport import connect
from cloudrun.transport.base import Address, Channel, TerminalSize, Transport
from cloudrun.transport.running import run
from tests.support.connecting import address, options
from tests.support.sshd import SshBox
from tests.support.waiting import wait_for


@pytest.fixture(params=["ssh", "local"])
def transport(request: pytest.FixtureRequest, laptop: Path) -> Iterator[Transport]:
    where = address(request.getfixturevalue("box")) if request.param == "ssh" else Address("local")
    opened = connect(where, options(laptop))
    yield opened
    opened.close()


def read_all(channel: Channel, timeout_s: float = 10.0) -> bytes:
    whole = b""
    while data := channel.receive(timeout_s=timeout_s):
        whole += data
    return whole


def test_output_errors_and_exit_codes_are_told_apart(transport: Transport) -> None:
    finished = run(transport, "echo out; echo err >&2; exit 7")
    assert (finished.exit_code, finished.output, finished.errors) == (7, b"out\n", b"err\n")
    assert transport.counts.execs == 1
    assert transport.counts.connections == 1


def test_killed_by_a_signal_is_unknown_never_a_code(transport: Transport) -> None:
    assert run(transport, "kill -9 $$").exit_code is None


def test_ten_megabytes_on_each_stream_come_whole(transport: Transport) -> None:
    finished = run(transport, "(head -c 10000000 /dev/zero & head -c 10000000 /dev/zero >&2; wait)", timeout_s=30)
    assert (finished.exit_code, len(finished.output)) == (0, 10_000_000)
    assert len(finished.errors) == 16 * 1024  # a tail is kept of what may be long


def test_much_on_stderr_first_does_not_block_stdout(transport: Transport) -> None:
    assert run(transport, "head -c 4000000 /dev/zero >&2; echo done", timeout_s=20).output == b"done\n"


def test_a_child_that_holds_the_pipe_holds_up_nobody(transport: Transport) -> None:
    began = time.monotonic()
    finished = run(transport, "sleep 20 & echo $! started")
    assert finished.output.endswith(b" started\n")
    assert finished.exit_code == 0
    assert time.monotonic() - began < 5
    run(transport, f"kill {finished.output.split()[0].decode()}")


def test_every_wait_has_its_deadline(transport: Transport) -> None:
    channel = transport.exec("exec sleep 30")
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        channel.receive(timeout_s=0.2)
    with pytest.raises(TimeoutError):
        channel.receive(timeout_s=0)
    with pytest.raises(TimeoutError):
        channel.exit_status(0.2)
    with pytest.raises(TimeoutError):
        channel.send(b"x" * 20_000_000, 0.5)
    assert time.monotonic() - began < 5
    channel.close()


def test_input_reaches_the_command_whole_and_its_end_is_seen(transport: Transport) -> None:
    data = os.urandom(3_000_000)
    channel = transport.exec("cat")
    feeder = threading.Thread(target=lambda: (channel.send(data), channel.send_eof()), daemon=True)
    feeder.start()
    assert read_all(channel) == data
    feeder.join(5)
    assert channel.exit_status(5) == 0


def test_sending_to_a_command_that_has_ended_is_a_broken_pipe(transport: Transport) -> None:
    channel = transport.exec("exit 3")
    assert channel.exit_status(5) == 3
    assert channel.receive(timeout_s=5) == b""

    def sent() -> bool:
        try:
            channel.send(b"x" * 100_000, 2)
        except BrokenPipeError:
            return True
        return False

    wait_for(sent, 5)


def test_select_sees_all_there_is_to_read(transport: Transport) -> None:
    import select

    channel = transport.exec("printf 1234567890; read x; echo $x")
    watched = channel.fileno()
    assert watched is not None
    got = b""
    while len(got) < 10:
        assert select.select([watched], [], [], 5)[0]  # also while bytes of an earlier packet are left
        got += channel.receive(3, 1)
    assert got == b"1234567890"
    channel.send(b"more\n")
    assert select.select([watched], [], [], 5)[0]
    assert read_all(channel) == b"more\n"


def test_a_terminal_has_size_name_and_resizing(transport: Transport) -> None:
    command = "tty >/dev/null && stty size && echo $TERM; read x; echo got $x; stty size"
    channel = transport.exec(command, TerminalSize(100, 33), "vt100")
    seen = b""
    while b"vt100" not in seen:
        seen += channel.receive(timeout_s=5)
    assert b"33 100" in seen
    channel.resize(TerminalSize(60, 20))
    channel.send(b"words\n")
    seen = read_all(channel)
    assert b"got words" in seen
    assert b"20 60" in seen
    assert channel.exit_status(5) == 0


def test_ctrl_c_in_a_terminal_reaches_the_command(transport: Transport) -> None:
    channel = transport.exec("trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.1; done", TerminalSize(80, 24))
    assert b"ready" in channel.receive(timeout_s=5)
    channel.send(b"\x03")
    assert b"interrupted" in read_all(channel)
    assert channel.exit_status(5) == 9


def test_put_writes_whole_with_its_mode_over_the_old_one(transport: Transport, tmp_path: Path) -> None:
    target = tmp_path / "a b'$c"
    target.write_text("old")
    seen: list[int] = []
    transport.put(b"x" * 100_000, str(target), 0o640, seen.append)
    assert target.read_bytes() == b"x" * 100_000
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert seen[-1] == 100_000
    assert [entry.name for entry in tmp_path.iterdir() if ".part-" in entry.name] == []


def test_put_where_nothing_can_be_written_says_why(transport: Transport, tmp_path: Path) -> None:
    with pytest.raises(CloudrunError) as caught:
        transport.put(b"x", str(tmp_path / "no" / "folder"))
    assert caught.value.code == "put-failed"
    assert "o such file" in caught.value.message or "onexistent" in caught.value.message


# ------------------------------------------------------------------------------------------------- SSH alone


@pytest.mark.parametrize("sftp", ["", "/bin/false", "/bin/echo garbage in the way, and much of it", "/usr/bin/yes"])
def test_put_without_a_working_sftp_goes_through_a_command(tmp_path: Path, laptop: Path, sftp: str) -> None:
    box = SshBox(tmp_path / "box", sftp=sftp, path="/opt/conda/bin").start()  # and nothing but it
    try:
        transport = connect(address(box), options(laptop))
        transport.put(b"y" * 100_000, str(tmp_path / "it is $here"), 0o600)
        assert (tmp_path / "it is $here").read_bytes() == b"y" * 100_000
        assert stat.S_IMODE((tmp_path / "it is $here").stat().st_mode) == 0o600
        transport.close()
    finally:
        box.stop()


def test_more_sessions_than_the_server_allows_take_a_second_connection(tmp_path: Path, laptop: Path) -> None:
    box = SshBox(tmp_path / "box", settings="MaxSessions 1").start()
    try:
        transport = connect(address(box), options(laptop))
        first = transport.exec("read x; echo first $x")
        assert run(transport, "echo second").output == b"second\n"
        first.send(b"lives\n")
        assert read_all(first) == b"first lives\n"
        assert transport.counts.connections == 2
        transport.close()
    finally:
        box.stop()
