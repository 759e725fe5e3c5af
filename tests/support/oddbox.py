"""Boxes whose images are odd: another login shell, programs that are not there, Pythons that nobody wants."""

from __future__ import annotations

import getpass
import os
import shutil
from pathlib import Path
from typing import Any

from tests.support.cli import Laptop
from tests.support.sshd import SshBox, program
from tests.support.terminal import Terminal

NOBODY = 65534
PYENV = Path("/root/.pyenv/versions")


def shell_box(folder: Path, shell: str, *, mounts: str = "", **settings: Any) -> SshBox:
    """Its login shell is that program."""
    return SshBox(folder, mounts=_account(folder, getpass.getuser(), folder / "home", shell) + mounts, **settings)


def user_box(folder: Path, home: Path, *, mounts: str = "", **settings: Any) -> SshBox:
    """One that an ordinary user (nobody) enters, whose home is that folder. `folder` is one that everybody may enter."""
    lines = mounts + _account(folder, "nobody", home, "/bin/bash")
    box = SshBox(folder, mounts=lines, **{**settings, "env": {"HOME": str(home), **settings.get("env", {})}})
    box.user = "nobody"
    (folder / "authorized_keys").chmod(0o644)
    os.chown(box.data, NOBODY, NOBODY)
    return box


def _account(folder: Path, user: str, home: Path, shell: str) -> str:
    """Mount lines: that account has that home and shell (root only: an account file of its own lies over this machine's)."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for line in Path("/etc/passwd").read_text().splitlines():
        fields = line.split(":")
        if fields[0] == user:
            fields[5:] = [str(home), shell]
        lines.append(":".join(fields) + "\n")
    (folder / "passwd").write_text("".join(lines))
    (folder / "passwd").chmod(0o644)
    return f"mount --bind {folder}/passwd /etc/passwd\n"


def without(*names: str) -> str:
    """Mount lines: these programs are not there (what stands in their place cannot be run)."""
    found = [path for name in names if (path := shutil.which(name, path="/usr/bin:/bin:/usr/local/bin"))]
    return "".join(f"mount --bind /dev/null {Path(path).resolve()}\n" for path in found)


def python(version: str) -> Path:
    """An interpreter of that version (`3.9`); the newest of it. Falls back on what is on PATH."""
    kept = sorted(PYENV.glob(f"{version}.*/bin/python{version}"))
    return kept[-1] if kept else Path(program(f"python{version}"))


def bin_of(folder: Path, **programs: Path) -> Path:
    """A folder for PATH with these programs in it, by those names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, goal in programs.items():
        (folder / name).symlink_to(goal)
    return folder


def look_in(cloudrun: Laptop, run: str, *, shows: str, leaves: bytes) -> None:
    """Attaches, sees that text, and leaves by those keys."""
    terminal = Terminal(cloudrun.argv("attach", run), cwd=cloudrun.project, env=cloudrun.environment())
    try:
        terminal.shows(shows)
        terminal.type(leaves)
        assert terminal.ends() == 0
    finally:
        terminal.close()
