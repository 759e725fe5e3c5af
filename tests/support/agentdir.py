"""The agent's folder as a box has it: unpacked from the very archive that is shipped."""

from __future__ import annotations

import glob
import os
import shutil
from pathlib import Path

from cloudrun.agent import archive


def unpacked_agent(folder: Path) -> Path:
    """Unpacks the agent into `folder` and gives it: `python -I FOLDER MODE …`."""
    for name, content in archive.installed().files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def oldest_python() -> str | None:
    """A Python 3.8 that is on this machine and starts, or None."""
    candidates = [shutil.which("python3.8"), *glob.glob(os.path.expanduser("~/.pyenv/versions/3.8.*/bin/python3.8"))]
    for candidate in candidates:
        if candidate and "/shims/" not in candidate:
            return candidate
    return None
