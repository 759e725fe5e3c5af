"""The Python that the agent runs under. That it runs at all says that it is new enough; that it is the wanted one does not."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from typing import List, Optional, Tuple

from remote_agent import programs
from remote_agent.checks.probe import Asked
from remote_agent.protocol import Check

#: From here on tmux is driven through libtmux, below by plain commands.
_LIBTMUX_PYTHON = (3, 10)
_ASK_S = 3.0


def check(asked: Asked) -> List[Check]:
    reason = not_used(asked.python, sys.executable) if asked.python else None
    if reason is not None:
        params = {"path": sys.executable, "version": platform.python_version(), "configured": asked.python}
        return [Check("python", "warning", reason, params, hint="python-configured")]
    return [judge(sys.executable, platform.python_version(), sys.version_info[:2])]


def not_used(configured: str, running: str) -> Optional[str]:
    """Why the configured Python is not the one that runs, as a code; None where it is (by a link or a shim, too)."""
    path = shutil.which(os.path.expanduser(configured))
    if path is None:
        return "python-missing"
    if _same(path, running):
        return None
    try:
        said = programs.run([path, "-I", "-S", "-c", "import sys; print(sys.executable)"], _ASK_S).stdout
    except OSError:
        return "python-not-used"
    return None if _same(os.fsdecode(said.strip()), running) else "python-not-used"


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def judge(path: str, version: str, number: Tuple[int, int]) -> Check:
    """`path` is the interpreter, `number` (major, minor)."""
    found = "python" if number >= _LIBTMUX_PYTHON else "python-plain-tmux"
    return Check("python", "ok", found, {"path": path, "version": version})
