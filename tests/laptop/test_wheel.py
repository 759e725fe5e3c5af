"""The built wheel stands alone: installed into a clean environment it carries the templates and the agent, and runs a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
                   check=True, capture_output=True, timeout=100)
    return next(folder.glob("*.whl"))


def test_what_the_wheel_carries(wheel: Path) -> None:
    assert wheel.name.startswith("cloudrun_gpu-")
    names = set(zipfile.ZipFile(wheel).namelist())
    for needed in ("cloudrun/templates/run.sh.j2", "cloudrun/templates/screenrc", "cloudrun/templates/tmux.conf",
                   "cloudrun/templates/cloudrun.toml", "remote_agent/__main__.py", "remote_agent/supervise/tee.py",
                   "cloudrun/py.typed", "cloudrun/locale/zh_CN/LC_MESSAGES/cloudrun.mo", "cloudrun/templates/cloudrun.zh_CN.toml",
                   "remote_agent/locale/zh_CN/LC_MESSAGES/agent.mo"):
        assert needed in names
    assert not [name for name in names if name.startswith(("tests/", "bench/"))]


@pytest.mark.timeout(240)
def test_a_clean_environment_runs_from_it(wheel: Path, tmp_path: Path, laptop: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)  # this environment's pip installs into it
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile",
                    "--constraint", str(ROOT / "constraints.txt"), str(wheel)], check=True, timeout=200, capture_output=True)
    project, data = tmp_path / "net", tmp_path / "data"
    project.mkdir()
    data.mkdir()

    def cloudrun(*words: str, **env: str) -> str:
        done = subprocess.run([str(tmp_path / "venv" / "bin" / "cloudrun"), *words], cwd=project, capture_output=True, text=True,
                              check=False, timeout=60,
                              env={**os.environ, "PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}", "PYTHONUTF8": "1", **env})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert cloudrun("--version").startswith("cloudrun 0.")
    assert "[runs.exp_resnet50]" in cloudrun("init", "--show")
    assert "每个训练一个表" in cloudrun("init", "--show", CLOUDRUN_LANG="zh")
    assert "用法：cloudrun" in cloudrun("--help", CLOUDRUN_LANG="zh")
    cloudrun("host", "add", "here", "local", "--data-dir", str(data))
    launched = json.loads(cloudrun("launch", "from_wheel", "--json", "--backend", "detached", "--", "echo", "from the wheel"))
    assert launched["backend"] == "detached"
    cloudrun("logs", "from_wheel", "-f")
    assert "from the wheel" in cloudrun("logs", "from_wheel")
