"""What the windows beside the train window show: the cards, and the log on through parts and attempts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote_agent import layout, processes
from remote_agent.protocol import GPU_STATES, Gpu, GpuReport
from remote_agent.sessions import environment
from remote_agent.sessions.log_window import Reader
from remote_agent.sessions.monitor import _WHY, page, pause_s
from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path: Path) -> layout.Run:
    (tmp_path / "exp" / "logs").mkdir(parents=True)
    return layout.Run(str(tmp_path / "exp"))


def write(path: str, data: bytes) -> None:
    with open(path, "ab") as stream:
        stream.write(data)


def test_the_log_goes_on_through_parts_and_attempts(run: layout.Run) -> None:
    reader = Reader(run)
    assert reader.read() == b""  # no log yet
    write(run.log(1), b"old\n")
    write(run.log(2), b"".join(b"line %d\n" % number for number in range(1000)))
    first = reader.read()
    assert first.startswith(b"----- attempt 2 -----\r\nline 800\n")
    assert first.endswith(b"line 999\n")
    assert reader.read() == b""
    end = os.path.getsize(run.log(2))
    write(run.log(2), b"half")
    assert reader.read() == b"half"
    write(f"{run.log(2)}.{end + 4}", b" and half\n")  # the next part
    assert reader.read() == b" and half\n"
    later = end + 4 + 10
    write(f"{run.log(2)}.{later}", b"lost\n")
    os.rename(f"{run.log(2)}.{later}", f"{run.log(2)}.{later + 5}")  # rotation took a part of five bytes away
    assert reader.read() == b"\r\n[5 bytes of the log were not kept]\r\n"
    assert reader.read() == b"lost\n"
    write(run.log(2), b"")
    write(run.log(3), b"again\n")
    write(f"{run.log(2)}.{later + 10}", b"last words\n")
    assert reader.read() == b"last words\n"  # of the old attempt, before the new one begins
    assert reader.read() == b"\r\n----- attempt 3 -----\r\n"
    assert reader.read() == b"again\n"
    os.unlink(run.log(3))
    assert reader.read() == b""


def test_a_huge_log_is_not_read_whole(run: layout.Run) -> None:
    with open(run.log(1), "wb") as stream:
        stream.truncate(50 << 30)
    assert len(Reader(run).read()) < 100_000


@pytest.fixture
def window(run: layout.Run) -> Iterator[Terminal]:
    terminal = Terminal([sys.executable, "-m", "remote_agent", "window", "log", run.path], cwd=ROOT, env=dict(os.environ))
    yield terminal
    terminal.close()


def test_the_log_window_follows_and_keeps_keys_to_itself(run: layout.Run, window: Terminal) -> None:
    write(run.log(1), "第1轮 \x1b[6n\n".encode())
    window.shows("第1轮")
    window.type(b"typed\x1b[3;1R\r")
    write(run.log(1), b"and more\n")
    window.shows("and more")
    assert "typed" not in window.picture()
    assert window.process.poll() is None


def test_the_monitors_page() -> None:
    card = Gpu(0, "NVIDIA GeForce RTX 4090", 53.0, 12 << 30, 24 << 30, 61.0, 287.4)
    unknown = Gpu(None, None)
    text = page(GpuReport("ok", [card, unknown]), "2026-12-01T00:00:00Z", 80)
    assert "0  NVIDIA GeForce RTX 4090   61 °C  287 W" in text
    assert "[###########.........]  53 %" in text
    assert "[##########..........] 12.0 / 24.0 GiB" in text
    assert text.count("unknown") == 4  # its name, its use, its memory used and total; never 0
    assert " 0 %" not in text
    assert text.startswith("\x1b[H")
    assert all(len(line.replace("\x1b[K", "").replace("\x1b[H", "")) < 80 for line in text.split("\r\n"))


def test_the_monitor_looks_less_often_where_looking_is_dear() -> None:
    well, hanging = GpuReport("ok", [Gpu(0, "A100")]), GpuReport("timeout", detail="hangs")
    assert [pause_s(well, took_s) for took_s in (0.05, 0.5, 3.0)] == [5.0, 5.0, 30.0]
    assert (pause_s(hanging, 0.0), pause_s(hanging, 10.0)) == (60.0, 100.0)
    assert "nvidia-smi is slow here: asked every 30 s" in page(well, "now", 200, 30.0)
    assert "slow" not in page(well, "now", 200, 5.0)


def test_every_state_of_a_broken_driver_has_its_words() -> None:
    assert set(_WHY) == set(GPU_STATES) - {"ok"}
    assert len(set(_WHY.values())) == len(_WHY)
    text = page(GpuReport("gpu-lost", detail="GPU is lost"), "now", 200)
    assert _WHY["gpu-lost"] in text
    assert "GPU is lost" in text


def test_a_window_beside_goes_although_its_train_is_left_a_zombie() -> None:
    """tmux may not reap it while windows are left, and these waited for it to be gone."""
    with subprocess.Popen(["sleep", "60"]) as train:
        ref = processes.ref(train.pid)
        assert ref is not None
        beside = environment.beside(["sh", "-c", "echo shown; read rest; exit 4"], "/", ref.pid, ref.start_ticks)
        with subprocess.Popen(beside, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as window:
            assert window.stdout is not None
            assert window.stdin is not None
            assert window.stdout.readline() == b"shown\n"
            train.send_signal(signal.SIGKILL)
            os.waitid(os.P_PID, train.pid, os.WEXITED | os.WNOWAIT)  # ended, and not reaped
            window.stdin.close()
            try:
                assert window.wait(4) == 0
            finally:
                window.kill()


def test_a_pid_that_came_again_is_not_the_train() -> None:
    beside = environment.beside(["echo", "shown"], "/", os.getpid(), 1)
    done = subprocess.run(beside, stdout=subprocess.PIPE, timeout=4, check=True)
    assert done.stdout == b""
