"""The tee under real commands: their end told apart, a disk that fills, a window that stands still, keys, rotation."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import resource
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remote_agent import layout
from tests.support.agentdir import oldest_python, unpacked_agent
from tests.support.sshd import PartMissing
from tests.support.waiting import wait_for

#: Prints what it is told through a pipe of its own: "TAG COUNT" prints lines and acknowledges; the end of input ends it with 0.
OBEDIENT = r"""
import os, sys
for order in open(sys.argv[1]):
    tag, count = order.split()
    for number in range(int(count)):
        sys.stdout.write("%s line %06d of what a training says\n" % (tag, number))
    sys.stdout.flush()
    open(sys.argv[2], "a").write(tag + "\n")
"""


def pythons() -> list[str]:
    """The suite's own, and a 3.8 where the machine has one."""
    return [sys.executable, *filter(None, [oldest_python()])]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_agent(tmp_path_factory.mktemp("agent"))


class Teed:
    """Commands run as run.sh runs them: bash becomes the tee and is the command's parent."""

    def __init__(self, folder: Path, agent: Path) -> None:
        self.folder, self.agent = folder, agent
        self.run = layout.Run(str(folder / "run"))
        self.log = Path(self.run.log(1))
        self.record_path = Path(self.run.exit_record(1))
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, command: str, *, python: str = sys.executable, limit_bytes: int = 10**9, before: str = "",
              **given: Any) -> subprocess.Popen[bytes]:
        """Starts it in a session of its own; its environment marks what it leaves behind."""
        tee = shlex.join([python, "-I", str(self.agent), "tee", "--log", str(self.log), "--limit", str(limit_bytes),
                          "--exit-record", str(self.record_path), "--current"])
        # As run.sh does: a command that ends while its parent is still bash would be reaped there.
        waited = f"while [ $(cat /proc/$PPID/comm) = bash ]; do sleep 0.01; done\n{command}"
        text = f"{before}\nshopt -s lastpipe; ( exec bash -c -- {shlex.quote(waited)} ) 2>&1 | exec {tee}"
        if "preexec_fn" not in given:
            given["start_new_session"] = True
        given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **given}
        process = subprocess.Popen(
            ["unshare", "-m", "bash", "-c", text] if before else ["bash", "-c", text],
            cwd=self.folder, env=dict(os.environ, TEED=str(self.folder)), **given,
        )
        self.started.append(process)
        return process

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.record_path.read_text())
        return found

    def said(self) -> bytes:
        return self.log.read_bytes() if self.log.exists() else b""

    def end(self) -> None:
        mark = f"TEED={self.folder}".encode()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
        for process in self.started:
            process.wait(10)


@pytest.fixture
def teed(tmp_path: Path, agent: Path) -> Iterator[Teed]:
    one = Teed(tmp_path, agent)
    yield one
    one.end()


class Orders:
    """The other side of OBEDIENT."""

    def __init__(self, folder: Path) -> None:
        self.pipe, self.answers = folder / "orders", folder / "answers"
        os.mkfifo(self.pipe)
        self.answers.touch()
        self.command = shlex.join([sys.executable, "-c", OBEDIENT, str(self.pipe), str(self.answers)])
        self._out = os.open(self.pipe, os.O_RDWR)

    def give(self, tag: str, count: int) -> None:
        """Returns when the command has printed all of it."""
        os.write(self._out, f"{tag} {count}\n".encode())
        wait_for(lambda: f"{tag}\n" in self.answers.read_text(), 20, f"the command is held at {tag}")

    def finish(self) -> None:
        os.close(self._out)


def lines(tag: str, count: int) -> bytes:
    return b"".join(b"%s line %06d of what a training says\n" % (tag.encode(), number) for number in range(count))


# ---------------------------------------------------------------------------------------- how it ended


@pytest.mark.parametrize(("python", "command", "code", "number"), [
    *((python, *case) for python in pythons() for case in (("exit 137", 137, None), ("kill -KILL $$", None, 9))),
    (sys.executable, "exit 0", 0, None), (sys.executable, "kill -TERM $$", None, 15),
    (sys.executable, "ulimit -S -c 0; kill -SEGV $$", None, 11),
    (sys.executable, "if then", 2, None), (sys.executable, "/no/such/program", 127, None),
])
def test_ends_as_the_command_ended(teed: Teed, python: str, command: str, code: int | None, number: int | None) -> None:
    process = teed.start("printf 'a word\\n'\n" + command, python=python, preexec_fn=_cores_allowed)
    assert process.wait(20) == (code if number is None else -number)
    record = teed.record()
    assert (record["exit_code"], record["signal"], record["log_bytes_lost"]) == (code, number, 0)
    assert record["ended_at"].endswith("Z")
    if command != "if then":
        assert teed.said().startswith(b"a word\n")
    if code in (2, 127):
        assert b"line " in teed.said()
    assert os.readlink(teed.run.current_log) == teed.log.name
    assert not [path for path in teed.folder.iterdir() if path.name.startswith("core")]  # the tee itself leaves none


