"""The agent's archive: the same for the same sources, whole, and able to run."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cloudrun.agent import archive, bootstrap
from cloudrun.project.templates import template_text


def package(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    for path, content in files.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_bytes(content)
    return folder / name


AGENT = {"entry.py": b"print(1)\n", "__init__.py": b"", "rpc/a.py": b"a", "py.typed": b"", "note.txt": b"not code",
         "__pycache__/a.pyc": b"x"}
LIBTMUX = {"__init__.py": b"", "server.py": b"s", "pytest_plugin.py": b"p", "test/random.py": b"r"}


def test_the_same_sources_give_the_same_name_and_the_same_zip(tmp_path: Path) -> None:
    one = archive.build(package(tmp_path / "1", "remote_agent", AGENT), package(tmp_path / "1", "libtmux", LIBTMUX))
    turned = dict(reversed(AGENT.items()))
    other_agent = package(tmp_path / "2", "remote_agent", turned)
    os.utime(other_agent / "entry.py", (0, 0))
    os.chmod(other_agent / "entry.py", 0o755)
    two = archive.build(other_agent, package(tmp_path / "2", "libtmux", LIBTMUX))
    assert (one.digest, one.zipped()) == (two.digest, two.zipped())
    (other_agent / "rpc/a.py").write_bytes(b"b")
    assert archive.build(other_agent, tmp_path / "2/libtmux").digest != one.digest


def test_it_holds_the_sources_and_nothing_else(tmp_path: Path) -> None:
    built = archive.build(package(tmp_path, "remote_agent", AGENT), package(tmp_path, "libtmux", LIBTMUX))
    names = [name for name, _ in built.files]
    assert names == sorted(names) == [
        "__main__.py", "files", "remote_agent/__init__.py", "remote_agent/entry.py", "remote_agent/py.typed",
        "remote_agent/rpc/a.py", "vendor/libtmux/__init__.py", "vendor/libtmux/server.py"]
    with zipfile.ZipFile(io.BytesIO(built.zipped())) as unzipped:
        assert [(info.filename, info.date_time, info.external_attr >> 16) for info in unzipped.infolist()] == [
            (name, (1980, 1, 1, 0, 0, 0), 0o100644) for name in names]
        assert dict(built.files)["files"].decode().splitlines() == [
            f"{len(unzipped.read(name))} {name}" for name in names if name != "files"]


def test_every_command_can_afford_it() -> None:
    agent, libtmux = archive._package_folder("remote_agent"), archive._package_folder("libtmux")
    archive.build(agent, libtmux)
    spent = []
    for _ in range(5):
        began = time.thread_time()
        archive.build(agent, libtmux)
        spent.append(time.thread_time() - began)
    assert min(spent) < 0.030


# ---------------------------------------------------------------------------- the line that starts it

WORD = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=12)
WORDS = st.lists(WORD, min_size=1, max_size=4)


@settings(max_examples=25, deadline=None)
@given(WORDS)
def test_words_come_through_a_shell_as_they_are(words: list[str]) -> None:
    say = "import sys;sys.stdout.buffer.write(chr(0).join(sys.argv[1:]).encode())"
    line = bootstrap.shell_line([sys.executable, "-I", "-X", "utf8", "-S", "-c", say, *words])
    for shell in ("bash", "dash"):
        done = subprocess.run([shell, "-c", line], capture_output=True, check=True, timeout=20)
        assert done.stdout == "\0".join(words).encode()


def test_the_line_is_one_that_csh_and_fish_read_alike() -> None:
    start = bootstrap.Start("a" * 12, "b" * 16, "rpc", "/opt/it's \\mine!/python")
    for line in (bootstrap.start_command(start), bootstrap.install_command(start, "/p'y", "/x/.part-1", "c" * 64)):
        # Plain text in single quotes; what some shell would take for its own stands alone behind a backslash.
        assert re.fullmatch(r"(?:'[^'\\!\n]*'|\\['\\!]| )+", line)
    assert r"'/opt/it'\''s '\\'mine'\!'/python'" in bootstrap.start_command(start)


def test_the_agent_looks_for_conda_wherever_a_run_does() -> None:
    roots = re.search(r"cloudrun_conda_roots=\((.*?)\)", template_text("activate.sh.j2"), re.DOTALL)
    assert roots
    text = " ".join(roots[1].split()).replace("{{ home|word }}", "'$h'")  # the braces are bash's
    found = subprocess.run(["bash", "-c", f"printf '%s\\n' {text}"], capture_output=True, text=True, check=True).stdout.split()
    assert len(found) == 11
    missing = [root for root in found if f"{root}/bin/python" not in bootstrap._CANDIDATES.replace('"', "")]
    assert missing == []
