"""The data disk: which one it is, and how much room is on it. By statvfs, in a child with a deadline: a dead mount hangs."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Sequence

from remote_agent import bounded, layout, mounts, silence
from remote_agent.protocol import DEFAULT_MIN_FREE_BYTES, AgentError, DataDisk
from remote_agent.records import dataclass

#: Where providers mount the disk that outlives the instance's system disk.
KNOWN = ("/root/autodl-tmp", "/workspace", "/hy-tmp")
#: AutoDL's network disks: shared by the boxes of a region, slow, and few files. Never chosen by ourselves.
NETWORK = ("/root/autodl-fs", "/root/autodl-nas")
DEADLINE_S: float = 5
#: For places that nobody asked for by name, all side by side.
_ASIDE_S = 2.0


@dataclass
class Room:
    """What the file system says of the nearest ancestor that exists, links followed. Inodes None: not counted there."""

    real: str
    is_folder: bool
    #: The folder itself is there, not only an ancestor of it.
    exists: bool
    writable: bool
    free_bytes: int
    total_bytes: int
    free_inodes: Optional[int]
    total_inodes: Optional[int]


def data_disk(configured: Optional[str]) -> DataDisk:
    """The disk for runs: the configured one, a known one, the largest other mounted one, else the home with a warning.

    Raises AgentError ("data-dir-relative", "data-dir-not-folder", "data-dir-not-writable", "disk-hangs", "disk-timeout").
    """
    mounted = mounts.read()
    if configured:
        return _configured(configured, mounted)
    return _known(mounted) or _largest_mounted(mounted) or _home(mounted)


def room(path: str, deadline_s: float = DEADLINE_S) -> Room:
    """Room at an absolute path. Raises AgentError (as `silence.no_answer`) where the mount does not answer, and OSError."""
    return Room(**silence.ask(lambda: _look(path), path, deadline_s))


def _configured(given: str, mounted: List[mounts.Mount]) -> DataDisk:
    home = layout.Home.of_user().home
    path = home + given[1:] if given == "~" or given.startswith("~/") else os.path.expanduser(given)
    if not os.path.isabs(path):
        raise AgentError("data-dir-relative", path=given)
    path = os.path.normpath(path)
    here = room(path)
    if not here.is_folder:
        raise AgentError("data-dir-not-folder", path=path, stands=here.real)
    if not here.writable:
        raise AgentError("data-dir-not-writable", path=path, stands=here.real)
    return _found(path, "configured", here, mounted)


def _known(mounted: List[mounts.Mount]) -> Optional[DataDisk]:
    """The first known one that is a mount of its own, else the first that is there at all: that one carries a warning."""
    usable = []
    for path, here in zip(KNOWN, _rooms(KNOWN)):
        if here is not None and here.exists and here.is_folder and here.writable:
            usable.append(_found(path, "known", here, mounted))
    own = [disk for disk in usable if disk.warning is None]
    return next(iter(own or usable), None)


def _largest_mounted(mounted: List[mounts.Mount]) -> Optional[DataDisk]:
    root = mounts.holding("/", mounted)
    asked = [mount for mount in mounted if mount == mounts.holding(mount.point, mounted) and _may_hold_runs(mount, root)]
    candidates = []
    for mount, here in zip(asked, _rooms([mount.point for mount in asked])):
        if here and here.exists and here.is_folder and here.writable and here.total_bytes >= DEFAULT_MIN_FREE_BYTES:
            candidates.append(_found(mount.point, "mounted", here, mounted))
    # Of equals (one disk mounted twice) the first name in the alphabet: the same answer every time.
    return min(candidates, key=lambda disk: (-disk.total_bytes, disk.path)) if candidates else None


def _may_hold_runs(mount: mounts.Mount, root: Optional[mounts.Mount]) -> bool:
    return (
        mount.writable and mount.fs_type not in mounts.PSEUDO and mount.fs_type not in mounts.MEMORY
        and mount.point != "/" and mount.point not in NETWORK and (root is None or mount.device != root.device)
        and not any(mounts.beneath(mount.point, folder) for folder in mounts.SYSTEM)
    )


def _home(mounted: List[mounts.Mount]) -> DataDisk:
    path = layout.Home.of_user().home
    here = room(path)
    if not here.is_folder or not here.writable:
        raise AgentError("data-dir-not-writable", path=path, stands=here.real)
    return _found(path, "home", here, mounted)


def _found(path: str, source: str, here: Room, mounted: List[mounts.Mount]) -> DataDisk:
    mount = mounts.holding(here.real, mounted)
    return DataDisk(
        path=path, source=source, mount=mount.point if mount else "/", free_bytes=here.free_bytes, total_bytes=here.total_bytes,
        free_inodes=here.free_inodes, total_inodes=here.total_inodes, warning=_warning(path, source, mount, here.exists),
    )


def _warning(path: str, source: str, mount: Optional[mounts.Mount], exists: bool) -> Optional[str]:
    """What would be lost. A provider's data disk that is not mounted leaves an empty folder on the system disk behind; and a
    configured folder that is not there, nor on another disk, is a slip of the pen more often than a wish."""
    if mount is not None and mount.fs_type in mounts.MEMORY:
        return "data-disk-in-memory"
    if source == "home":
        return "data-disk-is-home"
    on_system_disk = mount is None or mount.point == "/"
    if on_system_disk and any(mounts.beneath(path, known) for known in KNOWN):
        return "data-disk-not-mounted"
    return "data-disk-not-there" if on_system_disk and not exists else None


def _rooms(paths: Sequence[str]) -> List[Optional[Room]]:
    """Room at places that were not asked for by name: those that do not answer are passed over, and hold up no other."""
    answers = bounded.in_each([_look_at(path) for path in paths], _ASIDE_S)
    return [None if isinstance(answer, OSError) else Room(**answer) for answer in answers]


def _look_at(path: str) -> Callable[[], Dict[str, Any]]:
    return lambda: _look(path)


def _look(path: str) -> Dict[str, Any]:
    """Runs in the child. Fields of Room."""
    wanted = os.path.realpath(path)
    real, named = _nearest(wanted), _nearest(path)
    # A link into a disk that is not there: the folder cannot be made, although an ancestor of its target exists.
    dangling = os.path.islink(named) and not os.path.exists(named)
    figures = os.statvfs(real)
    return {
        "real": named if dangling else real, "exists": real == wanted, "is_folder": os.path.isdir(real) and not dangling,
        "writable": os.access(real, os.W_OK | os.X_OK),
        "free_bytes": figures.f_bavail * figures.f_frsize, "total_bytes": figures.f_blocks * figures.f_frsize,
        # btrfs and some network file systems make inodes as they go and say 0 of 0.
        "free_inodes": figures.f_favail if figures.f_files else None,
        "total_inodes": figures.f_files if figures.f_files else None,
    }


def _nearest(path: str) -> str:
    """The path or its nearest ancestor that is there; a link is there even where what it names is not."""
    while not os.path.lexists(path) and path != "/":
        path = os.path.dirname(path)
    return path
