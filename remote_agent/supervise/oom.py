"""How many processes of our container the kernel has killed for want of memory, as its control group counts."""

from __future__ import annotations

import os
from typing import List, Optional, Tuple

_ROOT = "/sys/fs/cgroup"


def kills(root: str = _ROOT, own: str = "/proc/self/cgroup") -> Optional[int]:
    """The counter of our control group, version 1 or 2; None where the kernel does not tell."""
    try:
        with open(own) as stream:
            groups = parse_groups(stream.read())
    except OSError:
        return None
    for path in candidates(root, groups):
        try:
            with open(path) as stream:
                count = parse_count(stream.read())
        except OSError:
            continue
        if count is not None:
            return count
    return None


def parse_groups(text: str) -> List[Tuple[str, str]]:
    """(controllers, path) of each line of /proc/self/cgroup; version 2 has no controllers there."""
    lines = [line.split(":", 2) for line in text.splitlines()]
    return [(line[1], line[2]) for line in lines if len(line) == 3]


def candidates(root: str, groups: List[Tuple[str, str]]) -> List[str]:
    """Files that may hold the counter, the nearest first. A container often sees its own group as the root, whatever the
    path in /proc says."""
    found = []
    for controllers, path in groups:
        below = path.lstrip("/")
        if "memory" in controllers.split(","):
            found += [os.path.join(root, "memory", below, "memory.oom_control"),
                      os.path.join(root, "memory", "memory.oom_control")]
        elif not controllers:
            found += [os.path.join(root, below, "memory.events"), os.path.join(root, "memory.events")]
    return found


def parse_count(text: str) -> Optional[int]:
    """`oom_kill` of memory.events (version 2) or memory.oom_control (version 1, since Linux 4.13)."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdigit():
            return int(value)
    return None
