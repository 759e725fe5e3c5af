"""The client against recorded and invented speech of a box: noise, silence, other versions, early ends."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from cloudrun.agent import archive
from cloudrun.agent.bootstrap import reached
from cloudrun.agent.client import AgentClient, Question
from cloudrun.agent.follow import FollowStream, open_follow
from cloudrun.errors import CloudrunError
from cloudrun.transport.base import Address, Channel, Counts
from remote_agent import protocol

#: What bash prints before anything of ours where ~/.bashrc is that of a rented image.
BANNER = "+-----------------AutoDL-----------------+\n系 统 盘/   41% 13G/30G\n".encode()
REACHED = reached("%s")
HELLO = {"version": 1, "agent": archive.installed().sha12, "python": "/usr/bin/python3", "python_version": "3.11.2",
         "box_id": "b+1", "home": "/root", "user": "root"}


class Script:
    """A channel that says given pieces; a callable is given what was sent so far. At the end: EOF, or silence."""

    def __init__(self, pieces: Iterable[bytes | Callable[[bytes], bytes]], *, silent: bool = False, code: int | None = 0) -> None:
        self.pieces: Iterator[bytes | Callable[[bytes], bytes]] = iter(pieces)
        self.sent = b""
        self.silent = silent
        self.code = code
        self.closed = False

    def send(self, data: bytes, timeout_s: float = 60.0) -> None:
        self.sent += data

    def send_eof(self) -> None: ...

    def receive(self, max_bytes: int = 65536, timeout_s: float | None = None) -> bytes:
        piece = next(self.pieces, b"")
        if not piece and self.silent:
            raise TimeoutError
        if callable(piece):
            if timeout_s == 0 and not self.sent:
                raise TimeoutError
            return piece(self.sent)
        return piece

    def stderr_tail(self) -> bytes:
        return b"Traceback\nModuleNotFoundError: no json\n"

    def exit_status(self, timeout_s: float) -> int | None:
        return self.code

    def resize(self, size: Any) -> None: ...

    def fileno(self) -> int | None:
        return None

    def close(self) -> None:
        self.closed = True


class Box:
    """A transport whose commands are scripts, one after the other; each is made from the nonce of its command."""

    def __init__(self, *scripts: Callable[[str], Script]) -> None:
        self.address = Address("connect.example.com", 23456, "root")
        self.counts = Counts()
        self._scripts = list(scripts)
        self.channels: list[Script] = []

    def exec(self, command: str, terminal: Any = None, term: str = "") -> Channel:
        assert all(channel.closed for channel in self.channels), "a box may allow one session only"
        nonce = command.split("' '")[5]
        self.channels.append(self._scripts.pop(0)(nonce))
        return self.channels[-1]

    def put(self, data: bytes, path: str, mode: int = 0o600, progress: Any = None) -> None:
        raise AssertionError("nothing is to be sent here")

    def close(self) -> None: ...


def hello(nonce: str) -> bytes:
    return protocol.hello_line(nonce, HELLO)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[i:i + size] for i in range(0, len(data), size)]


def client(*after: bytes | Callable[[bytes], bytes], before: bytes = b"", **how: Any) -> AgentClient:
    return AgentClient.open(Box(lambda nonce: Script([before + hello(nonce), *after], **how)), None)


def line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(("before", "glued", "between"), [
    (b"", b"", b""), (BANNER, b"(base) root@box:~# ", b""), (BANNER, b"", BANNER), (BANNER * 600, b"{", b"{not json}\n{\"a\": "),
    (b"CLOUDRUN/1 otherNonce {}\n", b"CLOUDRUN/", b"\r\n"),
], ids=["none", "banner", "after", "much", "near misses"])
def test_noise_before_glued_and_after_is_skipped(size: int, before: bytes, glued: bytes, between: bytes) -> None:
    def script(nonce: str) -> Script:
        said = before + glued + hello(nonce)[1 if glued else 0:] + between
        return Script([*cut(said, size), lambda _sent: line(result=[1], id=1)])

    box = Box(script)
    opened = AgentClient.open(box, None)
    assert opened.hello.python_version == "3.11.2"
    assert opened.call("ps", {"archived": False}) == [1]
    assert json.loads(box.channels[0].sent) == {"id": 1, "op": "ps", "archived": False}


def test_nothing_is_sent_before_the_hello() -> None:
    box = Box(lambda nonce: Script([BANNER, hello(nonce)]))
    AgentClient.open(box, None)
    assert box.channels[0].sent == b""


def test_a_question_asked_ahead_travels_with_the_start_and_is_not_asked_again() -> None:
    commands: list[str] = []

    class Listening(Box):
        def exec(self, command: str, terminal: Any = None, term: str = "") -> Channel:
            commands.append(command)
            return super().exec(command, terminal, term)

    def opened(*after: bytes) -> tuple[AgentClient, Box]:
        box = Listening(lambda nonce: Script([hello(nonce), *after]))
        return AgentClient.open(box, None, ahead=Question("ps", {"archived": False, "data_dir": "/it's/数据"})), box

    asked, box = opened(line(id=0, result=["a run"]), line(id=1, result=["two"]))
    assert asked.call("ps", {"archived": False, "data_dir": "/it's/数据"}) == ["a run"]
    assert box.channels[0].sent == b""
    assert json.loads(shlex.split(commands[0])[-1]) == {"id": 0, "op": "ps", "archived": False, "data_dir": "/it's/数据"}
    assert asked.call("ps", {"archived": False, "data_dir": "/it's/数据"}) == ["two"]  # a second time it is asked anew
    assert json.loads(box.channels[0].sent)["id"] == 1

    other, box = opened(line(id=0, result=["a run"]), line(id=1, result="of the other question"))
    assert other.call("ps", {"archived": True}) == "of the other question"
    assert json.loads(box.channels[0].sent) == {"id": 1, "op": "ps", "archived": True}


def test_events_come_in_order_and_what_is_not_ours_is_passed_over() -> None:
    opened = client(
        line(id=1, event="installing", package="screen"), line(id=99, result="of another"), line(id=1, surprise=1),
        line(id=1, event="new kind"), line(id=1, result=None), line(id=2, result=False))
    events: list[dict[str, Any]] = []
    assert opened.call("launch", {}, events.append) is None
    assert [event["event"] for event in events] == ["installing", "new kind"]
    assert opened.call("ps", {}) is False


def test_an_error_crosses_as_code_and_parameters() -> None:
    with pytest.raises(CloudrunError) as caught:
        client(line(id=1, error={"code": "no-such-run", "params": {"name": "x", "near": []}})).call("stop", {})
    assert (caught.value.code, caught.value.params["name"]) == ("no-such-run", "x")


def test_a_stream_stops_where_the_box_has_answered_already() -> None:
    opened = client(lambda _sent: line(id=1, error={"code": "no-space", "params": {}}))
    sent = []

    def chunks() -> Iterator[bytes]:
        for number in range(1000):
            sent.append(number)
            yield b"x"

    with pytest.raises(CloudrunError, match="no-space"):
        opened.call_with_stream("code.receive", {}, chunks())
    assert len(sent) < 3


def test_what_the_box_said_is_shown_where_the_agent_did_not_start() -> None:
    def dead(nonce: str) -> Script:
        return Script([BANNER, reached(nonce), b"\x07\n  \n", "磁盘 quota exceeded\nmore\n".encode()], code=1)

    with pytest.raises(CloudrunError) as caught:
        AgentClient.open(Box(dead, dead), None)
    assert caught.value.code == "agent-start-failed"
    assert caught.value.params["said"] == "磁盘 quota exceeded"
    assert caught.value.params["stderr"] == "ModuleNotFoundError: no json"


@pytest.mark.parametrize(("said", "how", "code"), [
    ([b"\nCLOUDRUN/2 %s {}\n"], {}, "agent-version"),
    ([REACHED, b"x" * (5 << 20)], {}, "agent-start-failed"),
    ([BANNER, REACHED], {"silent": True}, "agent-start-timeout"),
    ([BANNER, b"CLOUDRUN-SH $n\n"], {"silent": True}, "shell-waits"),  # the command itself, shown by a chatty shell
    ([BANNER * 10], {}, "shell-ended"),
    ([BANNER, b"x" * (5 << 20)], {}, "shell-talks"),
])
def test_an_agent_that_cannot_be_spoken_with(said: list[bytes], how: dict[str, Any], code: str) -> None:
    """Whether the login shell came to our command decides who is to blame."""
    def script(nonce: str) -> Script:
        return Script([piece.replace(b"%s", nonce.encode()) for piece in said], **how)

    with pytest.raises(CloudrunError) as caught:
        AgentClient.open(Box(script, script), None)
    assert caught.value.code == code


@pytest.mark.parametrize(("after", "how", "code"), [
    ([], {}, "outcome-unknown"),
    ([line(id=1, event="step"), b'{"result": 1, "i'], {}, "outcome-unknown"),
    ([line(id=1, event="step")], {"silent": True}, "agent-silent"),
    ([BANNER * 2000], {}, "agent-protocol"),
])
def test_an_answer_that_does_not_come(after: list[bytes], how: dict[str, Any], code: str) -> None:
    with pytest.raises(CloudrunError) as caught:
        client(*after, **how).call("launch", {})
    assert caught.value.code == code


@pytest.mark.parametrize(("how", "code"), [
    ({}, "connection-lost"), ({"code": None}, "connection-lost"), ({"silent": True}, "box-silent"),
    ({"code": 1}, "agent-crashed"),
])
def test_what_only_looks_has_no_outcome_that_could_be_unknown(how: dict[str, Any], code: str) -> None:
    for op in ("ps", "gpu", "doctor", "prepare", "attach"):
        with pytest.raises(CloudrunError) as caught:
            client(line(id=1, event="step"), **how).call(op, {})
        assert caught.value.code == code
        assert "not known" not in caught.value.message


def stream(*after: bytes, **how: Any) -> FollowStream:
    return open_follow(Box(lambda nonce: Script([hello(nonce), *after], **how)), None, protocol.FollowRequest(name="exp"))


def test_frames_are_read_over_any_cut_and_noise_stands_before_the_first_only() -> None:
    payload = bytes(range(256)) * 10
    said = BANNER + protocol.dump_frame({"kind": "run"}) + protocol.dump_frame({"kind": "alive"}) + protocol.dump_frame(
        {"kind": "data", "attempt": 1, "offset": 0}, payload)
    opened = stream(*cut(said, 11), b"not a frame\n")
    assert opened.next()[0]["kind"] == "run"
    assert opened.next()[1] == payload
    with pytest.raises(CloudrunError, match="not a frame"):
        opened.next()


def test_of_a_frame_that_the_link_broke_off_the_bytes_that_came_count() -> None:
    """Else a link that breaks more often than a frame takes would never get any further."""
    from cloudrun.agent.reading import ChannelReader

    reader = ChannelReader(Script([b'{"kind": "data", "attempt": 1, "offset": 7, "length": 10}\nabc', b"de"]))
    assert reader.frame(1.0) == ({"kind": "data", "attempt": 1, "offset": 7, "length": 10}, b"abcde")
    with pytest.raises(EOFError):
        reader.frame(1.0)
    with pytest.raises(EOFError):  # what is no log is whole or nothing
        ChannelReader(Script([b'{"kind": "run", "length": 10}\nabc'])).frame(1.0)


def test_a_slow_link_is_not_a_silent_one() -> None:
    from cloudrun.agent.reading import ChannelReader

    now = [0.0]

    def slowly(byte: bytes) -> Callable[[bytes], bytes]:
        def come(_sent: bytes) -> bytes:
            now[0] += 0.9
            return byte
        return come

    pieces = [b'{"kind": "data", "length": 5}\n', *(slowly(bytes([byte])) for byte in b"slow!")]
    assert ChannelReader(Script(pieces), lambda: now[0]).frame(1.0)[1] == b"slow!"
    assert now[0] > 4


@pytest.mark.parametrize(("after", "how", "code"), [
    (b"", {}, "connection-lost"), (b"", {"code": None}, "connection-lost"), (b"", {"silent": True}, "connection-lost"),
    (protocol.dump_frame({"kind": "run"}, b"abc")[:-1], {}, "connection-lost"),
    (b"", {"code": 1}, "agent-crashed"),
    (protocol.dump_line({"kind": "data", "length": -1}), {}, "agent-protocol"),
    (protocol.dump_frame({"kind": "error", "code": "no-such-run", "params": {"name": "x"}}), {}, "no-such-run"),
])
def test_how_a_stream_ends_before_its_end(after: bytes, how: dict[str, Any], code: str) -> None:
    with pytest.raises(CloudrunError) as caught:
        stream(after, **how).next()
    assert caught.value.code == code
