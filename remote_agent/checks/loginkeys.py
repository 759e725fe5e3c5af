"""Whether the keys that open the box lie on a disk that survives what a provider does to it."""

from __future__ import annotations

import os
from typing import List, Optional

from remote_agent import bounded, layout, mounts
from remote_agent.checks import disk
from remote_agent.checks.probe import Asked
from remote_agent.protocol import Check

_LOOK_S = 3.0


def check(asked: Asked) -> List[Check]:
    path = os.path.join(layout.Home.of_user().home, ".ssh", "authorized_keys")
    real = bounded.in_child(lambda: os.path.realpath(path), _LOOK_S)
    there = bounded.in_child(lambda: os.path.isfile(real), _LOOK_S)
    return [judge(path, there, mounts.holding(real, mounts.read()))]


def judge(path: str, there: bool, mount: Optional[mounts.Mount]) -> Check:
    """A container's layer outlives off and on, not a release: that is how these boxes are made, and no warning."""
    params = {"path": path, "mount": mount.point if mount else "/"}
    if not there:
        return Check("login-keys", "ok", "login-keys-none", params)
    if mount is not None and mount.fs_type in mounts.MEMORY:
        return Check("login-keys", "warning", "login-keys-memory", params, hint="login-keys-memory")
    if mount is not None and mount.fs_type in disk.LAYERS:
        return Check("login-keys", "ok", "login-keys-layer", params)
    return Check("login-keys", "ok", "login-keys", params)