def _cores_allowed() -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)


def test_without_a_command_nothing_is_called_a_success(teed: Teed) -> None:
    tee = [sys.executable, "-I", str(teed.agent), "tee", "--log", str(teed.log), "--limit", "1000000"]
    wanted = [*tee, "--exit-record", str(teed.record_path)]
    assert subprocess.run(wanted, input=b"words\n", timeout=20, check=False).returncode == 125
    assert subprocess.run(tee, input=b"words\n", timeout=20, check=False).returncode == 0
    assert teed.said() == b"words\n" * 2
    assert not teed.record_path.exists()


def test_waits_for_a_command_that_closed_its_output(teed: Teed) -> None:
    os.mkfifo(teed.folder / "go")
    process = teed.start("echo last words; exec >&- 2>&-; read word <go; exit 4")
    wait_for(lambda: teed.said() == b"last words\n")
    assert process.poll() is None
    (teed.folder / "go").write_text("on\n")
    assert process.wait(10) == 4
    assert teed.record()["exit_code"] == 4


def test_the_record_does_not_wait_for_a_daemon_that_holds_the_pipe(teed: Teed) -> None:
    process = teed.start("setsid sleep 60 & echo $! >pid; echo done; exit 5")
    wait_for(teed.record_path.exists)
    assert teed.record()["exit_code"] == 5
    assert teed.said() == b"done\n"  # its last words were logged before the record was written
    assert process.poll() is None
    os.kill(int((teed.folder / "pid").read_text()), signal.SIGKILL)
    assert process.wait(10) == 5


def test_no_signal_but_kill_ends_it_before_the_command(teed: Teed) -> None:
    orders = Orders(teed.folder)
    process = teed.start(orders.command)
    orders.give("a", 1)
    wait_for(lambda: teed.said() == lines("a", 1))
    for name in ("INT", "TERM", "HUP", "QUIT", "TSTP", "TTIN", "TTOU", "PIPE", "USR1"):
        os.kill(process.pid, getattr(signal, f"SIG{name}"))
    orders.give("b", 1)
    wait_for(lambda: teed.said() == lines("a", 1) + lines("b", 1))
    orders.finish()


# ----------------------------------------------------------------------------------------------- disks


def test_a_full_disk_costs_lines_and_says_so_when_it_has_space_again(teed: Teed) -> None:
    inside = _on_small_disk(teed)
    orders = Orders(teed.folder)
    process = teed.start(orders.command, before=inside)
    orders.give("a", 100)
    seen = Path(f"/proc/{process.pid}/root{teed.log}")
    wait_for(lambda: seen.exists() and seen.read_bytes() == lines("a", 100))
    filler = _fill(seen.parent)
    orders.give("b", 20_000)  # more than pipe and page hold: it would be held here if anything waited
    filler.unlink()
    wait_for(lambda: b"cloudrun: " in seen.read_bytes(), 10, "nothing was said about the loss")
    orders.give("c", 100)
    wait_for(lambda: seen.read_bytes().endswith(lines("c", 100)))
    before, _, after = seen.read_bytes().partition(b"cloudrun: ")
    told, _, rest = after.partition(b"\n")
    missing = int(told.split()[0])
    assert told.endswith(b"No space left on device")
    assert rest == lines("c", 100)
    kept = before[len(lines("a", 100)):]
    kept = kept if kept.endswith(b"says\n") or not kept else kept[:-1]  # the notice begins a line of its own
    assert lines("b", 20_000).startswith(kept)
    assert len(kept) + missing == len(lines("b", 20_000))
    _end_of_obedience(process)
    assert process.wait(10) == -signal.SIGKILL


