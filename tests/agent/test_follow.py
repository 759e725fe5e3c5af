"""Mode `follow` as a process: every byte once, at its offset, whatever happens to the files meanwhile."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remote_agent import layout, protocol
from remote_agent.logreader import MAX_TAIL_BYTES, Position, end_of, start_of_tail
from tests.support.agentdir import oldest_python
from tests.support.writtenrun import WrittenRun

NONCE = "0a1b2c3d"


class Follower:
    """One `follow` and its frames."""

    def __init__(self, agent: Path, python: str, **request: Any) -> None:
        self.process = subprocess.Popen(
            [python, "-I", str(agent), "follow", "--nonce", NONCE, "--agent", "f" * 12],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.out = self.process.stdout
        assert self.out.readline() == b"\n"
        found = protocol.find_hello(self.out.readline(), NONCE)
        assert found
        self.process.stdin.write(protocol.dump_line({"op": "follow", **request}))
        self.process.stdin.flush()
        self.seen: dict[int, bytearray] = {}
        self.at: tuple[int, int] | None = None

    def next(self) -> dict[str, Any]:
        """The next frame; data is gathered in `seen`, its offsets are checked."""
        frame = protocol.read_frame(self.out)
        assert frame is not None, self.process.communicate()[1].decode()
        header, payload = frame
        if header["kind"] in ("run", "attempt"):
            self.at = (header["attempt"], header.get("offset", 0))
        if header["kind"] in ("data", "gap"):
            assert (header["attempt"], header["offset"]) == self.at
            self.at = (header["attempt"], header.get("to", header["offset"] + len(payload)))
        if header["kind"] == "data":
            self.seen.setdefault(header["attempt"], bytearray()).extend(payload)
        return header

    def until(self, kind: str) -> dict[str, Any]:
        while True:
            header = self.next()
            if header["kind"] == kind:
                return header
            assert header["kind"] in ("run", "data", "alive", "attempt", "gap"), header

    def has(self, attempt: int, data: bytes) -> None:
        """Reads until all of `data` has come."""
        while bytes(self.seen.get(attempt, b"")) != data:
            assert len(self.seen.get(attempt, b"")) < len(data), "more came than was written"
            self.next()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Callable[..., WrittenRun]]:
    made: list[WrittenRun] = []

    def make(**how: Any) -> WrittenRun:
        made.append(WrittenRun(tmp_path / "data", **how))
        return made[-1]

    yield make
    for run in made:
        run.close()


@pytest.fixture
def follow(tmp_path: Path, unpacked: Path) -> Iterator[Callable[..., Follower]]:
    made: list[Follower] = []

    def start(python: str = sys.executable, **request: Any) -> Follower:
        made.append(Follower(unpacked, python, **{"data_dir": str(tmp_path / "data"), **request}))
        return made[-1]

    yield start
    for follower in made:
        follower.close()


Written = Callable[..., WrittenRun]
Follow = Callable[..., Follower]


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes of every value, with line ends here and there."""
    return random.Random(seed).randbytes(size)


@pytest.mark.parametrize("python", [sys.executable, *filter(None, [oldest_python()])])
def test_every_byte_once_over_parts_and_restarts_until_the_end(written: Written, follow: Follow, python: str) -> None:
    run = written(limit_bytes=256 * 1024)  # parts of 64 and 32 KiB
    follower = follow(python, name=run.name, follow=True)
    for attempt in (1, 2, 3):
        for piece in range(12):
            run.write(noise(30_000, attempt * 100 + piece))
            follower.has(attempt, run.truth[attempt])
        if attempt < 3:
            run.next_attempt()
    assert len(run.run.log_parts(1)) > 3
    assert len(run.on_disk(1)) < len(run.truth[1])  # rotation took parts that had been read
    run.end("failed", 3, "exception")
    end = follower.until("end")
    assert {key: end[key] for key in ("state", "cause", "exit_code", "signal", "attempt")} == {
        "state": "failed", "cause": "exception", "exit_code": 3, "signal": None, "attempt": 3}
    assert follower.seen == run.truth
    assert follower.process.wait(5) == 0


