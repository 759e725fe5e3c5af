"""Attaching on the box with a real terminal: what is seen, what keys do and do not, and that no client can hold up a writer."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote_agent import processes
from remote_agent.sessions import Backend, Plan, terminal
from remote_agent.sessions.detached import Detached
from remote_agent.sessions.screen import Screen
from remote_agent.sessions.tmux import Tmux
from tests.support.sshd import end_processes_of
from tests.support.terminal import Terminal
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
BACKENDS: dict[str, Callable[[], Backend]] = {"screen": Screen, "tmux": Tmux}
PREFIX = {"screen": b"\x01", "tmux": b"\x02"}
#: Says what it is, its size, and each Ctrl-C; stays.
TALKER = """\
import os, signal, sys
signal.signal(signal.SIGINT, lambda *_: print("caught Ctrl-C", flush=True))
signal.signal(signal.SIGWINCH, lambda *_: print("columns", os.get_terminal_size().columns, flush=True))
print("训练 ready", os.environ["TERM"], flush=True)
while True:
    line = sys.stdin.readline()
    print("read", line.strip(), flush=True)
"""
#: Fills its terminal without ever waiting for it, and counts its rounds in a file.
WRITER = """\
import os, sys, time
tty = os.open(os.ttyname(1), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
count = 0
while True:
    count += 1
    try:
        os.write(tty, b"step %d " % count + b"x" * 2000 + b"\\r\\n")
    except BlockingIOError:
        pass
    with open(sys.argv[1], "r+b" if count > 1 else "wb") as stream:
        stream.write(b"%d" % count)
    time.sleep(0.001)
"""


def press(client: Terminal, prefix: bytes, key: bytes) -> None:
    """A command key as a hand presses it: tmux takes what comes faster than that for pasted text."""
    client.pump(0.02)
    client.type(prefix)
    client.pump(0.02)
    client.type(key)
    client.pump(0.02)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    home = tmp_path / "h"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("STY", "TMUX", "SCREENDIR", "LC_ALL", "LANG"):
        monkeypatch.delenv(name, raising=False)
    yield home
    end_processes_of(home)


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param]()


def start(backend: Backend, home: Path, code: str, *argv: str, escape: str | None = None) -> int:
    stay = ["sleep", "600"]
    agent = [sys.executable, "-m", "remote_agent", "window"]
    plan = Plan("train1", [sys.executable, "-c", code, *argv], [*agent, "monitor"], stay, str(ROOT), {},
                str(ROOT / "templates/screenrc"), str(ROOT / "templates/tmux.conf"), escape)
    return backend.start(plan, 15).pid


@pytest.fixture
def attach(home: Path) -> Iterator[Callable[..., Terminal]]:
    opened = []

    def open_(*options: str, term: str = "xterm-256color") -> Terminal:
        argv = [sys.executable, "-m", "remote_agent", "attach", "--run", "train1", *options]
        client = Terminal(argv, cwd=ROOT, env={**os.environ, "TERM": term})
        opened.append(client)
        return client

    yield open_
    for client in opened:
        if client.process.poll() is None:
            client.process.send_signal(signal.SIGCONT)
        client.close()


def test_seen_typed_left_and_nothing_killed(backend: Backend, home: Path, attach: Callable[..., Terminal]) -> None:
    server = start(backend, home, TALKER)
    prefix = PREFIX[backend.name]
    client = attach()
    client.shows("训练 ready screen-256color")
    client.shows("monitor")
    client.type(b"hello\r")
    client.shows("read hello")
    client.resize(80, 20)
    client.shows("columns 80")
    client.type(b"\x03")
    client.shows("caught Ctrl-C")
    for key in (b"k", b"K", b"\x0b", b"\\", b"\x1c", b"x", b"&", b"\x1a", b"z", b"D", b"H", b"h", b"\x18"):
        press(client, prefix, key)
        press(client, b"y", b"\r")
    client.type(b"\x13\x11last\r")
    client.shows("read last")
    assert len(processes.children()[server]) == 3
    assert [name for name in os.listdir(ROOT) if name.startswith(("screenlog", "hardcopy"))] == []
    found = backend.find("train1")
    assert found is not None
    assert found.clients == 1
    press(client, prefix, b"d")
    client.ends()
    found = backend.find("train1")
    assert found is not None
    assert found.clients == 0
    assert backend.leave_keys("train1") == {"screen": "Ctrl-a d", "tmux": "Ctrl-b d"}[backend.name]


def test_the_monitor_window_says_what_is_wrong_without_a_gpu(
    backend: Backend, home: Path, attach: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = home / "bin"
    empty.mkdir()
    (empty / "nvidia-smi").write_text("#!/bin/sh\necho 'No devices were found' >&2; exit 6\n")
    (empty / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{empty}:{os.environ['PATH']}")
    start(backend, home, TALKER)
    client = attach()
    client.shows("ready")
    press(client, PREFIX[backend.name], b"1")
    client.shows("No GPU here")
    client.type(b"\x03\x03keys are not shown here")
    press(client, PREFIX[backend.name], b"0")
    client.shows("ready")
    assert "keys are not shown" not in client.picture()


def test_the_escape_key_can_be_chosen(backend: Backend, home: Path, attach: Callable[..., Terminal]) -> None:
    start(backend, home, TALKER, escape="^Xx")
    client = attach()
    client.shows("ready")
    assert backend.leave_keys("train1") == "Ctrl-x d"
    press(client, PREFIX[backend.name], b"d\r")
    client.shows("read")  # the usual key is a letter like any other
    press(client, b"\x18", b"d")
    client.ends()


def test_elsewhere_is_refused_shared_or_taken(backend: Backend, home: Path, attach: Callable[..., Terminal]) -> None:
    start(backend, home, TALKER)
    first = attach()
    first.shows("ready")
    second = attach()
    assert second.ends() == 42
    assert "attached elsewhere" in second.picture()
    third = attach("--mode", "shared")
    third.shows("ready")
    third.type(b"both\r")
    first.shows("read both")
    press(third, PREFIX[backend.name], b"d")
    third.ends()
    fourth = attach("--mode", "take")
    fourth.shows("ready")
    first.ends()
    assert fourth.process.poll() is None


@pytest.mark.parametrize("term", ["xterm-kitty-of-mine", "dumb", ""])
def test_a_terminal_unknown_here_falls_back(
    backend: Backend, home: Path, attach: Callable[..., Terminal], term: str
) -> None:
    start(backend, home, TALKER)
    client = attach(term=term)
    client.until(lambda: b"xterm-256color is used" in client.raw)
    client.shows("训练 ready")
    assert client.raw.count(b"is used") == 1


def test_no_session_no_terminal_no_way_in(home: Path, attach: Callable[..., Terminal]) -> None:
    gone = attach()
    assert gone.ends() == 41
    assert "not there any more" in gone.picture()
    start(Detached(), home, "import time; time.sleep(600)")
    watched = attach()
    assert watched.ends() == 43
    assert "watched" in watched.picture()


@pytest.mark.parametrize("client_does", ["scrollback", "ctrl-s", "stopped", "killed"])
def test_no_client_holds_up_the_writer(
    backend: Backend, home: Path, attach: Callable[..., Terminal], client_does: str
) -> None:
    count = home / "count"
    start(backend, home, WRITER, str(count))
    client = attach()
    client.shows("step")
    prefix = PREFIX[backend.name]
    if client_does == "scrollback":
        press(client, prefix, b"[")
        client.pump(0.3)
    elif client_does == "ctrl-s":
        client.type(b"\x13")
    elif client_does == "stopped":
        client.process.send_signal(signal.SIGSTOP)
    else:
        client.process.kill()
    # From here on nobody reads the client's terminal either. Well over a terminal's buffer of output goes by.
    before = int(count.read_bytes())
    wait_for(lambda: int(count.read_bytes() or b"0") > before + 700, timeout_s=10, what="the writer went on at its pace")
    assert backend.find("train1") is not None
    client.process.send_signal(signal.SIGCONT)
    backend.end("train1")
    assert backend.find("train1") is None


def test_a_taken_over_session_does_not_wait_for_a_client_that_hangs(
    backend: Backend, home: Path, attach: Callable[..., Terminal]
) -> None:
    start(backend, home, TALKER)
    dead = attach()
    dead.shows("ready")
    dead.process.send_signal(signal.SIGSTOP)
    heir = attach("--mode", "take")
    heir.type(b"heir\r")
    heir.shows("read heir")


# ------------------------------------------------------------------------- a terminal that is not ours


RELAYED = """\
import os, sys
sys.path.insert(0, sys.argv[1])
import remote_agent.gpu, remote_agent.programs, locale
from remote_agent import sessions
for name in sessions.NAMES:
    sessions.backend(name)
from remote_agent.sessions import relay
from remote_agent.sessions.attach import main
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
else:
    os.chmod(os.ttyname(0), 0)
assert relay.needed(0)
sys.exit(main(sys.argv[2:]))
"""


def test_a_terminal_of_another_user_is_worked_around(
    backend: Backend, attach: Callable[..., Terminal], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `su`: the terminal is open, and cannot be opened by its name."""
    other = Path(f"/tmp/cloudrun-test-{os.getpid()}-{backend.name}")
    other.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(other))
    try:
        start_as_other(backend, other)
        client = Terminal([sys.executable, "-c", RELAYED, str(ROOT), "--run", "train1"], cwd=Path("/"),
                          env={**os.environ, "TERM": "xterm"})
        try:
            client.shows("训练 ready")
            client.type("中文\r".encode())
            client.shows("read 中文")
            client.resize(70, 20)
            client.shows("columns 70")
            client.type(b"\x03")
            client.shows("caught Ctrl-C")
            assert "Cannot open" not in client.picture()
            press(client, PREFIX[backend.name], b"d")
            assert client.ends() == 0
        finally:
            client.close()
    finally:
        end_processes_of(other)
        for path in sorted(other.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        other.rmdir()


def start_as_other(backend: Backend, other: Path) -> None:
    """Starts the session as the user that attaches: `nobody` where the suite runs as root."""
    pid = os.fork()
    if pid == 0:
        try:
            if os.getuid() == 0:
                os.chown(other, 65534, 65534)
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            stay = ["sleep", "600"]
            backend.start(Plan("train1", ["/usr/bin/python3", "-c", TALKER], stay, stay, str(other), {},
                               str(ROOT / "templates/screenrc"), str(ROOT / "templates/tmux.conf")), 15)
            os._exit(0)
        except BaseException as error:
            print(error, file=sys.stderr)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


def test_what_the_box_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal.known("xterm")
    assert not terminal.known("xterm-kitty-of-mine")
    assert not terminal.known("../xterm")
    assert terminal.usable_term("xterm") == "xterm"
    monkeypatch.setattr(terminal, "_FOLDERS", ())  # a terminfo that is one file: curses is asked
    assert terminal.known("xterm")
    assert not terminal.known("xterm-kitty-of-mine")
    monkeypatch.setattr(terminal, "known", lambda term, program=None: term == "xterm")
    assert terminal.usable_term("alacritty") == "xterm"
    assert terminal.window_term() == "xterm"
    name = terminal.utf8_locale()
    assert name is not None
    assert "utf" in name.lower()
