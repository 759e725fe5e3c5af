"""A link that is cut, a box that is frozen, a box that is only starting up, and what is no SSH at all."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloudrun.errors import CloudrunError
from cloudrun.transport import connect
from cloudrun.transport.base import Address
from tests.support.cli import Laptop
from tests.support.connecting import address, options
from tests.support.cutting import Cutting
from tests.support.sshd import SshBox, free_port, program
from tests.support.waiting import wait_for


@pytest.fixture
def frozen(box: SshBox) -> Iterator[Callable[[], None]]:
    """Stops the server's processes of all connections, as a box does whose host machine hangs."""
    stopped: list[int] = []

    def freeze() -> None:
        for pid in box.connections():
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)

    yield freeze
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)


def test_a_frozen_box_is_noticed_in_time_at_every_wait(box: SshBox, laptop: Path, frozen: Callable[[], None]) -> None:
    transport = connect(address(box), options(laptop, dead_after_s=2.0))
    reading, writing = transport.exec("exec sleep 60"), transport.exec("exec cat >/dev/null")
    frozen()
    began = time.monotonic()
    ends: list[str] = []

    def wait_for_status() -> None:
        ends.append(str(reading.exit_status(20)))

    def write() -> None:
        try:
            for _ in range(100):
                writing.send(b"x" * 1_000_000, 20)
        except CloudrunError as error:
            ends.append(error.code)

    waiters = [threading.Thread(target=wait_for_status, daemon=True), threading.Thread(target=write, daemon=True)]
    for waiter in waiters:
        waiter.start()
    with pytest.raises(CloudrunError) as caught:
        reading.receive(timeout_s=20)
    for waiter in waiters:
        waiter.join(5)
    assert caught.value.code == "connection-lost"
    assert sorted(ends) == ["None", "connection-lost"]
    assert 1.0 < time.monotonic() - began < 8.0
    closing = time.monotonic()
    transport.close()
    assert time.monotonic() - closing < 2.0


def test_a_quiet_box_that_answers_is_not_dead(box: SshBox, laptop: Path) -> None:
    transport = connect(address(box), options(laptop, dead_after_s=0.6))
    channel = transport.exec("read x; echo $x")
    with pytest.raises(TimeoutError):
        channel.receive(timeout_s=1.6)
    channel.send(b"here\n")
    assert channel.receive(timeout_s=5) == b"here\n"
    transport.close()


def test_a_cut_link_is_not_the_commands_end(box: SshBox, laptop: Path) -> None:
    transport = connect(address(box), options(laptop))
    channel = transport.exec("echo begun; sleep 60")
    assert channel.receive(timeout_s=5) == b"begun\n"
    box.drop_connections()
    with pytest.raises(CloudrunError) as caught:
        channel.receive(timeout_s=10)
    assert caught.value.code == "connection-lost"
    assert channel.exit_status(5) is None
    with pytest.raises(CloudrunError):
        transport.exec("true")
    transport.close()


SCRIPT = """\
import sys
from pathlib import Path
from cloudrun.transport import connect
from tests.support.connecting import options
from cloudrun.transport.base import Address
transport = connect(Address("127.0.0.1", int(sys.argv[1]), sys.argv[2], (Path(sys.argv[3]),)), options(Path(sys.argv[4])))
channel = transport.exec("echo begun; sleep 60")
print(channel.receive(timeout_s=5).decode().strip(), flush=True)
channel.receive(timeout_s=60)
"""


@pytest.mark.parametrize("freeze", [False, True])
def test_ctrl_c_works_while_waiting_also_on_a_frozen_box(
    box: SshBox, laptop: Path, frozen: Callable[[], None], freeze: bool
) -> None:
    words = [sys.executable, "-c", SCRIPT, str(box.port), box.user, str(box.key), str(laptop)]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2])
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"begun\n"
        if freeze:
            frozen()
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        _out, errors = child.communicate(timeout=10)
        assert time.monotonic() - began < 3
        assert b"KeyboardInterrupt" in errors
        assert b"paramiko" not in errors.split(b"KeyboardInterrupt")[0].lower().replace(b"site-packages/paramiko", b"")
    finally:
        child.kill()


# ------------------------------------------------------------------------------------- not ready, not SSH


@contextmanager
def listener(port: int, answer: bytes, times: int) -> Iterator[list[int]]:
    """Accepts, sends `answer`, closes, `times` times; then gives the port free. Yields a list that grows with each caller."""
    served: list[int] = []
    stop = threading.Event()
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen(8)
    server.settimeout(0.1)

    def serve() -> None:
        while not stop.is_set() and len(served) < times:
            try:
                caller, _address = server.accept()
            except TimeoutError:
                continue
            with caller:
                caller.sendall(answer)
                served.append(port)
        server.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        stop.set()
        thread.join(5)


def test_a_box_that_is_starting_up_is_waited_for(box: SshBox, laptop: Path) -> None:
    said: list[str] = []
    assert box.process is not None
    box.process.terminate()
    box.process.wait(5)
    with listener(box.port, b"", 2) as served:
        opening: list[object] = []
        wanted = options(laptop, connect_timeout_s=20.0, say=said.append)
        waiter = threading.Thread(target=lambda: opening.append(connect(address(box), wanted)), daemon=True)
        waiter.start()
        wait_for(lambda: len(served) == 2, 10)
    box.start()
    waiter.join(15)
    assert opening
    assert len(said) == 1  # one quiet line, not one for each try
    opening[0].close()  # type: ignore[attr-defined]


