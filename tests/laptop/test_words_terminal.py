"""Chinese on a real terminal of 80 columns: wide letters break no line and no column, and the box's reasons are Chinese too."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloudrun.cli.widths import cells
from tests.support.cli import Laptop
from tests.support.programs import fake_nvidia_smi
from tests.support.waiting import wait_for

END = "---- end ----"


class Tmux:
    """One command after another in a tmux of its own, 80 columns wide."""

    def __init__(self, socket: Path) -> None:
        self._tmux = [shutil.which("tmux") or "tmux", "-u", "-S", str(socket), "-f", "/dev/null"]

    def shown(self, laptop: Laptop, *commands: list[str]) -> str:
        """What stands there after all of them; fails where the terminal itself had to break a line."""
        lines = [f"{shlex.join(laptop.argv(*words))}; echo {shlex.quote(END)}" for words in commands]
        variables = {**laptop.environment(), "TERM": "screen-256color", "LANG": "zh_CN.UTF-8", "LC_ALL": "", "PYTHONUTF8": "1"}
        subprocess.run([*self._tmux, "new-session", "-d", "-x", "80", "-y", "200", "; ".join(lines) + "; exec sleep 100"],
                       cwd=laptop.project, env=variables, check=True, timeout=20)
        wait_for(lambda: self._picture().count(END) == len(commands), 40, "the commands have ended")
        picture = self._picture()
        assert picture == self._picture("-J")
        return picture

    def _picture(self, *options: str) -> str:
        done = subprocess.run([*self._tmux, "capture-pane", "-p", *options], capture_output=True, timeout=20, check=True)
        return "\n".join(line.rstrip() for line in done.stdout.decode().splitlines())

    def end(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, timeout=20, check=False)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    server = Tmux(tmp_path / "t")
    yield server
    server.end()


def test_tables_and_pages_stand_whole_at_eighty_columns(
    cloudrun: Laptop, tmux: Tmux, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nvidia_smi(tmp_path / "bin", "No card stands here")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    cloudrun.run("host", "add", "here", "local", "--data-dir", str(tmp_path))
    cloudrun.run("launch", "exp_a", "--backend", "detached", "--", "sh", "-c", "exit 3", code=None)

    ps, gpu, doctor, page, _rest = tmux.shown(cloudrun, ["ps"], ["gpu"], ["doctor"], ["launch", "--help"]).split(END)

    head, row = ps.strip().splitlines()
    assert row.startswith("exp_a")
    assert cells(head.partition("状态")[0]) == cells(row.partition("✗ 失败")[0])
    assert cells(head.partition("详情")[0]) == cells(row.partition("退出码 3")[0])
    assert "nvidia-smi 以退出码 0 结束，但没有列出显卡；它说：No card" in gpu
    begins = [re.match(r"[✓!✗] \S+  +\S+(?: \S+)?  +", line) for line in doctor.splitlines()]
    assert len({cells(begin[0]) for begin in begins if begin}) == 1  # one column, however wide the names before it are
    assert page.strip().startswith("用法：cloudrun launch")
    assert "（默认：5）" in page
    assert max(map(cells, (ps + gpu + doctor + page).splitlines())) <= 80
