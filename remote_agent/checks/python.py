"""The Python that the agent runs under."""

from __future__ import annotations

import platform
import sys
from typing import List, Tuple

from remote_agent.checks.probe import Asked
from remote_agent.protocol import Check

#: From here on tmux is driven through libtmux; the agent itself is content with 3.8.
_LIBTMUX_PYTHON = (3, 10)
OLDEST = (3, 8)


def check(asked: Asked) -> List[Check]:
    return [judge(sys.executable, platform.python_version(), sys.version_info[:2])]


def judge(path: str, version: str, number: Tuple[int, int]) -> Check:
    """`path` is the interpreter, `number` (major, minor)."""
    params = {"path": path, "version": version}
    if number < OLDEST:
        return Check("python", "failure", "python-too-old", params, hint="python-too-old")
    return Check("python", "ok", "python" if number >= _LIBTMUX_PYTHON else "python-plain-tmux", params)
