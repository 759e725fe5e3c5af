"""The Python that the agent runs under. That it runs at all says that it is new enough."""

from __future__ import annotations

import platform
import sys
from typing import List, Tuple

from remote_agent.checks.probe import Asked
from remote_agent.protocol import Check

#: From here on tmux is driven through libtmux, below by plain commands.
_LIBTMUX_PYTHON = (3, 10)


def check(asked: Asked) -> List[Check]:
    return [judge(sys.executable, platform.python_version(), sys.version_info[:2])]


def judge(path: str, version: str, number: Tuple[int, int]) -> Check:
    """`path` is the interpreter, `number` (major, minor)."""
    found = "python" if number >= _LIBTMUX_PYTHON else "python-plain-tmux"
    return Check("python", "ok", found, {"path": path, "version": version})