def test_another_refusal_than_a_full_disk_is_outlived_too(teed: Teed) -> None:
    """EFBIG here; EIO and EROFS go the same way: the file is opened anew and the log goes on in it."""
    orders = Orders(teed.folder)
    process = teed.start(orders.command)
    orders.give("a", 100)
    wait_for(lambda: teed.said() == lines("a", 100))
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (len(lines("a", 100)), resource.RLIM_INFINITY))
    orders.give("b", 100)
    wait_for(lambda: _unread(process.pid) == 0)
    orders.give("c", 100)  # once this is read, the refusal of b lies behind
    wait_for(lambda: _unread(process.pid) == 0)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    wait_for(lambda: b"File too large\n" in teed.said())
    before, _, after = teed.said().partition(b"cloudrun: ")
    told, _, rest = after.partition(b"\n")
    assert before == lines("a", 100)
    assert int(told.split()[0]) + len(rest) == len(lines("b", 100) + lines("c", 100))
    orders.give("d", 1)
    wait_for(lambda: teed.said().endswith(lines("d", 1)))
    assert len(teed.run.log_parts(1)) == 1
    orders.finish()


def test_the_record_of_an_end_on_a_full_disk_comes_when_there_is_space(teed: Teed) -> None:
    go = teed.folder / "go"
    os.mkfifo(go)
    process = teed.start("read word <go; setsid sleep 60 & echo $! >pid; exit 6", before=_on_small_disk(teed))
    logs = Path(f"/proc/{process.pid}/root{teed.log.parent}")
    wait_for(lambda: (logs / teed.log.name).exists())
    filler = _fill(logs)
    go.write_text("on\n")
    wait_for((teed.folder / "pid").exists)
    record = logs / teed.record_path.name
    wait_for(lambda: not Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    assert not record.exists()
    filler.unlink()
    wait_for(record.exists, 10, "the record was not tried again")
    assert json.loads(record.read_text())["exit_code"] == 6
    os.kill(int((teed.folder / "pid").read_text()), signal.SIGKILL)
    assert process.wait(10) == 6


def test_a_log_that_can_never_be_written_is_not_the_trainings_failure(teed: Teed) -> None:
    teed.log.parent.mkdir(parents=True)
    teed.log.symlink_to("/dev/full")
    process = teed.start("seq 1 200000; exit 9")
    assert process.wait(20) == 9
    assert teed.record()["log_bytes_lost"] == len("".join(f"{n}\n" for n in range(1, 200_001)))


def test_a_folder_that_was_deleted_comes_back_and_offsets_go_on(teed: Teed) -> None:
    orders = Orders(teed.folder)
    teed.start(orders.command)
    orders.give("a", 10)
    wait_for(lambda: teed.said() == lines("a", 10))
    for path in teed.log.parent.iterdir():
        path.unlink()
    teed.log.parent.rmdir()
    again = 0

    def comes_back() -> bool:
        nonlocal again
        again += 1
        orders.give(f"again{again}", 1)
        return bool(teed.run.log_parts(1))

    wait_for(comes_back, 10)
    (part,) = teed.run.log_parts(1)
    first = int(Path(part.path).read_bytes().split()[0].removeprefix(b"again"))
    assert part.offset == len(lines("a", 10)) + sum(len(lines(f"again{n}", 1)) for n in range(1, first))
    assert os.readlink(teed.run.current_log) == Path(part.path).name
    orders.finish()


def _on_small_disk(teed: Teed) -> str:
    """Bash text: the log's folder is a full-able disk of its own, seen by this run alone."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0:
        raise PartMissing("the suite needs to mount a small tmpfs (root, `unshare -m`) to fill a disk")
    teed.log.parent.mkdir(parents=True)
    return f"mount -t tmpfs -o size=256k tmpfs {shlex.quote(str(teed.log.parent))} || exit 99"


def _fill(folder: Path) -> Path:
    """The file that takes all the space there is."""
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as stream:
        while True:
            stream.write(b"\0" * 4096)
    assert os.statvfs(folder).f_bavail == 0
    return filler


def _unread(pid: int) -> int:
    """Bytes that wait in the tee's pipe."""
    fd = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    try:
        return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4), sys.byteorder)
    finally:
        os.close(fd)


def _end_of_obedience(process: subprocess.Popen[bytes]) -> None:
    for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        os.kill(int(pid), signal.SIGKILL)


# -------------------------------------------------------------------------------------------- rotation


