"""The Python that a run would get, and the torch in it: a real one, and packages that play torch where a card would be needed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from cloudrun.project.runscript import activation
from cloudrun.project.settings import RunSettings
from remote_agent.checks import together, training
from remote_agent.checks.probe import Asked
from remote_agent.protocol import Check
from tests.support.programs import fake_program

VENV = str(Path(sys.executable).parent.parent)
GPU = Check("gpu", "ok", "gpu-ok", {"names": "1 x A100"})
CUDA_TORCH = """\
import warnings
__version__ = "2.4.0+cu121"
class version:
    cuda = "12.1"
class cuda:
    @staticmethod
    def is_available():
        {seen}
    @staticmethod
    def device_count():
        return 2
"""
OLD_DRIVER = (
    'warnings.warn("CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). Please update '
    'your GPU driver (Triggered internally at ../c10/cuda/CUDAFunctions.cpp:108.)")\n        return False'
)


def torch(folder: Path, body: str) -> str:
    """Text that activates a Python whose `torch` is this."""
    package = folder / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(body)
    return f"echo welcome; export PATH={Path(sys.executable).parent}:$PATH PYTHONPATH={folder}\n"


def found(activate: str) -> tuple[Check, Check]:
    first, second = training.check(Asked(activation=activate))
    return first, second


def test_the_torch_of_the_environment_that_a_run_activates() -> None:
    python, seen = found(activation(RunSettings(activate=VENV, gpus=[0]), "/root", "/root/cloudrun/net"))
    assert (python.status, python.params["path"]) == ("ok", os.path.join(VENV, "bin", "python"))
    assert (seen.status, seen.found, seen.params["cuda"]) == ("ok", "torch-cpu", None)
    assert seen.params["torch"].startswith("2.")
    (_, beside) = together.judge([GPU, seen])
    assert (beside.status, beside.found, beside.hint) == ("failure", "torch-cpu-beside-gpu", "torch-cpu-beside-gpu")
    without = Check("gpu", "warning", "gpu-no-device")
    assert together.judge([without, seen]) == [without, seen]


@pytest.mark.parametrize(("body", "status", "code"), [
    (CUDA_TORCH.format(seen="return True"), "ok", "torch"),
    (CUDA_TORCH.format(seen="return False"), "ok", "torch-idle"),
    (CUDA_TORCH.format(seen=OLD_DRIVER), "failure", "torch-driver-old"),
    ("raise ImportError('libcudnn.so.9: cannot open shared object file')", "failure", "torch-broken"),
    ("raise ImportError('cannot import name x', name='torch._C')", "failure", "torch-broken"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "failure", "torch-broken"),
    ("import no_such_module_of_torch", "failure", "torch-broken"),
])
def test_what_torch_says(tmp_path: Path, body: str, status: str, code: str) -> None:
    python, seen = found(torch(tmp_path, body))
    assert (python.status, python.found) == ("ok", "training-python")
    assert (seen.status, seen.found) == (status, code)
    assert (seen.hint is None) == (status == "ok")
    if code == "torch":
        assert (seen.params["torch"], seen.params["cuda"], seen.params["devices"]) == ("2.4.0+cu121", "12.1", 2)
        assert together.judge([GPU, seen]) == [GPU, seen]
    if code == "torch-idle":
        assert together.judge([GPU, seen])[1].found == "torch-blind"
    if code == "torch-driver-old":
        assert seen.params["driver"] == "11.4"
    if "SIGSEGV" in body:
        assert seen.params["detail"] == "signal 11"
    if "libcudnn" in body:
        assert "libcudnn.so.9: cannot open" in seen.params["detail"]


def test_an_import_that_takes_too_long_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "IMPORT_S", 0.7)
    began = time.monotonic()
    python, seen = found(torch(tmp_path, "import time; time.sleep(60)"))
    assert time.monotonic() - began < 3
    assert python.status == "ok"
    assert (seen.status, seen.found, seen.hint) == ("warning", "torch-slow", "torch-slow")


def test_no_torch_is_said(tmp_path: Path) -> None:
    empty = fake_program(tmp_path, "python", f'exec {sys.executable} -S -I "$@"\n').parent
    _, seen = found(f"export PATH={empty}:$PATH\n")
    assert (seen.status, seen.found) == ("warning", "torch-missing")


def test_a_python_that_cannot_be_had_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def only(text: str) -> Check:
        (line,) = training.check(Asked(activation=text))
        assert line.status == "failure"
        return line

    trees = f"{tmp_path}/cloudrun/net"
    missing = only(activation(RunSettings(activate=".venv"), "/root", trees))
    assert (missing.found, missing.params["detail"]) == (
        "training-python-broken", f"cloudrun: nothing to activate at {trees}/*/.venv")
    assert "no-such-env" in only(activation(RunSettings(conda_env="no-such-env"), str(tmp_path), trees)).params["detail"]
    assert only("PATH=/nowhere\n").found == "training-python-none"
    broken = fake_program(tmp_path, "python", "echo no libpython >&2; exit 1\n").parent
    assert only(f"PATH={broken}:$PATH\n").params["detail"] == "no libpython"
    monkeypatch.setattr(training, "IMPORT_S", 0.4)
    assert only("exec sleep 60\n").found == "no-answer"
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setattr(training.programs, "run", _no_bash)
    assert only("").found == "training-python-no-bash"


def _no_bash(*_: object) -> None:
    raise FileNotFoundError(2, "No such file or directory")


def test_an_environment_inside_a_tree_of_the_project_is_found(tmp_path: Path) -> None:
    environment = tmp_path / "cloudrun" / "my net" / "exp_1" / "sub" / ".venv" / "bin"
    fake_program(environment, "python", f'exec {sys.executable} -S -I "$@"\n')
    (environment / "activate").write_text(f'export PATH="{environment}:$PATH" VIRTUAL_ENV="{environment.parent}"\n')
    text = activation(RunSettings(activate=".venv", workdir="sub"), str(tmp_path), f"{tmp_path}/cloudrun/my net")
    python, seen = found(text)
    assert (python.status, seen.found) == ("ok", "torch-missing")


def test_what_a_run_sets_for_itself_counts_and_no_secret_goes_along() -> None:
    text = activation(RunSettings(env={"PATH": "/opt/py/bin", "WANDB_API_KEY": "s3cret"}, gpus=[1, 3]), "/root", "/t")
    assert "export PATH=/opt/py/bin\n" in text
    assert "export CUDA_VISIBLE_DEVICES=1,3\n" in text
    assert "s3cret" not in text


@pytest.mark.parametrize(("cuda", "driver", "old"), [
    ("12.1", "12.4", False), ("12.8", "12.2", False), ("12.1", "11.4", True), ("11.8", "12.2", False), ("12.1", None, False),
    (None, "11.4", False), ("9.2", "10.0", False),
])
def test_a_driver_runs_its_own_major_version_and_older_ones(cuda: str | None, driver: str | None, old: bool) -> None:
    assert training.driver_too_old(cuda, driver, "") is old
