"""The data disk: where it is, whether what lies there lasts, bytes, inodes, and whether it really takes a file."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from remote_agent import bounded, disk, layout, mounts
from remote_agent.checks import writing
from remote_agent.checks.probe import Asked
from remote_agent.protocol import DEFAULT_MIN_FREE_BYTES, AgentError, Check, DataDisk

#: A launch refuses below the first; a run of a few days reaches it soon from below the second.
FEW_BYTES = DEFAULT_MIN_FREE_BYTES
SOON_FEW_BYTES = 2 * DEFAULT_MIN_FREE_BYTES
FEW_INODES = 10000
SOON_FEW_INODES = 100000
#: The system disk holds the code and the agent, not what a training writes.
SYSTEM_FEW_BYTES = 200 * 10**6
SYSTEM_SOON_FEW_BYTES = 2 * 10**9
SYSTEM_FEW_INODES = 2000
SYSTEM_SOON_FEW_INODES = 20000
WRITE_S = 6.0
_LOOK_S = 3.0
#: A container's own layer: it goes when the box is released or its image is reset.
LAYERS = ("overlay", "aufs")
_NETWORK_TYPES = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "lustre", "glusterfs", "beegfs", "gpfs", "wekafs")
_NETWORK_FUSE = ("fuse.sshfs", "fuse.s3fs", "fuse.juicefs", "fuse.glusterfs", "fuse.ceph", "fuse.rclone", "fuse.ossfs",
                 "fuse.gcsfuse", "fuse.cosfs", "fuse.seaweedfs", "fuse.mfs")


def check(asked: Asked) -> List[Check]:
    found = disk.data_disk(asked.data_dir)
    real = bounded.in_child(lambda: os.path.realpath(found.path), _LOOK_S)
    return [places(found, mounts.holding(real, mounts.read()), real), space(found), inodes(found)]


def check_write(asked: Asked) -> List[Check]:
    """Beside `check`, that a disk which takes no write still shows its figures."""
    try:
        path = disk.data_disk(asked.data_dir).path
    except AgentError:  # why there is none, `check` says
        return []
    return [judge_write("data-write", path)]


def check_system(asked: Asked) -> List[Check]:
    """The disk of the home: the code, the agent, most caches."""
    home = layout.Home.of_user().home
    return [judge_system(home, disk.room(home, _LOOK_S), writing.try_in(home, WRITE_S))]


def check_network(asked: Asked) -> List[Check]:
    """A line only where the provider's network disk is there."""
    mounted = mounts.read()
    return [_network_line(place) for place in disk.NETWORK if any(mount.point == place for mount in mounted)]


def places(found: DataDisk, mount: Optional[mounts.Mount], real: str) -> Check:
    """Where it is. A place that does not outlive the box, or is not the disk one thinks, is a warning with its reason."""
    params = {"path": found.path, "mount": found.mount, "source": found.source, "type": mount.fs_type if mount else ""}
    code = _remark(found, mount, real)
    if code is not None:
        return Check("data-disk", "warning", code, params, hint=code)
    return Check("data-disk", "ok", "data-disk-root" if found.mount == "/" else "data-disk", params)


def _remark(found: DataDisk, mount: Optional[mounts.Mount], real: str) -> Optional[str]:
    if any(mounts.beneath(real, place) for place in disk.NETWORK):
        return "data-disk-autodl-fs"
    if found.warning is not None and found.warning != "data-disk-not-there":
        return found.warning
    if mount is not None and mount.fs_type in LAYERS:
        return "data-disk-on-layer"
    if mount is not None and (mount.fs_type in _NETWORK_TYPES or mount.fs_type in _NETWORK_FUSE):
        return "data-disk-network"
    return found.warning


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


def judge_write(name: str, path: str) -> Check:
    """By really writing. Raises TimeoutError."""
    done = writing.try_in(path, WRITE_S)
    if "reason" in done:
        code = "write-" + done["reason"]
        return Check(name, "failure", code, {"path": done["folder"], "detail": done["detail"]}, hint=code)
    return Check(name, "ok", "write", {"path": done["folder"], "took_ms": done["took_ms"]})


def judge_system(home: str, here: disk.Room, written: Dict[str, Any]) -> Check:
    """One line: whether it takes a file, then room. `written` as `writing.try_in` says."""
    params = {"path": home, "free_bytes": here.free_bytes, "total_bytes": here.total_bytes, "free": here.free_inodes}
    if "reason" in written:
        code = "write-" + written["reason"]
        # A home that takes no writes has its agent elsewhere; code, sockets and secrets want it all the same.
        return Check("system-disk", "failure", code, {"path": written["folder"], "detail": written["detail"]},
                     hint="system-" + code)
    few, soon = here.free_bytes < SYSTEM_FEW_BYTES, here.free_bytes < SYSTEM_SOON_FEW_BYTES
    if few or soon:
        return Check("system-disk", "failure" if few else "warning", "system-disk", params, hint="system-disk-low")
    if here.free_inodes is None:
        return Check("system-disk", "ok", "system-disk-uncounted", params)
    few, soon = here.free_inodes < SYSTEM_FEW_INODES, here.free_inodes < SYSTEM_SOON_FEW_INODES
    if few or soon:
        return Check("system-disk", "failure" if few else "warning", "system-disk", params, hint="system-inodes-low")
    return Check("system-disk", "ok", "system-disk", params)


def _network_line(place: str) -> Check:
    here = disk.room(place, _LOOK_S)
    params = {"path": place, "free_bytes": here.free_bytes, "free": here.free_inodes}
    return Check("network-disk", "ok", "network-disk" if here.free_inodes is None else "network-disk-counted", params)


def _by_amount(name: str, free: int, bounds: Any, params: Dict[str, Any]) -> Check:
    if free < bounds[0]:
        return Check(name, "failure", name, params, hint=name + "-low")
    if free < bounds[1]:
        return Check(name, "warning", name, params, hint=name + "-low")
    return Check(name, "ok", name, params)