@pytest.mark.parametrize("python", pythons(), ids=lambda path: Path(path).name)
def test_rotation_keeps_the_first_and_the_newest_within_the_limit(teed: Teed, python: str) -> None:
    evil = "第 3 轮 损失=0.123".encode() + b" \xb5\xda1\xc2\xd6 \x1b]0;title\x07\0 \r 50%|x\r"
    stream = b"".join(b"%07d %s\n" % (number, evil) for number in range(20_000))
    (teed.folder / "stream").write_bytes(stream)
    limit = 200_000
    process = teed.start("cat stream", python=python, limit_bytes=limit)
    assert process.wait(20) == 0
    parts = teed.run.log_parts(1)
    held = [Path(part.path).read_bytes() for part in parts]
    assert parts[0].offset == 0
    assert 6 <= len(parts) <= 7
    assert limit // 2 < sum(map(len, held)) <= limit
    for part, data in zip(parts, held, strict=True):
        assert data
        assert data == stream[part.offset:part.offset + len(data)]
        assert part.offset == 0 or stream[part.offset - 1] == 0x0A  # a part begins with a line
    for (part, data), following in zip(zip(parts[1:], held[1:], strict=True), parts[2:], strict=False):
        assert part.offset + len(data) == following.offset
    assert parts[-1].offset + len(held[-1]) == len(stream)
    assert os.readlink(teed.run.current_log) == Path(parts[-1].path).name


def test_a_second_command_of_the_attempt_appends_to_its_log(teed: Teed) -> None:
    for number in range(2):
        process = teed.start(f"for i in $(seq 3000); do echo {number} a line of the attempt $i; done", limit_bytes=100_000)
        assert process.wait(20) == 0
    stream = b"".join(b"%d a line of the attempt %d\n" % (n, i) for n in range(2) for i in range(1, 3001))
    parts = teed.run.log_parts(1)
    assert len(parts) > 2
    assert all(Path(p.path).read_bytes() == stream[p.offset:p.offset + os.stat(p.path).st_size] for p in parts)
    assert parts[-1].offset + os.stat(parts[-1].path).st_size == len(stream)


# --------------------------------------------------------------------------------------------- windows


@pytest.mark.parametrize("how", ["nobody reads", "Ctrl-S"])
def test_a_window_that_stands_still_does_not_hold_the_command(teed: Teed, how: str) -> None:
    master, slave = pty.openpty()
    if how == "Ctrl-S":
        termios.tcflow(slave, termios.TCOOFF)
    orders = Orders(teed.folder)
    process = teed.start(orders.command, stdin=slave, stdout=slave)
    orders.give("a", 100_000)
    wait_for(lambda: teed.said() == lines("a", 100_000), 20)
    flags = int(Path(f"/proc/{process.pid}/fdinfo/1").read_text().split("flags:")[1].split()[0], 8)
    assert not flags & os.O_NONBLOCK  # the description that the command's stdin shares
    if how == "Ctrl-S":
        termios.tcflow(slave, termios.TCOON)
    orders.give("b", 1)
    shown = _read_until(master, b"b line 000000 of what a training says\r\n")
    assert b"bytes were not shown here; they are in the log]\r\r\na line 0" in shown
    assert shown.count(b"\n") < 20_000
    orders.finish()
    os.close(slave)
    os.close(master)


def test_a_window_that_went_away_does_not_matter(teed: Teed) -> None:
    master, slave = pty.openpty()
    orders = Orders(teed.folder)
    teed.start(orders.command, stdout=slave)
    os.close(slave)
    orders.give("a", 10)
    _read_until(master, lines("a", 10).replace(b"\n", b"\r\n"))
    os.close(master)
    orders.give("b", 10_000)
    wait_for(lambda: teed.said() == lines("a", 10) + lines("b", 10_000))
    orders.finish()


def test_ctrl_c_reaches_the_command_and_not_the_tee(teed: Teed) -> None:
    master, slave = pty.openpty()
    os.mkfifo(teed.folder / "go")
    process = teed.start(
        "trap 'echo caught it' INT; echo ready; while ! read -t 5 word <>go; do :; done; echo still here; exit 7",
        stdin=slave, stdout=slave, preexec_fn=_take_terminal,
    )
    os.close(slave)
    _read_until(master, b"ready\r\n")
    os.write(master, b"\x03")
    wait_for(lambda: b"caught it" in teed.said())
    assert process.poll() is None
    (teed.folder / "go").write_text("on\n")
    assert process.wait(10) == 7
    assert teed.said().endswith(b"still here\n")
    os.close(master)


def _take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read_until(master: int, wanted: bytes) -> bytes:
    """What the terminal shows up to `wanted`."""
    os.set_blocking(master, False)
    shown = bytearray()

    def found() -> bool:
        try:
            while True:
                shown.extend(os.read(master, 65536))
        except BlockingIOError:
            return wanted in shown

    wait_for(found, 15, f"{wanted!r} was not shown")
    return bytes(shown)
