"""The data disk: where it is, whether it lasts, bytes and inodes."""

from __future__ import annotations

from typing import Any, Dict, List

from remote_agent import disk
from remote_agent.checks.probe import Asked
from remote_agent.protocol import DEFAULT_MIN_FREE_BYTES, Check, DataDisk

#: A launch refuses below the first; a run of a few days reaches it soon from below the second.
FEW_BYTES = DEFAULT_MIN_FREE_BYTES
SOON_FEW_BYTES = 2 * DEFAULT_MIN_FREE_BYTES
FEW_INODES = 10000
SOON_FEW_INODES = 100000


def check(asked: Asked) -> List[Check]:
    found = disk.data_disk(asked.data_dir)
    return [*places(found), space(found), inodes(found)]


def places(found: DataDisk) -> List[Check]:
    """Where it is. A place that does not outlive the box, or is not the disk one thinks, is a warning with its reason."""
    params = {"path": found.path, "mount": found.mount, "source": found.source}
    if found.warning is not None:
        return [Check("data-disk", "warning", found.warning, params, hint=found.warning)]
    return [Check("data-disk", "ok", "data-disk", params)]


def space(found: DataDisk) -> Check:
    params = {
        "path": found.path, "free_bytes": found.free_bytes, "total_bytes": found.total_bytes, "needed_bytes": FEW_BYTES,
    }
    return _by_amount("disk-space", found.free_bytes, (FEW_BYTES, SOON_FEW_BYTES), params)


def inodes(found: DataDisk) -> Check:
    """File systems that do not count inodes have no end of them."""
    params: Dict[str, Any] = {"path": found.path, "free": found.free_inodes, "total": found.total_inodes}
    if found.free_inodes is None:
        return Check("inodes", "ok", "inodes-uncounted", params)
    return _by_amount("inodes", found.free_inodes, (FEW_INODES, SOON_FEW_INODES), params)


def _by_amount(name: str, free: int, bounds: Any, params: Dict[str, Any]) -> Check:
    if free < bounds[0]:
        return Check(name, "failure", name, params, hint=name + "-low")
    if free < bounds[1]:
        return Check(name, "warning", name, params, hint=name + "-low")
    return Check(name, "ok", name, params)
