"""Programs that play the part of ones that cannot be had here (a GPU's, a package manager's): scripts in a folder for PATH."""

from __future__ import annotations

import shlex
from pathlib import Path


def fake_program(folder: Path, name: str, body: str) -> Path:
    """A `/bin/sh` script of that name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)
    return path


def fake_nvidia_smi(folder: Path, cards: str, code: int = 0, apps: str = "", stream: int = 1) -> Path:
    """An nvidia-smi that prints recorded text: `cards` for --query-gpu (on `stream`), `apps` for --query-compute-apps."""
    return fake_program(folder, "nvidia-smi", (
        f'case "$*" in\n*--query-compute-apps*) printf %s {shlex.quote(apps)};;\n'
        f"*) printf %s {shlex.quote(cards)} >&{stream}; exit {code};;\nesac\n"
    ))
