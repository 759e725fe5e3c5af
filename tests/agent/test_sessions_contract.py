"""What every session backend keeps: screen, tmux through libtmux, tmux by argv, and the detached process. All real."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remote_agent import processes
from remote_agent.protocol import AgentError
from remote_agent.sessions import Backend, Plan, base, choose, ending, places, screen, tmux
from remote_agent.sessions.detached import Detached
from remote_agent.sessions.screen import Screen
from remote_agent.sessions.tmux import Tmux
from tests.support.agentdir import oldest_python
from tests.support.programs import fake_program
from tests.support.sshd import end_processes_of
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
DEADLINE_S = 15.0
OLDEST = oldest_python()
MULTIPLEXERS: dict[str, Callable[[], Backend]] = {
    "screen": Screen, "tmux-libtmux": lambda: Tmux(by_libtmux=True), "tmux-argv": lambda: Tmux(by_libtmux=False),
}
BACKENDS = {**MULTIPLEXERS, "detached": Detached}
#: Writes what it is given and what it sees, then stays.
WITNESS = """\
import json, os, signal, sys, time
seen = {"argv": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd(), "tty": os.isatty(0),
        "fds": [os.readlink("/proc/self/fd/" + n) for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)],
        "ignored": [n for n in (1, 2, 15) if signal.getsignal(n) is signal.SIG_IGN]}
with open(sys.argv[1] + ".part", "w") as stream:
    json.dump(seen, stream)
os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(600)
"""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A box's home of its own, as short as a real one; what lives there in the end is killed."""
    home = Path(tempfile.mkdtemp(prefix="家 "))
    monkeypatch.setenv("HOME", str(home))
    for name in ("STY", "TMUX", "SCREENDIR", "LC_ALL"):
        monkeypatch.delenv(name, raising=False)
    yield home
    end_processes_of(home)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param]()


@pytest.fixture(params=list(MULTIPLEXERS))
def multiplexer(request: pytest.FixtureRequest) -> Backend:
    return MULTIPLEXERS[request.param]()


def plan(home: Path, name: str = "train1", train: list[str] | None = None, **more: object) -> Plan:
    stay = ["sleep", "600"]
    given = {"name": name, "train": train or stay, "monitor": stay, "log": stay, "cwd": str(home), "env": {},
             "screenrc": str(ROOT / "templates/screenrc"), "tmux_conf": str(ROOT / "templates/tmux.conf")}
    return Plan(**{**given, **more})  # type: ignore[arg-type]


def witness(path: Path, *argv: str) -> list[str]:
    return [sys.executable, "-c", WITNESS, str(path), *argv]


def account_of(path: Path) -> dict[str, object]:
    wait_for(path.exists, what="the program ran")
    return dict(json.loads(path.read_text()))


def everything_of(home: Path) -> list[int]:
    """Processes that carry this home, the test itself not among them."""
    mark = f"HOME={home}".encode()
    found = []
    for pid in processes.pids():
        try:
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") and processes.start_ticks(pid):
                found.append(pid)
        except OSError:
            continue
    return found


def code_of(refused: Callable[[], object]) -> str:
    with pytest.raises(AgentError) as raised:
        refused()
    return raised.value.code


# ------------------------------------------------------------------------------------- start, find, end


def test_only_the_exact_name_is_found_ended_and_refused(backend: Backend, home: Path) -> None:
    started = backend.start(plan(home, "train10"), DEADLINE_S)
    assert backend.find("train10") == started
    assert processes.start_ticks(started.pid)
    for near in ("train1", "train", "rain10", "train100", "TRAIN10"):
        assert backend.find(near) is None
        backend.end(near)
    assert backend.find("train10") == started
    other = backend.start(plan(home, "train1"), DEADLINE_S)
    assert code_of(lambda: backend.start(plan(home, "train10"), DEADLINE_S)) == "session-exists"
    backend.end("train1")
    assert backend.find("train1") is None
    assert not processes.start_ticks(other.pid)
    assert backend.find("train10") == started
    backend.end("train10")
    assert everything_of(home) == []
    backend.end("train10")
    again = backend.start(plan(home, "train10"), DEADLINE_S)
    assert again.pid != started.pid