def test_what_rotation_took_before_is_a_gap_and_an_offset_goes_on_behind_it(written: Written, follow: Follow) -> None:
    run = written(limit_bytes=64 * 1024)
    run.write(noise(300_000))
    parts = run.run.log_parts(1)
    first_end = os.path.getsize(parts[0].path)
    follower = follow(name=run.name, offset=5, attempt=1)
    gap = follower.until("gap")
    assert (gap["offset"], gap["to"]) == (first_end, parts[1].offset)
    follower.until("end")
    truth = run.truth[1]
    assert follower.seen[1] == truth[5:first_end] + truth[parts[1].offset:]
    inside = follow(name=run.name, offset=first_end + 1, attempt=1)
    assert inside.until("gap")["to"] == parts[1].offset
    exact = follow(name=run.name, offset=parts[2].offset, attempt=1)
    exact.until("end")
    assert exact.seen[1] == truth[parts[2].offset:]


def test_a_part_that_is_deleted_or_renamed_while_it_is_read_is_read_to_its_end(written: Written, follow: Follow) -> None:
    run = written()
    run.write(noise(6 << 20))  # more than the pipe and one frame hold: the follower stands in the middle
    follower = follow(name=run.name, follow=True)
    follower.until("data")
    first = run.run.log(1)
    os.rename(first, first + ".aside")
    follower.has(1, run.truth[1])
    run.end()
    follower.until("end")


def test_a_log_cut_to_nothing_is_a_gap_back_and_goes_on(written: Written, follow: Follow) -> None:
    run = written()
    run.write(b"before\n" * 100)
    follower = follow(name=run.name, follow=True)
    follower.has(1, b"before\n" * 100)
    os.truncate(run.run.log(1), 0)
    gap = follower.until("gap")
    assert (gap["offset"], gap["to"]) == (700, 0)
    with open(run.run.log(1), "ab") as log:
        log.write(b"after\n")
    follower.until("data")
    assert follower.seen[1].endswith(b"\nafter\n")


def test_a_run_that_has_no_log_yet_is_waited_for(written: Written, follow: Follow) -> None:
    run = written()
    follower = follow(name=None, project_id="p-1", follow=True, tail_lines=10)
    started = follower.until("run")
    assert (started["run"]["name"], started["attempt"], started["offset"]) == (run.name, 1, 0)
    run.write(b"epoch 1\n")
    follower.has(1, b"epoch 1\n")


def test_one_attempt_only_ends_with_that_attempt(written: Written, follow: Follow) -> None:
    run = written()
    run.write(b"one\n")
    follower = follow(name=run.name, attempt=1, only_attempt=True, follow=True)
    follower.has(1, b"one\n")
    run.write(b"last words\n")
    run.next_attempt()
    run.write(b"two\n")
    end = follower.until("end")
    assert (end["state"], end["exit_code"], end["attempt"]) == ("failed", 1, 1)
    assert follower.seen == {1: bytearray(b"one\nlast words\n")}


def test_a_supervisor_killed_without_a_word_ends_the_stream_as_lost(written: Written, follow: Follow) -> None:
    run = written()
    run.write(b"x\n")
    follower = follow(name=run.name, follow=True)
    follower.has(1, b"x\n")
    run.kill()
    assert follower.until("end")["state"] == "lost"


def test_without_follow_it_ends_although_the_writer_goes_on(written: Written, follow: Follow) -> None:
    run = written()
    run.write(b"a\nb\nc\n")
    follower = follow(name=run.name, tail_lines=2)
    assert follower.until("end")["state"] == "running"
    assert follower.seen[1] == b"b\nc\n"


def test_the_last_lines_are_no_more_than_asked_for_under_a_busy_writer(written: Written, follow: Follow) -> None:
    run = written()
    busy = subprocess.Popen(
        [sys.executable, "-c", BUSY, run.run.log(1)], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)
    try:
        assert busy.stdout is not None
        assert busy.stdout.readline() == b"writing\n"
        counts = []
        for _ in range(6):
            follower = follow(name=run.name, tail_lines=3)
            assert follower.until("end")["state"] == "running"
            counts.append(follower.seen.get(1, b"").count(b"\n"))
        assert max(counts) == 3  # rotation may have taken them in between: then they are fewer
    finally:
        busy.kill()
        busy.communicate()


