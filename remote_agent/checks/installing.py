"""Whether packages can be installed here: a manager, the right to use it, and nobody else at work. Nothing is changed."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import List, Optional

from remote_agent import packages
from remote_agent.checks.probe import Asked
from remote_agent.dpkg import holder, interrupted
from remote_agent.protocol import Check
from remote_agent.sessions import environment


@dataclass(frozen=True)
class Found:
    """`way`: root | sudo | None. `holder`: who holds a lock, None where nobody does. `needed`: no session program is here."""

    manager: Optional[str]
    way: Optional[str]
    holder: Optional[str]
    interrupted: bool
    needed: bool


def check(asked: Asked) -> List[Check]:
    manager = next((name for name in packages.MANAGERS if shutil.which(name)), None)
    apt = manager == "apt-get"
    return [judge(Found(
        manager=manager, way=_way() if manager else None, holder=holder() if apt else None,
        interrupted=apt and interrupted(),
        needed=not any(environment.program(name) for name in ("screen", "tmux")),
    ))]


def judge(found: Found) -> Check:
    """A warning only where a launch would have to install something, or where dpkg is broken for everybody."""
    params = {"manager": found.manager or ", ".join(packages.MANAGERS), "holder": found.holder or ""}
    if found.manager is None:
        return _unless_needed(found, "packages-no-manager", params)
    if found.way is None:
        return _unless_needed(found, "packages-needs-root", params)
    if found.interrupted:
        return Check("packages", "warning", "packages-interrupted", params, hint="packages-interrupted")
    if found.holder is not None:
        return _unless_needed(found, "packages-locked", params)
    return Check("packages", "ok", "packages-" + found.way, params)


def _unless_needed(found: Found, code: str, params: "dict[str, str]") -> Check:
    if found.needed:
        return Check("packages", "warning", code, params, hint=code)
    return Check("packages", "ok", code + "-unneeded", params)


def _way() -> Optional[str]:
    if os.geteuid() == 0:
        return "root"
    return "sudo" if packages.sudo_works() else None