def test_a_greeting_that_comes_late_is_waited_for(box: SshBox, laptop: Path) -> None:
    """A port that is open long before the server behind it speaks: a provider's gateway to a box that boots."""
    listening = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def gateway() -> None:
        caller, _from = listening.accept()
        held.append(caller)
        time.sleep(1.5)  # what the box takes to boot
        inner = socket.create_connection(("127.0.0.1", box.port))
        held.append(inner)
        for source, goal in ((caller, inner), (inner, caller)):
            threading.Thread(target=pour, args=(source, goal), daemon=True).start()

    def pour(source: socket.socket, goal: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                goal.sendall(data)

    threading.Thread(target=gateway, daemon=True).start()
    try:
        where = Address("127.0.0.1", listening.getsockname()[1], box.user, (box.key,))
        connect(where, options(laptop, connect_timeout_s=15.0)).close()
    finally:
        for one in (listening, *held):
            one.close()


def test_how_long_a_box_is_waited_for_can_be_said_anywhere_in_the_line(cloudrun: Laptop) -> None:
    cloudrun.run("host", "add", "box", f"ssh -p {free_port()} root@127.0.0.1", "--no-connect")
    for words in (("ps", "--connect-timeout", "0.5"), ("--connect-timeout=0.5", "ps")):
        began = time.monotonic()
        assert cloudrun.json(*words, code=10)["error"]["code"] == "unreachable"
        assert time.monotonic() - began < 3
    assert "takes seconds" in cloudrun.run("ps", "--connect-timeout", "soon", code=2).err


def test_the_connect_timeout_of_the_ssh_configuration_counts(
    cloudrun: Laptop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(f"Host away\n  HostName 127.0.0.1\n  Port {free_port()}\n  ConnectTimeout 1\n")
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec {program("ssh")} -F {tmp_path}/config "$@"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    cloudrun.run("host", "add", "box", "ssh away", "--no-connect")
    began = time.monotonic()
    assert cloudrun.json("ps", code=10)["error"]["code"] == "unreachable"
    assert time.monotonic() - began < 6  # not the twenty seconds that we would wait by ourselves


def test_the_ssh_configuration_may_want_to_know_sooner(box: SshBox, laptop: Path, frozen: Callable[[], None]) -> None:
    transport = connect(address(box, alive_s=1.5), options(laptop))
    channel = transport.exec("exec sleep 60")
    frozen()
    began = time.monotonic()
    with pytest.raises(CloudrunError) as caught:
        channel.receive(timeout_s=20)
    assert caught.value.code == "connection-lost"
    assert time.monotonic() - began < 6
    transport.close()


@pytest.mark.campaign
def test_a_peer_that_vanishes_is_noticed_within_fifteen_seconds(box: SshBox, laptop: Path) -> None:
    with Cutting(box.port) as link:
        link.manner = "silent"
        gone = threading.Event()
        link.plans.append(lambda _way, _passed: 0 if gone.is_set() else None)
        transport = connect(address(box, port=link.port), options(laptop))
        channel = transport.exec("exec sleep 60")
        gone.set()
        began = time.monotonic()
        with pytest.raises(CloudrunError):
            channel.receive(timeout_s=40)
        took_s = time.monotonic() - began
        transport.close()
    print(f"a peer that vanished was noticed after {took_s:.1f} s")
    assert took_s < 16.0  # fifteen, and what a loaded machine adds


def test_a_box_that_stays_away_is_named_when_the_time_is_over(laptop: Path) -> None:
    port = free_port()
    began = time.monotonic()
    with pytest.raises(CloudrunError) as caught:
        connect(Address("127.0.0.1", port, "root"), options(laptop, connect_timeout_s=1.0))
    assert caught.value.code == "unreachable"
    assert f"root@127.0.0.1:{port}" in caught.value.message
    assert "switched off and on" in caught.value.hint
    assert time.monotonic() - began < 4


def test_text_that_is_not_ssh_is_shown_at_once(laptop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    with listener(port, b"HTTP/1.1 400 Bad Request\x1b[31m\r\n\r\n" + b"z" * 200, 5) as served:
        with pytest.raises(CloudrunError) as caught:
            connect(Address("127.0.0.1", port, "root"), options(laptop, connect_timeout_s=10.0))
        assert len(served) == 1  # no second try
    assert caught.value.code == "not-ssh"
    shown = caught.value.params["text"]
    assert shown.startswith("HTTP/1.1 400 Bad Request")
    assert len(shown) <= 60
    assert shown.isprintable()
    assert capfd.readouterr().err == ""  # paramiko's threads say nothing over the user's screen


def test_a_name_that_does_not_exist_is_not_tried_twice(laptop: Path) -> None:
    began = time.monotonic()
    with pytest.raises(CloudrunError) as caught:
        connect(Address("no-such-box.invalid", 22, "root"), options(laptop, connect_timeout_s=15.0))
    assert caught.value.code == "host-name-unknown"
    assert time.monotonic() - began < 10
