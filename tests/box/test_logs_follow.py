"""Following over a real sshd: the connection is cut anywhere, the bytes are those of the file."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cloudrun.agent.client import AgentClient
from cloudrun.app.logs import Data, Ended, Link, Patience, Reconnected, Started, Unreachable, read_log
from cloudrun.errors import CloudrunError
from cloudrun.transport.base import Channel, Transport
from remote_agent.protocol import FollowRequest
from tests.support.cli import Laptop
from tests.support.dialling import Dialler
from tests.support.sshd import SshBox
from tests.support.waiting import wait_for
from tests.support.writtenrun import WrittenRun

AT_ONCE = Patience(sleep=lambda _seconds: None)


@pytest.fixture
def dial(laptop: Path) -> Iterator[Dialler]:
    dialler = Dialler(laptop)
    yield dialler
    dialler.close()


@pytest.fixture
def run(box: SshBox) -> Iterator[WrittenRun]:
    run = WrittenRun(box.data, limit_bytes=4 << 20)
    yield run
    run.close()


class Fragile:
    """A channel that is cut after so many bytes: the server's process for the connection is killed in the middle of a word."""

    def __init__(self, channel: Channel, box: SshBox, dies_after: int) -> None:
        self._channel = channel
        self._box = box
        self._left = dies_after

    def receive(self, max_bytes: int = 65536, timeout_s: float | None = None) -> bytes:
        data = self._channel.receive(min(max_bytes, max(1, self._left)), timeout_s)
        self._left -= len(data)
        if self._left == 0:
            self._box.drop_connections()
        if self._left < 0:
            raise CloudrunError("connection-lost", host="box")
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


class FragileTransport:
    """A real connection whose first command is read through a `Fragile`."""

    def __init__(self, transport: Transport, box: SshBox, dies_after: int) -> None:
        self._transport = transport
        self._box = box
        self._dies_after = dies_after

    def exec(self, command: str) -> Any:
        return Fragile(self._transport.exec(command), self._box, self._dies_after)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def test_cut_at_any_byte_the_output_is_that_of_the_file(box: SshBox, dial: Dialler, run: WrittenRun) -> None:
    AgentClient.open(dial(box), None).close()
    chance = random.Random(7)
    deaths = [400, 401] + [chance.randrange(300, 120_000) for _ in range(6)]  # the first ones in hello and run frame

    def connect() -> Transport:
        transport = dial(box)
        # The first connection's failure is an error at once: it lives long enough to be the second one's.
        return FragileTransport(transport, box, deaths.pop(0) if len(dial.opened) > 2 and deaths else 30_000 + len(dial.opened))

    def write() -> None:
        for piece in range(60):
            run.write(random.Random(piece).randbytes(20_000))
            if piece == 30:
                run.next_attempt()
        run.end("failed", 1, "exception")

    writer = threading.Thread(target=write)
    seen: dict[int, bytearray] = {}
    reconnected = 0
    writer.start()
    for event in read_log(Link(connect), FollowRequest(str(box.data), run.name, attempt=1, follow=True), AT_ONCE):
        if isinstance(event, Data):
            assert event.offset == len(seen.setdefault(event.attempt, bytearray()))
            seen[event.attempt] += event.data
        reconnected += isinstance(event, Reconnected)
        if not deaths and isinstance(event, Reconnected):
            deaths.extend([1 << 40] * 99)  # enough cuts: the rest goes through
    writer.join()
    assert seen == run.truth
    assert len(dial.opened) >= 10  # eight deaths, of which those in the first words count as no connection
    assert reconnected >= 6
    assert event == Ended("failed", "exception", 1, None, 2)


def test_the_first_connection_that_fails_is_an_error_and_later_ones_are_not(box: SshBox, dial: Dialler, run: WrittenRun) -> None:
    AgentClient.open(dial(box), None).close()
    request = FollowRequest(data_dir=str(box.data), name=run.name, follow=True, tail_lines=0)

    def refused() -> Transport:
        raise CloudrunError("unreachable", host="box")

    with pytest.raises(CloudrunError, match="box"):
        list(read_log(Link(refused), request, AT_ONCE))

    now, waited = [0.0], []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        now[0] += seconds

    ways: list[Callable[[], Transport]] = [lambda: dial(box), *[refused] * 12, lambda: dial(box)]
    events = read_log(Link(lambda: ways.pop(0)()), request, Patience(lambda: now[0], sleep, lambda: 1.0))
    assert isinstance(next(events), Started)
    run.write(b"told before\n")
    told = next(events)
    assert isinstance(told, Data)
    box.drop_connections()
    run.write(b"written while nobody listened\n")
    assert isinstance(next(events), Unreachable)
    assert isinstance(next(events), Reconnected)
    assert waited == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8] + [15.0] * 6
    assert next(events) == Data(1, 12, b"written while nobody listened\n")
    run.end()
    assert list(events) == [Ended("succeeded", None, 0, None, 1)]


@pytest.mark.parametrize("code", ["login-refused", "host-key-changed", "agent-no-python"])
def test_what_another_try_would_meet_again_ends_the_following(box: SshBox, dial: Dialler, run: WrittenRun, code: str) -> None:
    def refused() -> Transport:
        raise CloudrunError(code)

    ways: list[Callable[[], Transport]] = [lambda: dial(box), refused]
    request = FollowRequest(data_dir=str(box.data), name=run.name, follow=True)
    events = read_log(Link(lambda: ways.pop(0)()), request, AT_ONCE)
    assert isinstance(next(events), Started)
    box.drop_connections()
    with pytest.raises(CloudrunError) as caught:
        next(events)
    assert caught.value.code == code


# ------------------------------------------------------------------------------------------- the command


