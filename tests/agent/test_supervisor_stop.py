"""Stopping: what is asked, what is killed, and that nothing is left. And what typing in the window does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from remote_agent import processes
from tests.support.supervised import Supervised
from tests.support.waiting import wait_for

Launch = Callable[..., Supervised]

#: Ten processes: children, sessions and groups of their own, a shell with a child, a deaf one, a daemon that has left
#: its parent and erased its environment.
FAMILY = '''
import os, signal, subprocess, sys, time
sleep = ["sleep", "600"]
for _ in range(2):
    subprocess.Popen(sleep)
for _ in range(2):
    subprocess.Popen(sleep, start_new_session=True)
subprocess.Popen(sleep, preexec_fn=lambda: os.setpgid(0, 0))
subprocess.Popen(["sh", "-c", "sleep 600; sleep 601"])
subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 600; sleep 601"])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), fd)
        os.execve("/bin/sleep", ["sleep", "602"], {})
    os._exit(0)
def end(number, frame):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True:
    time.sleep(0.1)
'''


def family(run: Supervised) -> set[int]:
    supervisor = run.state().supervisor
    assert supervisor is not None
    return set(processes.descendants(supervisor.pid))


def test_stop_leaves_none_of_ten(launched: Launch, tmp_path: Path) -> None:
    (tmp_path / "family.py").write_text(FAMILY)
    run = launched(f"python3 {tmp_path}/family.py; echo not reached")
    run.says("ready")
    daemon = wait_for(lambda: [pid for pid in family(run) if b"602" in _argv(pid)])
    everyone = family(run)
    assert len(everyone) >= 11
    run.wants_stop(grace_s=2)
    ended = run.ended()
    assert (ended.state, ended.cause) == ("stopped", "user")
    assert [pid for pid in everyone if processes.start_ticks(pid)] == []
    assert not Path(f"/proc/{daemon[0]}").exists()
    assert run.log() == "ready\nsaved\n"


def test_a_training_that_ignores_term_is_killed_after_the_grace(launched: Launch) -> None:
    run = launched("trap '' TERM; echo on; while :; do sleep 0.1; done")
    run.says("on")
    began = time.monotonic()
    run.wants_stop(grace_s=1.5)
    ended = run.ended()
    assert time.monotonic() - began > 1.5
    assert (ended.state, ended.cause, ended.signal) == ("stopped", "user", 9)


def test_a_second_stop_may_be_in_more_of_a_hurry(launched: Launch) -> None:
    run = launched("trap '' TERM; echo on; while :; do sleep 0.1; done", terminal=False)
    run.says("on")
    run.wants_stop(grace_s=600)
    wait_for(lambda: run.state().state == "stopping")
    run.wants_stop(grace_s=0.1)
    assert run.ended().signal == 9


def test_only_the_top_is_asked(launched: Launch, tmp_path: Path) -> None:
    """A loader's worker is its parent's to end; a reader behind a pipe hears the last words of who writes to it."""
    (tmp_path / "train.py").write_text(
        "import signal, subprocess, sys, time\n"
        "worker = subprocess.Popen([sys.executable, '-c', 'import signal, time\\n"
        "signal.signal(15, lambda *a: print(\"worker was asked\", flush=True))\\n"
        "print(\"worker up\", flush=True)\\n"
        "while True: time.sleep(0.05)'])\n"
        "def end(*a):\n"
        "    time.sleep(0.3)\n"
        "    worker.kill()\n"
        "    print('last words', flush=True)\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "while True: time.sleep(0.05)\n")
    run = launched(f"for i in 1 2; do python3 {tmp_path}/train.py | tee {tmp_path}/mine.log; done; echo next")
    run.says("worker up")
    run.wants_stop(grace_s=20)
    run.ended()
    assert run.log() == "worker up\nlast words\n"
    assert (tmp_path / "mine.log").read_text() == run.log()


def test_a_signal_with_the_users_word_behind_it_is_a_stop(launched: Launch) -> None:
    run = launched("trap 'exit 3' TERM; echo on; while :; do sleep 0.05; done", terminal=False)
    run.says("on")
    run.wants_stop(grace_s=5)
    os.kill(run.processes[0].pid, signal.SIGTERM)
    assert (run.ended().state, run.state().cause) == ("stopped", "user")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_without_it_is_not(launched: Launch, number: int) -> None:
    run = launched("trap 'exit 3' TERM; echo on; while :; do sleep 0.05; done", terminal=False)
    run.says("on")
    os.kill(run.processes[0].pid, number)
    assert (run.ended().state, run.state().cause) == ("failed", "session-killed")


def test_ctrl_c_reaches_the_training(launched: Launch) -> None:
    run = launched("python3 -c 'print(\"on\", flush=True); input()'")
    run.says("on")
    run.type(b"\x03")
    ended = run.ended()
    assert (ended.state, ended.cause, ended.signal) == ("stopped", "user", 2)
    assert "KeyboardInterrupt" in run.log()


def test_typing_neither_stops_nor_freezes(launched: Launch) -> None:
    run = launched("python3 -uc 'print(\"on\")\nwhile True: print(input())'")
    run.says("on")
    run.type(b"\x1a\x13\x1c\x19\n")  # Ctrl-Z, Ctrl-S, Ctrl-\, Ctrl-Y
    run.type(b"hello\n")
    run.says("hello")
    wait_for(lambda: run.window().count(b"hello") >= 2, what="the echo and the answer in the window")
    assert run.state().state == "running"
    run.wants_stop(grace_s=5)
    assert run.ended().state == "stopped"


def test_a_window_that_nobody_reads_does_not_slow_the_training(launched: Launch) -> None:
    run = launched("seq 1 300000; echo done")  # 2 MB; the window takes some kilobytes
    ended = run.ended()
    assert ended.state == "succeeded"
    assert run.log().endswith("300000\ndone\n")


def test_children_have_clean_signals_and_no_files_of_ours(launched: Launch) -> None:
    run = launched("grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; ls -l /proc/self/fd; tty")
    run.ended()
    words = run.log().split()
    assert words[words.index("SigBlk:") + 1] == "0" * 16
    libc_own = 0b11 << 31  # signals 32 and 33: glibc's posix_spawn (make's, say) leaves them ignored, and nobody can reset them
    ignored = int(words[words.index("SigIgn:") + 1], 16) & ~libc_own
    assert ignored == 1 << (signal.SIGTSTP - 1)
    assert ".supervisor.lock" not in run.log()
    assert "memfd" not in run.log()
    assert "/dev/pts/" in run.log().splitlines()[-1]


def _argv(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