#: Writes lines as fast as it can through the tee's own log file.
BUSY = """
import sys
from remote_agent.supervise.logfile import LogFile
log, number = LogFile(sys.argv[1], 8 << 20), 0
while True:
    log.write(memoryview(b"line %d\\n" % number * 20))
    number += 1
    if number == 2000:
        print("writing", flush=True)
"""


@pytest.mark.parametrize(("request_", "code"), [
    ({"name": "nosuch"}, "no-such-run"), ({"attempt": 2, "only_attempt": True}, "no-such-attempt"),
    ({"name": 7}, "bad-request"), ({"data_dir": "relative"}, "data-dir-relative"),
])
def test_what_cannot_be_is_an_error_frame(written: Written, follow: Follow, request_: dict[str, Any], code: str) -> None:
    written()
    assert follow(**request_).next()["code"] == code


def test_news_comes_at_once_and_quiet_costs_nothing_and_the_laptops_end_is_noticed(written: Written, follow: Follow) -> None:
    run = written()
    follower = follow(name=run.name, follow=True)
    delays = []
    for number in range(8):
        line = b"step %d\n" % number
        began = time.monotonic()
        run.write(line)
        follower.until("data")
        delays.append(time.monotonic() - began)
    assert sorted(delays)[2] < 0.05  # aim: 20 ms, the order to the writer included; a busy machine may delay some
    began_s, began = cpu_s(follower.process.pid), time.monotonic()
    follower.until("alive")
    assert 4.0 < time.monotonic() - began < 8.0
    assert cpu_s(follower.process.pid) - began_s < 0.1
    assert follower.process.stdin is not None
    follower.process.stdin.close()
    assert follower.process.wait(5) == 0


def test_a_reader_that_is_gone_ends_it_without_a_word(written: Written, follow: Follow) -> None:
    run = written()
    run.write(noise(1 << 20))
    follower = follow(name=run.name, follow=True)
    follower.until("data")
    follower.out.close()
    assert follower.process.wait(10) == 0
    assert follower.process.stderr is not None
    assert follower.process.stderr.read() == b""


def test_a_stopped_reader_holds_nobody_but_itself(written: Written, follow: Follow) -> None:
    run = written()
    follower = follow(name=run.name, follow=True)
    follower.until("run")
    os.kill(follower.process.pid, signal.SIGSTOP)
    try:
        for seed in range(8):
            run.write(noise(500_000, seed))  # returns when it is in the log
        assert run.on_disk() == run.truth[1]
    finally:
        os.kill(follower.process.pid, signal.SIGCONT)
    follower.has(1, run.truth[1])


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ------------------------------------------------------------------------------------------- the last lines


def logged(folder: Path, attempts: dict[int, list[bytes]]) -> layout.Run:
    """A run with these logs, each in parts."""
    run = layout.Run(str(folder))
    os.makedirs(run.logs)
    for attempt, parts in attempts.items():
        offset = 0
        for part in parts:
            Path(layout.log_part(run.log(attempt), offset).path).write_bytes(part)
            offset += len(part)
    return run


def end(run: layout.Run, attempt: int) -> Position:
    return Position(attempt, end_of(run, attempt))