@pytest.fixture
def way(box: SshBox, cloudrun: Laptop) -> Laptop:
    cloudrun.know(box)
    return cloudrun


def test_the_command_follows_to_the_end_through_a_cut(way: Laptop, box: SshBox, run: WrittenRun) -> None:
    run.write(b"".join(b"line %d\n" % number for number in range(50)))
    follower = way.start("logs", "-f", "-n", "3")
    assert follower.stdout is not None
    assert follower.stderr is not None
    assert [follower.stdout.readline() for _ in range(3)] == [b"line 47\n", b"line 48\n", b"line 49\n"]
    box.drop_connections()
    run.write(b" 10%\r 90%\r100%\n\xff\x00end\n")
    run.end("failed", 7, "exception")
    out, err = follower.communicate(timeout=30)
    assert out == "100%\n\ufffdend\n".encode()
    assert follower.returncode == 3
    talk = err.decode().splitlines()
    assert talk[0] == f"run: {run.name} (running)"
    assert talk[1].startswith("reconnected after ")
    assert talk[2:] == [f"{run.name} failed: ended by an exception (exit 7) (attempt 1)"]


def test_json_raw_grep_and_attempts(way: Laptop, run: WrittenRun) -> None:
    run.write(b"one\xff\n\x1b[31mred\x1b[0m\n")
    run.next_attempt()
    run.write(b"two\n")
    lines = [{"attempt": 1, "offset": 0, "line": "one\ufffd"}, {"attempt": 1, "offset": 5, "line": "red"},
             {"attempt": 2, "offset": 0, "line": "two"}]
    assert way.json("logs", run.name) == {"run": run.name, "host": "box", "attempt": 2, "state": "running", "exit_code": None,
                                          "signal": None, "lines": lines}
    assert way.run("logs", run.name, "--grep", "^re").out == "red\n"
    assert way.run("logs", run.name, "--attempt", "1", "-n", "1").out == "red\n"
    raw = way.start("logs", run.name, "--raw")
    assert raw.communicate(timeout=30)[0] == bytes(run.truth[1] + run.truth[2])
    run.end()
    following = way.run("logs", "-f", "--json", run.name).out.splitlines()
    assert [json.loads(line) for line in following] == [*lines, {"state": "succeeded", "exit_code": 0, "signal": None}]
    assert way.json("logs", run.name, "--grep", "(", code=2)["error"]["code"] == "bad-pattern"
    assert way.json("logs", "nosuch", code=4)["error"]["code"] == "no-such-run"


def test_grep_searches_the_whole_log(way: Laptop, run: WrittenRun) -> None:
    filler = b"x" * 99 + b"\n"
    run.write(b"loss 1 begin\n" + filler * 40_000)  # 4 MB: more than the lines and the frames of a tail
    run.next_attempt()
    run.write(b"loss 2\nloss 3\n" + filler * 300)
    assert way.run("logs", run.name, "--grep", "loss").out == "loss 1 begin\nloss 2\nloss 3\n"
    assert way.run("logs", run.name, "--grep", "loss", "-n", "2").out == "loss 2\nloss 3\n"
    assert way.run("logs", run.name, "--grep", "loss", "--attempt", "1").out == "loss 1 begin\n"
    assert [line["line"] for line in way.json("logs", run.name, "--grep", "loss", "-n", "1")["lines"]] == ["loss 3"]
    nothing = way.run("logs", run.name, "--grep", "NaN")
    assert (nothing.out, nothing.err.splitlines()[-1]) == ("", f"no line of {run.name} matches")
    following = way.start("logs", "-f", run.name, "--grep", "loss", "-n", "1")
    try:
        assert following.stdout is not None
        assert following.stdout.readline() == b"loss 3\n"  # before the end: what comes now is not held back
        run.write(b"loss 4\n")
        assert following.stdout.readline() == b"loss 4\n"
        run.end()
        assert following.wait(30) == 0
    finally:
        following.kill()
        following.communicate()


def test_ctrl_c_and_a_reader_that_has_enough_leave_at_once(way: Laptop, run: WrittenRun) -> None:
    run.write(b"x\n" * 100_000)
    follower = way.start("logs", "-f", run.name)
    assert follower.stdout is not None
    follower.stdout.readline()
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=5)
    assert follower.returncode == 130
    assert err.decode().strip() == f"still running, `cloudrun logs -f {run.name}` to look again"

    head = way.start("logs", "-n", "100000", run.name)
    assert head.stdout is not None
    assert head.stderr is not None
    head.stdout.readline()
    head.stdout.close()
    assert (head.wait(10), head.stderr.read()) == (0, b"")
    head.stderr.close()


def test_on_a_terminal_bars_and_colours_are_drawn_and_nothing_acts(way: Laptop, run: WrittenRun) -> None:
    run.write(b" 10%\r100%\n\x1b]0;title\x07\x1b[6n\x1b[32mgreen\n")
    master, slave = pty.openpty()
    shown = way.start("logs", run.name, stdout=slave)
    os.close(slave)
    try:
        assert shown.wait(20) == 0
        assert os.read(master, 65536) == b" 10%\r100%\r\n\x1b[32mgreen\r\n\x1b[0m"
    finally:
        os.close(master)
        shown.communicate()


def test_a_following_that_is_killed_leaves_no_agent_behind(way: Laptop, box: SshBox, run: WrittenRun) -> None:
    follower = way.start("logs", "-f", run.name)
    wait_for(lambda: _followers(box), what="a follower on the box")
    follower.kill()
    follower.communicate()
    wait_for(lambda: not _followers(box), what="its end")


def _followers(box: SshBox) -> list[str]:
    """Agents in mode follow that were started on this box."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            ours = f"HOME={box.home}".encode() in (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if ours and b"follow" in words and b"-I" in words:
            found.append(entry.name)
    return found