def test_the_program_sees_its_arguments_and_a_clean_world(backend: Backend, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    awkward = ["a b", "$HOME", "^b", '"q"', "it's", "中文", "end;", ";", "#{pid}", "%n", "back\\slash", "", "two\nlines", "-x"]
    for name in ("STY", "TMUX", "WINDOW", "SSH_TTY"):
        monkeypatch.setenv(name, "leaked")
    lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(lock, True)
    fcntl.flock(lock, fcntl.LOCK_EX)
    workdir = home / "wd #S $x"
    workdir.mkdir()
    seen_path = home / "seen"
    backend.start(plan(home, train=witness(seen_path, *awkward), cwd=str(workdir), env={"FIXED": "fünf"}), DEADLINE_S)
    seen = account_of(seen_path)
    assert seen["argv"] == awkward
    assert seen["cwd"] == str(workdir)
    env = seen["env"]
    assert isinstance(env, dict)
    assert env["FIXED"] == "fünf"
    assert env["SHELL"] == os.environ.get("SHELL", "/bin/bash")
    assert "UTF-8" in env["LC_CTYPE"].upper() or "UTF8" in env["LC_CTYPE"].upper()
    leaked = {"STY", "TMUX", "TMUX_PANE", "WINDOW", "SCREENDIR", "SYSSCREENRC", "TERMCAP", "SSH_TTY"} & env.keys()
    assert leaked == set()
    assert not [name for name in env if name.startswith("CLOUDRUN_")]
    assert seen["ignored"] == []
    assert seen["tty"] is (backend.name != "detached")
    if backend.name == "detached":
        assert seen["fds"] == ["/dev/null"] * 3
    os.close(lock)
    free = os.open(home / "lock", os.O_RDWR)
    fcntl.flock(free, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nothing that was started holds it
    os.close(free)


def test_the_windows_beside_see_their_arguments_too(multiplexer: Backend, home: Path) -> None:
    awkward = ["a b", "$HOME ^b", '"q"', "中文;", "back\\slash"]
    found = multiplexer.start(plan(home, monitor=witness(home / "m", *awkward), log=witness(home / "l", "log")), DEADLINE_S)
    assert account_of(home / "m")["argv"] == awkward
    assert account_of(home / "l")["argv"] == ["log"]
    assert len(processes.children()[found.pid]) == 3


def test_a_folder_whose_name_has_a_line_break(backend: Backend, home: Path) -> None:
    folder = home / "two\nlines"
    folder.mkdir()
    found = backend.start(plan(home, cwd=str(folder), train=witness(home / "t")), DEADLINE_S)
    assert account_of(home / "t")["cwd"] == str(folder)
    assert backend.find("train1") == found
    backend.end("train1")
    assert everything_of(home) == []


def test_what_libtmux_cannot_read_costs_no_session(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It splits what tmux prints by lines: a folder with a line break in its name, entered in time, is a field too few."""
    import libtmux

    making = libtmux.Server.new_session

    def unreadable(*words: Any, **settings: Any) -> None:
        making(*words, **settings)
        raise ValueError("zip() argument 2 is shorter than argument 1")

    monkeypatch.setattr(libtmux.Server, "new_session", unreadable)
    found = tmux.Tmux(by_libtmux=True).start(plan(home), DEADLINE_S)
    assert len(processes.children()[found.pid]) == 3  # the windows beside are there as well


@pytest.mark.parametrize("program", [["/no/such/program"], ["false"]])
def test_a_program_that_ends_at_once_is_a_failed_start(backend: Backend, home: Path, program: list[str]) -> None:
    if backend.name == "detached":  # it did start; that it ended is the caller's to see
        found = backend.start(plan(home, train=program), DEADLINE_S)
        wait_for(lambda: not processes.start_ticks(found.pid))
    else:
        assert code_of(lambda: backend.start(plan(home, train=program), DEADLINE_S)) == "session-start-failed"
    assert backend.find("train1") is None
    backend.end("train1")
    assert everything_of(home) == []


def test_a_killed_session_is_seen_as_gone_and_its_name_is_free(backend: Backend, home: Path) -> None:
    found = backend.start(plan(home), DEADLINE_S)
    os.kill(found.pid, signal.SIGKILL)
    wait_for(lambda: backend.find("train1") is None)
    assert backend.start(plan(home), DEADLINE_S).pid != found.pid
    backend.end("train1")
    assert backend.find("train1") is None


def test_the_session_goes_when_the_train_window_is_killed(multiplexer: Backend, home: Path) -> None:
    run_dir = home / "run"
    run_dir.mkdir()
    agent = [sys.executable, "-m", "remote_agent", "window"]
    windows = {"monitor": [*agent, "monitor"], "log": [*agent, "log", str(run_dir)]}
    found = multiplexer.start(plan(home, cwd=str(ROOT), **windows), DEADLINE_S)
    train = min(processes.children()[found.pid])
    os.kill(train, signal.SIGKILL)
    wait_for(lambda: multiplexer.find("train1") is None, what="the session's end")
    wait_for(lambda: everything_of(home) == [], what="no process left")


def test_a_window_beside_whose_program_dies_shows_it_again(multiplexer: Backend, home: Path) -> None:
    multiplexer.start(plan(home, monitor=witness(home / "first")), DEADLINE_S)
    account_of(home / "first")
    (home / "first").unlink()
    program = next(pid for pid in everything_of(home) if str(home / "first").encode() in argv_of(pid)[3:4])
    loop = processes.parent(program)
    assert loop is not None
    os.kill(program, signal.SIGKILL)
    pause = wait_for(lambda: [pid for pid in processes.children().get(loop, []) if argv_of(pid)[:1] == [b"sleep"]])
    assert multiplexer.find("train1") is not None
    os.kill(pause[0], signal.SIGKILL)  # the test does not wait the pause out
    account_of(home / "first")


def test_what_ignores_the_hang_up_is_ended_all_the_same(backend: Backend, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote_agent.sessions.ending.GRACE_S", 0.3)
    stubborn = ["/bin/sh", "-c", "trap '' HUP TERM INT; setsid sleep 600 & echo $! >child; while :; do sleep 1; done"]
    backend.start(plan(home, train=stubborn), DEADLINE_S)
    wait_for(lambda: (home / "child").exists() and (home / "child").read_text())
    backend.end("train1")
    assert backend.find("train1") is None
    assert everything_of(home) == []


def test_a_hanging_nvidia_smi_in_the_monitor_does_not_hold_up_the_end(home: Path) -> None:
    """In a session of its own, as the monitor starts it: no hang-up reaches it."""
    smi = fake_program(home / "bin", "nvidia-smi", "trap '' HUP INT TERM\nsleep 600\nsleep 600\n")
    Screen().start(plan(home, monitor=["setsid", "-w", str(smi)]), DEADLINE_S)
    wait_for(lambda: [pid for pid in everything_of(home) if processes.name(pid) == "nvidia-smi"], what="the monitor looks")
    began = time.monotonic()
    Screen().end("train1")
    assert time.monotonic() - began < ending.GRACE_S / 2
    wait_for(lambda: everything_of(home) == [], what="it is killed with what it started")


def test_a_program_may_end_the_session_it_lives_in(backend: Backend, home: Path) -> None:
    code = ("import os, signal, sys; sys.path.insert(0, sys.argv[1])\n"
            "from remote_agent import sessions\n"
            "signal.signal(signal.SIGHUP, lambda *_: None)\n"
            "while not os.path.exists('go'): signal.sigtimedwait([signal.SIGUSR1], 0.02)\n"
            "sessions.backend(sys.argv[2]).end('train1')\n"
            "open('ended', 'w').close()")
    backend.start(plan(home, train=[sys.executable, "-c", code, str(ROOT), backend.name]), DEADLINE_S)
    (home / "go").touch()
    wait_for((home / "ended").exists, what="end() came back to the supervisor")
    wait_for(lambda: everything_of(home) == [], what="no process left")
    assert backend.find("train1") is None


# ------------------------------------------------------------------------------- places, others' sessions


def test_the_users_own_sessions_and_settings_are_untouched(
    multiplexer: Backend, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".screenrc").write_text("screen -t poison touch poisoned\n")
    (home / ".tmux.conf").write_text("run-shell 'touch poisoned'\n")
    users = tmp_path / "u"
    users.mkdir(mode=0o700)
    monkeypatch.setenv("SCREENDIR", str(users))
    monkeypatch.setenv("TMUX_TMPDIR", str(users))
    subprocess.run(["screen", "-c", "/dev/null", "-dmS", "train1", "sleep", "600"], check=True)
    subprocess.run(["tmux", "-f", "/dev/null", "new-session", "-d", "-s", "train1", "sleep 600"], check=True)
    wait_for(lambda: any(users.glob("*.train1")))
    theirs = sorted(everything_of(home))
    assert len(theirs) == 4
    assert multiplexer.find("train1") is None
    multiplexer.end("train1")
    multiplexer.start(plan(home), DEADLINE_S)
    multiplexer.end("train1")
    assert sorted(everything_of(home)) == theirs
    assert not (home / "poisoned").exists()
    assert stat.S_IMODE(users.stat().st_mode) == 0o700


def test_a_home_too_long_for_a_socket_gets_a_private_place(
    multiplexer: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("deep" * 20)
    deep.mkdir()
    monkeypatch.setenv("HOME", str(deep))
    name = "n" * 63
    try:
        found = multiplexer.start(plan(deep, name), DEADLINE_S)
        assert multiplexer.find(name) == found
        place = Path(places.existing(multiplexer.name)[-1])
        assert place.parts[:2] == ("/", "tmp")
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        multiplexer.end(name)
        assert everything_of(deep) == []
        assert not place.parent.exists()  # nothing is left in /tmp when the last session has gone
        # What somebody else may have put there is not trusted: neither used nor mended. The next place serves.
        place.parent.symlink_to(tmp_path)
        mode = stat.S_IMODE(tmp_path.stat().st_mode)
        found = multiplexer.start(plan(deep, name), DEADLINE_S)
        assert multiplexer.find(name) == found
        assert [Path(path).parts[:3] for path in places.existing(multiplexer.name)] == [("/", "var", "tmp")]
        assert stat.S_IMODE(tmp_path.stat().st_mode) == mode
        multiplexer.end(name)
        place.parent.unlink()
        assert places.existing(multiplexer.name) == []
    finally:
        end_processes_of(deep)


def test_a_home_that_was_opened_to_everybody_loses_no_session(multiplexer: Backend, home: Path) -> None:
    """`chmod -R 777 ~`: screen then neither lists its own socket nor heeds it. What others may have put there goes."""
    found = multiplexer.start(plan(home), DEADLINE_S)
    subprocess.run(["chmod", "-R", "777", str(home)], check=True)
    folder = home / ".cloudrun" / multiplexer.name
    with socket.socket(socket.AF_UNIX) as planted:
        planted.bind(str(folder / "planted"))
    os.chown(folder / "planted", 65534, 65534)
    assert multiplexer.find("train1") == found
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent)] == [0o700, 0o700]
    assert not (folder / "planted").exists()
    multiplexer.end("train1")
    assert everything_of(home) == []


def test_a_failed_start_and_a_killed_session_leave_nothing_in_tmp(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("deep" * 20)
    deep.mkdir()
    monkeypatch.setenv("HOME", str(deep))
    try:
        assert code_of(lambda: backend.start(plan(deep, cwd="/no/such/folder"), 3.0)) == "session-start-failed"
        assert places.existing(backend.name) == []
        found = backend.start(plan(deep, "killed"), DEADLINE_S)
        other = backend.start(plan(deep, "other"), DEADLINE_S)
        os.kill(found.pid, signal.SIGKILL)
        wait_for(lambda: backend.find("killed") is None, what="the killed one is gone")
        assert backend.find("other") == other
        backend.end("other")
        assert places.existing(backend.name) == []
    finally:
        end_processes_of(deep)


def test_an_unsearchable_socket_folder_of_the_system_does_not_matter(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours is private: what stands in /run/screen, and a SCREENDIR of the wrong mode, play no part."""
    wrong = home / "wrong"
    wrong.mkdir(mode=0o755)
    monkeypatch.setenv("SCREENDIR", str(wrong))
    Screen().start(plan(home), DEADLINE_S)
    assert Screen().find("train1") is not None
    assert stat.S_IMODE(wrong.stat().st_mode) == 0o755


def test_two_screens_of_one_name_are_refused_with_their_pids(home: Path) -> None:
    first = Screen().start(plan(home), DEADLINE_S)
    env = {**os.environ, "SCREENDIR": str(home / ".cloudrun/screen")}
    subprocess.run(["screen", "-c", "/dev/null", "-dmS", "train1", "sleep", "600"], env=env, check=True)
    wait_for(lambda: len(list(Path(env["SCREENDIR"]).glob("*.train1"))) == 2)
    with pytest.raises(AgentError) as raised:
        Screen().find("train1")
    assert raised.value.code == "session-ambiguous"
    assert first.pid in raised.value.params["pids"]
    assert len(raised.value.params["pids"]) == 2


def test_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose("auto") == "screen"
    assert choose("tmux") == "tmux"
    monkeypatch.setattr("remote_agent.sessions.environment.program", lambda name: None)
    assert choose("auto") is None
    assert choose("detached") == "detached"
    assert code_of(lambda: choose("screen")) == "backend-missing"


def test_libtmux_serves_where_the_python_is_new_enough() -> None:
    assert tmux._libtmux_is_there() is (sys.version_info >= (3, 10))


@pytest.mark.skipif(OLDEST is None, reason="there is no Python 3.8 on this machine")
def test_the_same_on_python_3_8(home: Path) -> None:
    code = ("import sys; sys.path.insert(0, sys.argv[1])\n"
            "from remote_agent.sessions import Plan, backend\n"
            "for name in ('screen', 'tmux', 'detached'):\n"
            "    b, stay = backend(name), ['sleep', '600']\n"
            "    t = sys.argv[1] + '/templates/'\n"
            "    f = b.start(Plan('train1', stay, stay, stay, '/tmp', {}, t + 'screenrc', t + 'tmux.conf', '^Jj'), 15)\n"
            "    assert b.find('train1') == f and b.find('train') is None\n"
            "    if name != 'detached': assert b.leave_keys('train1') == 'Ctrl-j d', b.leave_keys('train1')\n"
            "    b.end('train1'); assert b.find('train1') is None\n"
            "    print(name, 'libtmux' in sys.modules)")
    done = subprocess.run([str(OLDEST), "-I", "-c", code, str(ROOT)], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["screen False", "tmux False", "detached False"], done.stderr
    assert everything_of(home) == []


# ------------------------------------------------------------------------------------------- parsers


def test_screens_listing() -> None:
    text = (
        "There are screens on:\r\n"
        "\t13345.exp1.v2\t(11/30/26 23:43:18)\t(Detached)\n"
        "\t13339.exp1\t(11/30/26 23:43:18)\t(Attached)\n"
        "\t13401.exp3\t(Multi, detached)\n"
        "\t13877.exp2\t(11/30/26 23:43:51)\t(Dead ???)\n"
        "\t13388.my run\t(2026年11月30日 23时43分21秒)\t(Detached)\n"
        "\t13391.-foo\t(11/30/26 23:43:21)\t(Detached)\n"
        "Remove dead screens with 'screen -wipe'.\r\n"
        "6 Sockets in /run/screen/S-root.\r\n"
    )
    rows = screen.parse_listing(text)
    assert [row.name for row in rows if row.alive] == ["exp1.v2", "exp1", "exp3", "my run", "-foo"]
    assert [row.name for row in rows if not row.alive] == ["exp2"]
    assert [row.id for row in rows if row.attached] == ["13339.exp1"]
    assert screen.parse_listing("No Sockets found in /tmp/x.\n\n") == []


def test_other_listings() -> None:
    assert screen.parse_version("Screen version 4.09.00 (GNU) 30-Jan-22\n") == "4.09.00"
    assert tmux.parse_version("tmux 3.3a\n") == "3.3a"
    assert tmux.parse_version("tmux next-3.4\n") == "next-3.4"
    assert tmux.parse_listing("512 0 train10\n512 2 my run\nno server running on /x\n") == [
        tmux.Row(512, 0, "train10"), tmux.Row(512, 2, "my run")]


@pytest.mark.parametrize(("escape", "keys"), [("^Jj", ("j", "j")), ("^a1", ("a", "1")), (None, None)])
def test_escape(escape: str | None, keys: tuple[str, str] | None) -> None:
    assert base.check_escape(escape) == keys


@pytest.mark.parametrize("escape", ["^C1", "^Mm", "^dd", "Jj", "^J", "^Jj;", "^J\n", "", "^^a"])
def test_escape_refused(escape: str, home: Path) -> None:
    assert code_of(lambda: base.check_escape(escape)) == "escape-invalid"


def argv_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return []
