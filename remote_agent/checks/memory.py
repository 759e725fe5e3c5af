"""Memory that the box may use: the limit of its control group, and the room for shared memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from remote_agent import mounts
from remote_agent.checks.probe import Asked
from remote_agent.protocol import Check

CGROUPS = "/sys/fs/cgroup"
OWN = "/proc/self/cgroup"
MEMINFO = "/proc/meminfo"
SHARED = "/dev/shm"
#: A box with less was started without a card, to copy data; no training of today fits.
LITTLE_BYTES = 4 << 30
#: From this share on the next batch may be the one that the kernel kills.
NEARLY_FULL = 0.9
#: Containers get 64 MB unless told otherwise; a loader with a few workers and images needs several times that.
LITTLE_SHARED_BYTES = 512 << 20
#: Limit, usage, and the part of the usage that is only cached files, by version.
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}


@dataclass(frozen=True)
class Limit:
    """The tightest limit that holds for this process. `used_bytes` without what is only cached; None where not told."""

    limit_bytes: int
    used_bytes: Optional[int]
    version: int


def check(asked: Asked) -> List[Check]:
    machine = parse_meminfo(_text(MEMINFO) or "")
    return [judge(limit(machine.get("MemTotal")), machine)]


def judge(found: Optional[Limit], machine: Dict[str, int]) -> Check:
    """`machine`: /proc/meminfo in bytes; in a container it tells of the whole machine, whatever the container may use."""
    if found is None:
        params = {"total_bytes": machine.get("MemTotal"), "available_bytes": machine.get("MemAvailable")}
        if not params["total_bytes"]:
            return Check("memory", "warning", "memory-unknown", {}, hint="memory-unknown")
        return Check("memory", "ok", "memory-no-limit", params)
    params = {"limit_bytes": found.limit_bytes, "used_bytes": found.used_bytes, "cgroup": found.version}
    if found.used_bytes is None:
        return Check("memory", "ok", "memory-limit-only", params)
    if found.used_bytes > NEARLY_FULL * found.limit_bytes:
        return Check("memory", "warning", "memory-full", params, hint="memory-full")
    if found.limit_bytes < LITTLE_BYTES:
        return Check("memory", "warning", "memory-limit", params, hint="memory-little")
    return Check("memory", "ok", "memory-limit", params)


def limit(total_bytes: Optional[int] = None, root: str = CGROUPS, own: str = OWN) -> Optional[Limit]:
    """The limit, by control groups of version 1 or 2; None where there is none below `total_bytes`, or nobody tells."""
    for version, folders in hierarchies(_text(own) or "", root):
        found = [one for one in (_limit_of(folder, version) for folder in folders) if one is not None]
        real = [one for one in found if total_bytes is None or one.limit_bytes < total_bytes]
        if real:
            return min(real, key=lambda one: one.limit_bytes)
    return None


def hierarchies(own: str, root: str) -> List[Tuple[int, List[str]]]:
    """Version and folders, from our own group up. A container often sees its own group as the root, whatever the path says."""
    found = []
    for line in own.splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        if "memory" in parts[1].split(","):
            found.append((1, _upwards(os.path.join(root, "memory"), parts[2])))
        elif not parts[1]:
            found.append((2, _upwards(root, parts[2])))
    return found


def parse_meminfo(text: str) -> Dict[str, int]:
    """Bytes by name."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            found[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return found


def check_shared(asked: Asked) -> List[Check]:
    """A loader's workers hand their batches over in shared memory: too little of it kills them with a "bus error"."""
    try:
        figures = os.statvfs(SHARED)
    except OSError as error:
        return [Check("shared-memory", "warning", "shared-memory-missing", {"detail": error.strerror}, hint="shared-memory")]
    mount = mounts.holding(SHARED, mounts.read())
    if mount is not None and mount.fs_type not in mounts.MEMORY:
        return [Check("shared-memory", "warning", "shared-memory-disk", {"mount": mount.point}, hint="shared-memory")]
    return [judge_shared(figures.f_blocks * figures.f_frsize, figures.f_bavail * figures.f_frsize,
                         os.access(SHARED, os.W_OK | os.X_OK))]


def judge_shared(size_bytes: int, free_bytes: int, writable: bool) -> Check:
    params = {"size_bytes": size_bytes, "free_bytes": free_bytes}
    if not writable:
        return Check("shared-memory", "warning", "shared-memory-refused", params, hint="shared-memory")
    if size_bytes < LITTLE_SHARED_BYTES:
        return Check("shared-memory", "warning", "shared-memory-little", params, hint="shared-memory")
    if free_bytes < LITTLE_SHARED_BYTES // 4:
        return Check("shared-memory", "warning", "shared-memory-full", params, hint="shared-memory-full")
    return Check("shared-memory", "ok", "shared-memory", params)


def _limit_of(folder: str, version: int) -> Optional[Limit]:
    names = _FILES[version]
    most = _number(os.path.join(folder, names[0]))
    if most is None or most >= 1 << 60:  # version 1 says "no limit" by the largest number there is
        return None
    used = _number(os.path.join(folder, names[1]))
    if used is not None:
        used = max(0, used - _cached(os.path.join(folder, "memory.stat"), names[2]))
    return Limit(most, used, version)


def _cached(path: str, name: str) -> int:
    for line in (_text(path) or "").splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdigit():
            return int(value)
    return 0


def _upwards(root: str, path: str) -> List[str]:
    parts = [part for part in path.split("/") if part]
    return [os.path.join(root, *parts[:count]) for count in range(len(parts), -1, -1)]


def _number(path: str) -> Optional[int]:
    text = (_text(path) or "").strip()
    return int(text) if text.isdigit() else None


def _text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return None
