"""Processes, as /proc tells: who is alive, since when, and which belong to a run."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Set

from remote_agent.protocol import ProcessRef

MARK = "CLOUDRUN_RUN_DIR"


def start_ticks(pid: int) -> Optional[int]:
    """Start time of a process in clock ticks since boot; None when it is gone or a zombie."""
    stat = _stat(pid)
    return None if stat is None or stat[0] in ("Z", "X") else int(stat[19])


def parent(pid: int) -> Optional[int]:
    stat = _stat(pid)
    return None if stat is None else int(stat[1])


def ref(pid: int) -> Optional[ProcessRef]:
    """A reference that a later process of the same pid does not match."""
    ticks = start_ticks(pid)
    return None if ticks is None else ProcessRef(pid, ticks)


def alive(process: Optional[ProcessRef]) -> bool:
    """Whether this very process lives. A zombie does not."""
    return process is not None and start_ticks(process.pid) == process.start_ticks


def box_id() -> str:
    """Boot id + start time of pid 1: a container's off and on changes the second, the machine's the first."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as stream:
            boot = stream.read().strip()
    except OSError:
        boot = "unknown"
    first = _stat(1)
    return "%s+%s" % (boot, first[19] if first else "0")


def pids() -> List[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children() -> Dict[int, List[int]]:
    """Children of every process, from one pass over /proc."""
    tree: Dict[int, List[int]] = {}
    for pid in pids():
        above = parent(pid)
        if above is not None:
            tree.setdefault(above, []).append(pid)
    return tree


def descendants(pid: int) -> List[int]:
    """All processes beneath one, itself not among them, parents before children."""
    tree, found, queue = children(), [], [pid]
    while queue:
        below = tree.get(queue.pop(0), [])
        found.extend(below)
        queue.extend(below)
    return found


def marked(run_dir: str) -> Set[int]:
    """Processes whose environment names this run's folder: the second way to find what left the tree."""
    return marks().get(run_dir, set())


def marks() -> Dict[str, Set[int]]:
    """Processes of every run by the run's folder, from one pass over /proc."""
    prefix = MARK.encode("ascii") + b"="
    found: Dict[str, Set[int]] = {}
    for pid in pids():
        try:
            with open("/proc/%d/environ" % pid, "rb") as stream:
                environment = stream.read()
        except OSError:
            continue
        if prefix in environment:
            for pair in environment.split(b"\0"):
                if pair.startswith(prefix):
                    run_dir = pair[len(prefix):].decode("utf-8", "surrogateescape")
                    found.setdefault(run_dir, set()).add(pid)
    return found


def _stat(pid: int) -> Optional[List[str]]:
    """Fields of /proc/<pid>/stat from the state on (0 is the state, 1 the parent, 19 the start time)."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            return stream.read().rpartition(b")")[2].decode("ascii").split()
    except (OSError, ValueError):
        return None
