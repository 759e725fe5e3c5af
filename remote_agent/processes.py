"""Processes, as /proc tells: who is alive, since when, and which belong to a run."""

from __future__ import annotations

import os
import re
import signal
from typing import Callable, Dict, List, Optional, Set

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


def group_lives(group: int) -> bool:
    """Whether a process of this group lives. Zombies do not, and a container's first process may leave them for ever."""
    if start_ticks(group) is not None:
        return True
    stats = map(_stat, pids())
    return any(stat is not None and int(stat[2]) == group and stat[0] not in ("Z", "X") for stat in stats)


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


def name(pid: int) -> Optional[str]:
    """What the kernel calls the process, 15 bytes at most; None where it is gone."""
    try:
        with open("/proc/%d/comm" % pid, encoding="utf-8", errors="replace") as stream:
            return stream.read().rstrip("\n")
    except OSError:
        return None


def uninterruptible(called: str, longer_than_s: float) -> Optional[int]:
    """Pid of a process of that name which is older and waits in the kernel where no signal reaches it (state D); else None."""
    try:
        with open("/proc/uptime", encoding="ascii") as stream:
            oldest = (float(stream.read().split()[0]) - longer_than_s) * os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
    for pid in pids():
        if name(pid) != called:
            continue
        fields = _stat(pid)
        if fields is not None and fields[0] == "D" and int(fields[19]) < oldest:
            return pid
    return None


def send(process: ProcessRef, number: int) -> bool:
    """A signal to this very process; False when it is gone. With a pidfd no later process of that pid can get it."""
    fd = _pidfd(process.pid)
    try:
        if not alive(process):
            return False
        sending = getattr(signal, "pidfd_send_signal", None)  # Python 3.9
        if fd is None or sending is None:
            os.kill(process.pid, number)
        else:
            sending(fd, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        if fd is not None:
            os.close(fd)


def _pidfd(pid: int) -> Optional[int]:
    """None where this Python or this kernel has none, and for a process that is gone."""
    opening: Optional[Callable[[int], int]] = getattr(os, "pidfd_open", None)
    try:
        return opening(pid) if opening is not None else None
    except OSError:
        return None


def mentioning(path: str) -> Set[int]:
    """Processes, ourselves excepted, whose command line names this path or one beneath it."""
    named = re.compile(re.escape(os.fsencode(path)) + rb"(?![A-Za-z0-9_-])")
    found = set()
    for pid in pids():
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as stream:
                if pid != os.getpid() and named.search(stream.read()):
                    found.add(pid)
        except OSError:
            continue
    return found


def _stat(pid: int) -> Optional[List[str]]:
    """Fields of /proc/<pid>/stat from the state on (0 is the state, 1 the parent, 19 the start time)."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            return stream.read().rpartition(b")")[2].decode("ascii").split()
    except (OSError, ValueError):
        return None
