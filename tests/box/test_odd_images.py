"""Images of the field: a Python too old beside a good one, conda that PATH does not know, no screen, homes that take nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudrun.errors import Exit
from tests.support.cli import Laptop
from tests.support.oddbox import bin_of, look_in, python, without
from tests.support.sshd import SshBox
from tests.support.waiting import wait_for

#: No Python of this machine's own: those of the box are on its PATH or in its home.
NO_PYTHON = without("python3", "python", "python3.10", "python3.11", "python3.12", "python3.13", "python3.8", "python3.9")
BASE_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def test_python_3_9_with_tmux_and_no_screen(tmp_path: Path, cloudrun: Laptop) -> None:
    """The commonest image: nothing is installed, and it is tmux that serves."""
    programs = bin_of(tmp_path / "bin", python3=python("3.9"))
    box = SshBox(tmp_path / "box", path=f"{programs}:{BASE_PATH}", mounts=without("screen") + NO_PYTHON).start()
    try:
        cloudrun.add(box)
        launched = cloudrun.run("launch", "exp", "--wait", "0.2", "--", "python3", "-c",
                                "import sys, time; print(sys.version); time.sleep(60)")
        assert "tmux" in launched.out
        assert "nstall" not in launched.err
        wait_for(lambda: "3.9." in cloudrun.run("logs", "exp").out)
        assert cloudrun.state("exp")["backend"] == "tmux"
        look_in(cloudrun, "exp", shows="3.9.", leaves=b"\x02d")
        cloudrun.run("stop", "exp", "--grace", "1")
        assert cloudrun.state("exp")["state"] == "stopped"
        found = {check["name"]: check for check in cloudrun.json("doctor", code=None)["checks"]}
        assert "3.9" in found["python"]["found"]
        assert "tmux" in found["sessions"]["found"]
    finally:
        box.stop()


def test_python_3_6_beside_one_in_miniconda_that_only_interactive_shells_know(tmp_path: Path, cloudrun: Laptop) -> None:
    programs = bin_of(tmp_path / "bin", python3=python("3.6"), python=python("3.6"))
    no_utf8 = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    box = SshBox(tmp_path / "box", path=f"{programs}:{BASE_PATH}", mounts=NO_PYTHON, env=no_utf8)
    bin_of(box.home / "miniconda3" / "bin", python=python("3.10"), python3=python("3.10"))
    (box.home / ".bashrc").write_text('[ -z "$PS1" ] && return\nexport PATH=$HOME/miniconda3/bin:$PATH\n')
    box.start()
    try:
        cloudrun.add(box)
        cloudrun.json("launch", "exp", "--wait", "0.2", "--backend", "detached", "--", "python", "-c",
                      "import sys, time; print(sys.version_info[:2], '第1轮'); time.sleep(60)")
        assert wait_for(lambda: cloudrun.run("logs", "exp").out) == "(3, 10) 第1轮\n"  # as the user's own login has it
        found = {check["name"]: check for check in cloudrun.json("doctor", code=None)["checks"]}
        for check in ("python", "training-python"):
            assert found[check]["params"]["version"].startswith("3.10.")
            assert found[check]["params"]["path"].startswith(f"{box.home}/miniconda3/bin/python")
    finally:
        box.stop()


def test_only_a_python_that_is_too_old_is_said_with_what_was_tried(tmp_path: Path, cloudrun: Laptop) -> None:
    programs = bin_of(tmp_path / "bin", python3=python("3.6"))
    if Path("/root/miniconda3").exists() or Path("/opt/conda").exists():
        pytest.fail("this machine has a conda of its own, which the box would find")
    box = SshBox(tmp_path / "box", path=f"{programs}:{BASE_PATH}", mounts=NO_PYTHON).start()
    try:
        cloudrun.add(box)
        done = cloudrun.run("ps", code=Exit.AGENT)
        assert "no Python 3.8 or newer" in done.err
        assert "3006" not in done.err
        assert "3.6" in done.err
        assert "cloudrun host set box --python" in done.err
        assert "apt-get install -y python3" in done.err
        bin_of(box.home / "mambaforge" / "bin", python=python("3.9"))  # what anybody would do next; nothing is to be told
        assert cloudrun.json("ps") == {"runs": [], "errors": []}
    finally:
        box.stop()


def test_a_python_that_was_built_without_zlib_and_ssl(tmp_path: Path, cloudrun: Laptop) -> None:
    """By hand, on a bare image, beside a link that leads nowhere; and its site-packages talk. Agent and code come as they are."""
    built = python("3.9")
    lib = built.resolve().parents[1] / "lib" / "python3.9"
    gone = [path for name in ("zlib", "_ssl", "_hashlib", "_bz2", "_lzma") for path in lib.glob(f"lib-dynload/{name}.*")]
    assert len(gone) == 5
    (tmp_path / "talking.py").write_text("print('hello from site-packages')\n")
    talking = f"mount -t tmpfs t {lib}/site-packages\ncp {tmp_path}/talking.py {lib}/site-packages/sitecustomize.py\n"
    programs = bin_of(tmp_path / "bin", python3=tmp_path / "nowhere", python=built)
    box = SshBox(tmp_path / "box", path=f"{programs}:{BASE_PATH}", mounts=NO_PYTHON + talking + "".join(
        f"mount --bind /dev/null {path}\n" for path in gone)).start()
    (cloudrun.project / "data.bin").write_bytes(bytes(range(256)) * 5000)
    try:
        cloudrun.add(box)
        cloudrun.json("launch", "exp", "--wait", "0.2", "--backend", "detached", "--", "python", "-c",
                      "try: import zlib\nexcept ImportError: print(len(open('data.bin', 'rb').read()), flush=True)\n"
                      "import time; time.sleep(60)")
        wait_for(lambda: "1280000\n" in cloudrun.run("logs", "exp").out)
        cloudrun.run("stop", "exp", "--grace", "1")
    finally:
        box.stop()


def test_a_read_only_home_serves_what_needs_no_code_there_and_says_the_rest(tmp_path: Path, cloudrun: Laptop) -> None:
    (tmp_path / "tmp").mkdir()
    home = tmp_path / "box" / "home"
    box = SshBox(tmp_path / "box", env={"TMPDIR": str(tmp_path / "tmp")},
                 mounts=f"mount --bind {home} {home}\nmount -o remount,ro,bind {home}\n").start()
    try:
        cloudrun.add(box)
        assert cloudrun.json("ps") == {"runs": [], "errors": []}  # the agent lies elsewhere
        done = cloudrun.run("launch", "exp", "--", "sleep", "60", code=Exit.BOX)
        assert "ead-only" in done.err
        assert str(home) in done.err
        assert not list(box.data.rglob("state.json"))
        told = cloudrun.json("launch", "exp", "--no-sync", "--workdir", str(box.data), "--wait", "0.2", "--", "sleep", "60")
        assert told["state"] == "running"  # code that is there already needs no home
    finally:
        box.stop()


def test_a_full_home_is_said_with_what_to_look_at(tmp_path: Path, cloudrun: Laptop) -> None:
    home = tmp_path / "box" / "home"
    box = SshBox(tmp_path / "box", mounts=f"mount -t tmpfs -o size=64k tmpfs {home}\n"
                                          f"head -c 65536 /dev/zero >{home}/filled || true\n").start()
    try:
        cloudrun.add(box)
        done = cloudrun.run("ps", code=Exit.BOX)
        assert "No space left on device" in done.err
        assert "df -h ~" in done.err
        assert str(home) in done.err
    finally:
        box.stop()