@pytest.mark.parametrize(("attempts", "attempt", "lines", "wanted"), [
    ({1: [b"a\nb\nc\n"]}, 1, 2, Position(1, 2)),
    ({1: [b"a\nb\nc"]}, 1, 2, Position(1, 2)),
    ({1: [b"a\nb\nc\n"]}, 1, 0, Position(1, 6)),
    ({1: [b"a\nb\nc\n"]}, 1, 3, Position(1, 0)),
    ({1: [b"a\nb\nc\n"]}, 1, 99, Position(1, 0)),
    ({1: [b"\n\n\n"]}, 1, 2, Position(1, 1)),
    ({1: [b"a\n 0%\r 50%\r100%\nb\n"]}, 1, 2, Position(1, 2)),  # a bar is one line
    ({1: [b"a\nb", b"b\nc\n"]}, 1, 2, Position(1, 2)),  # a line over two parts
    ({1: [b"a\n", b"b\n", b"c\n"]}, 1, 2, Position(1, 2)),
    ({1: [b"a\nb\n"], 2: [b"c\n"]}, 2, 2, Position(1, 2)),  # over a restart
    ({1: [b"a\nb\n"], 2: [b""]}, 2, 1, Position(1, 2)),
    ({1: [b"a\nb\n"]}, 2, 1, Position(1, 2)),  # the next attempt has not said a word
    ({1: [b"a\n"], 2: [b"b\n"], 3: [b"c\n"]}, 2, 1, Position(2, 0)),
    ({}, 1, 5, Position(1, 0)),
    ({1: [b"x" * 70_000 + b"\n" + b"y" * 70_000 + b"\n"]}, 1, 1, Position(1, 70_001)),
    ({1: [b"\n" * 65_535 + b"x" * 65_536]}, 1, 1, Position(1, 65_535)),  # at the edges of blocks
    ({1: [b"\n" * 65_536 + b"x" * 65_535 + b"\n"]}, 1, 2, Position(1, 65_535)),
])
def test_where_the_last_lines_begin(
    tmp_path: Path, attempts: dict[int, list[bytes]], attempt: int, lines: int, wanted: Position
) -> None:
    run = logged(tmp_path, attempts)
    assert start_of_tail(run, end(run, attempt), lines) == wanted


def test_one_attempts_last_lines_stay_in_it(tmp_path: Path) -> None:
    run = logged(tmp_path, {1: [b"a\nb\n"], 2: [b"c\n"]})
    assert start_of_tail(run, end(run, 2), 5, one=True) == Position(2, 0)


def test_a_line_of_gigabytes_is_not_read_to_its_beginning(tmp_path: Path) -> None:
    run = logged(tmp_path, {1: [b""]})
    os.truncate(run.log(1), 4 << 30)  # sparse
    began = time.monotonic()
    assert start_of_tail(run, end(run, 1), 200) == Position(1, (4 << 30) - MAX_TAIL_BYTES)
    assert time.monotonic() - began < 2


def test_very_many_lines_are_not_cut_short(tmp_path: Path) -> None:
    run = logged(tmp_path, {1: [b"x" * 199 + b"\n"]})
    with open(run.log(1), "ab") as log:
        for _block in range(20):
            log.write((b"x" * 199 + b"\n") * 5000)
    assert os.path.getsize(run.log(1)) > MAX_TAIL_BYTES
    assert start_of_tail(run, end(run, 1), 100_001) == Position(1, 0)
    assert start_of_tail(run, end(run, 1), 99_999) == Position(1, 400)


@pytest.mark.parametrize(("attempts", "one", "wanted"), [
    ({1: [b"a\nb\n"], 2: [b"c\n"]}, False, Position(1, 0)),
    ({1: [b"a\nb\n"], 2: [b"c\n"]}, True, Position(2, 0)),
    ({1: [b"a\n"], 2: [b""]}, False, Position(1, 0)),
    ({1: [b""], 2: [b"c\n"]}, False, Position(2, 0)),
    ({2: [b""]}, False, Position(2, 0)),
])
def test_more_lines_than_there_are_bytes_are_all(
    tmp_path: Path, attempts: dict[int, list[bytes]], one: bool, wanted: Position
) -> None:
    run = logged(tmp_path, attempts)
    assert start_of_tail(run, end(run, 2), 10**12, one=one) == wanted
    assert start_of_tail(run, end(run, 2), 4, one=one) == wanted  # counted


def test_a_part_that_is_rotated_away_while_the_last_lines_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = logged(tmp_path, {1: [b"a\nb\n", b"c\n", b"d\n"]})
    parts = run.log_parts(1)
    os.unlink(parts[1].path)
    monkeypatch.setattr(layout.Run, "log_parts", lambda self, attempt: parts)
    assert start_of_tail(run, Position(1, 8), 2) == Position(1, 2)  # "b", the gap, and "d"
