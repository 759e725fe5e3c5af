"""Parts of the supervisor on their own: the table, the verdict, the counter, the journal, the record."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest

from remote_agent import atomic, layout, verdict
from remote_agent.protocol import CAUSES, STATES, Desired, State, encode
from remote_agent.supervise import oom, transitions
from remote_agent.supervise.journal import Journal
from remote_agent.supervise.orders import Orders
from remote_agent.supervise.record import Record
from remote_agent.verdict import Outcome

LEGAL = """
pending   > running waiting stopping failed stopped
running   > stalled waiting stopping succeeded failed stopped
stalled   > running waiting stopping succeeded failed stopped
waiting   > running stopping failed stopped
stopping  > succeeded failed stopped
succeeded >
failed    >
stopped   >
"""


def state(word: str = "pending") -> State:
    return State(state=word, launch=1, attempt=1, backend="screen", session=None, box_id="b")


def test_the_whole_table() -> None:
    legal = {tuple(line.partition(">")[::2]) for line in LEGAL.strip().splitlines()}
    steps = {(was.strip(), to) for was, tos in legal for to in tos.split()}
    assert {was.strip() for was, _ in legal} == set(STATES)
    for was, to in itertools.product(STATES, STATES):
        record = state(was)
        if (was, to) in steps:
            transitions.step(record, to, "user")
            assert (record.state, record.cause) == (to, "user")
        else:
            with pytest.raises(ValueError, match="illegal step"):
                transitions.step(record, to)
            assert record.state == was


def test_an_unknown_cause_is_refused() -> None:
    with pytest.raises(ValueError, match="bad luck"):
        transitions.step(state("running"), "failed", "bad luck")
    assert "lost" not in transitions.STEPS


TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'
CUDA = "torch.OutOfMemoryError: CUDA out of memory. Tried to\n"
RANK = "".join("[rank0]: " + line + "\n" for line in (TRACEBACK + CUDA).splitlines())
WORKER = "RuntimeError: DataLoader worker (pid 5201) is killed by signal: Killed. \n"
CHILD_FAILED = TRACEBACK + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED\n"


@pytest.mark.parametrize(("code", "number", "tail", "rose", "expected"), [
    (0, None, TRACEBACK + "ValueError: caught and printed\n", True, ("succeeded", None)),
    (1, None, TRACEBACK + "ValueError: x\n", False, ("failed", "exception")),
    (1, None, TRACEBACK + "ValueError: x\nwandb: Synced 5 files\n", False, ("failed", "exception")),
    (1, None, TRACEBACK + "ValueError: x\n" + "epoch 3 goes on\n" * 100, False, ("failed", None)),
    (1, None, "usage: train.py [-h]\n", False, ("failed", None)),
    (1, None, TRACEBACK + CUDA, False, ("failed", "cuda-oom")),
    (1, None, RANK + "W1201 torchrun\n" + CHILD_FAILED, False, ("failed", "cuda-oom")),
    (1, None, RANK + "smaller batch\n" * 100 + TRACEBACK + "KeyError: 'x'\n", False, ("failed", "exception")),
    (1, None, TRACEBACK + "OSError: [Errno 28] No space left on device\n", False, ("failed", "disk-full")),
    (127, None, "bash: line 1: pythn: command not found\n", False, ("failed", "never-started")),
    (126, None, "bash: ./train.py: Permission denied\n", False, ("failed", "never-started")),
    (None, 9, "", False, ("failed", "signal")),
    (137, None, "", False, ("failed", None)),
    (None, 9, "", True, ("failed", "oom-killed")),
    (137, None, "", True, ("failed", "oom-killed")),
    (1, None, TRACEBACK + WORKER, True, ("failed", "oom-killed")),
    (1, None, TRACEBACK + WORKER, False, ("failed", "exception")),
    (1, None, TRACEBACK + "ValueError: somebody else was killed\n", True, ("failed", "exception")),
    (None, 11, "", False, ("failed", "signal")),
    (None, 1, "", False, ("failed", "session-killed")),
    (None, 2, "", False, ("stopped", "user")),
    (130, None, "", False, ("stopped", "user")),
    (1, None, TRACEBACK + "KeyboardInterrupt\n", False, ("stopped", "user")),
    (None, None, "", False, ("failed", None)),
])
def test_verdict(code: int | None, number: int | None, tail: str, rose: bool, expected: tuple[str, str | None]) -> None:
    found = verdict.of_command(Outcome(code, number, "2026-12-01T00:00:00Z"), tail, rose)
    assert (found.state, found.cause) == expected
    assert found.cause is None or found.cause in CAUSES


V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
V2 = "low 0\nhigh 0\nmax 812\noom 3\noom_kill {}\n"


@pytest.mark.parametrize(("own", "files", "expected"), [
    ("5:memory:/docker/abc\n1:cpu:/\n", {"memory/docker/abc/memory.oom_control": V1.format(1)}, 1),
    ("5:memory:/docker/abc\n", {"memory/memory.oom_control": V1.format(2)}, 2),
    ("5:memory,pids:/\n0::/\n", {"memory/memory.oom_control": V1.format(3)}, 3),
    ("0::/kubepods/x\n", {"kubepods/x/memory.events": V2.format(4), "memory.events": V2.format(9)}, 4),
    ("0::/../../x\n", {"memory.events": V2.format(5)}, 5),
    ("5:memory:/\n0::/\n", {"memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"}, None),
    ("0::/\n", {}, None),
    ("", {}, None),
])
def test_oom_counter(tmp_path: Path, own: str, files: dict[str, str], expected: int | None) -> None:
    root = tmp_path / "deep" / "er" / "cgroup"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (tmp_path / "own").write_text(own)
    assert oom.kills(str(root), str(tmp_path / "own")) == expected


def test_no_cgroup_file_at_all(tmp_path: Path) -> None:
    assert oom.kills(str(tmp_path), str(tmp_path / "none")) is None


def test_the_journal_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    journal = Journal(str(path), limit_bytes=4000)
    for number in range(500):
        journal.say("event", number=number)
        assert path.stat().st_size <= 4000
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [event["number"] for event in events] == list(range(500 - len(events), 500))
    assert len(events) > 20
    assert events[-1]["at"].endswith("Z")


def test_the_journal_says_what_a_full_disk_cost(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.symlink_to("/dev/full")
    journal = Journal(str(path))
    journal.say("first")
    journal.say("second")
    path.unlink()
    path.write_text('{"event": "half')
    journal.say("third")
    half, missed, third = path.read_text().splitlines()
    assert half == '{"event": "half'
    assert (json.loads(missed)["count"], json.loads(third)["event"]) == (2, "third")


def test_the_record_tries_again_and_ever_more_rarely(tmp_path: Path) -> None:
    now = [100.0]
    run = layout.Run(str(tmp_path / "run"))
    record = Record(run, state("running"), Journal(os.devnull), now=lambda: now[0])
    record.publish()  # the folder is not there: as good as a full disk
    tries = []
    for _ in range(400):
        now[0] += 0.1
        before = record._due
        record.tend()
        if record._due != before:
            tries.append(round(now[0] - 100.0, 1))
    gaps = [round(later - sooner, 1) for sooner, later in itertools.pairwise(tries)]
    assert gaps == sorted(gaps)
    assert 4.9 < gaps[-1] < 5.2
    assert not record.written
    os.mkdir(run.path)
    now[0] += 5.1
    record.tend()
    assert record.written
    assert layout.read_record(State, run.state) == record.state


def test_a_word_written_just_before_the_signal_is_heard(tmp_path: Path) -> None:
    """Whatever the moment: the signal may come between our last look at the file and the question."""
    run, signals = layout.Run(str(tmp_path)), Signals()
    atomic.write_json(run.desired, encode(Desired("run")))
    orders = Orders(run, signals)  # type: ignore[arg-type]
    orders.heed()
    assert orders.to_end is None
    atomic.write_json(run.desired, encode(Desired("stop", 7)))
    signals.asked_by = 15
    assert (orders.to_end, orders.grace_s) == ("user", 7)


class Signals:
    asked_by: int | None = None
