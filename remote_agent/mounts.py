"""What is mounted where, from /proc/self/mountinfo: a pure parser and the questions one has."""

from __future__ import annotations

import os
import re
from typing import List, Optional

from remote_agent.records import dataclass

_OCTAL = re.compile(rb"\\([0-7]{3})")

#: In memory: what lies there is gone when the box is switched off.
MEMORY = ("tmpfs", "ramfs")
#: Not made for files of people's, however large they say they are.
PSEUDO = frozenset((
    "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "hugetlbfs", "debugfs", "tracefs", "securityfs",
    "pstore", "bpf", "configfs", "fusectl", "binfmt_misc", "autofs", "rpc_pipefs", "nfsd", "nsfs", "efivarfs", "selinuxfs",
    "overlay", "aufs", "squashfs", "iso9660", "rootfs", "none", "fuse.lxcfs", "fuse.gvfsd-fuse", "fuse.portal", "fuse.snapfuse",
))
#: Folders of the system's own; a disk mounted there is not for runs.
SYSTEM = (
    "/proc", "/sys", "/dev", "/run", "/etc", "/boot", "/efi", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/snap",
    "/var/lib/docker",
)


#: Answered by another machine, or by a program: whoever asks may wait for ever. FUSE's are told by their first word.
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "lustre", "glusterfs", "beegfs", "gpfs", "wekafs", "virtiofs")


@dataclass(frozen=True)
class Mount:
    """One line. `device` is major:minor; `writable` joins the mount's and the file system's options; `source`: "10.0.0.2:/v"."""

    point: str
    device: str
    fs_type: str
    writable: bool
    source: str = ""

    @property
    def may_hang(self) -> bool:
        return self.fs_type in REMOTE or self.fs_type.startswith("fuse")


def read() -> List[Mount]:
    """What this process sees mounted, in the order it was mounted. Empty where /proc does not tell."""
    try:
        with open("/proc/self/mountinfo", "rb") as stream:
            return parse(stream.read())
    except OSError:
        return []


def parse(text: bytes) -> List[Mount]:
    """Mounts of a mountinfo text. Spaces and the like stand there as octal escapes; lines that are no mount are skipped."""
    found = []
    for line in text.split(b"\n"):
        before, dash, after = line.partition(b" - ")
        left, right = before.split(b" "), after.split(b" ")
        if not dash or len(left) < 6 or len(right) < 2:
            continue
        options = left[5].split(b",") + (right[2].split(b",") if len(right) > 2 else [])
        found.append(Mount(_plain(left[4]), _plain(left[2]), _plain(right[0]), b"ro" not in options, _plain(right[1])))
    return found


def holding(path: str, mounts: List[Mount]) -> Optional[Mount]:
    """The mount that an absolute path without links lies on; of several on one point the last, which covers the others."""
    best: Optional[Mount] = None
    for mount in mounts:
        if beneath(path, mount.point) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def beneath(path: str, folder: str) -> bool:
    """Whether the path is the folder or lies in it, by whole components."""
    return folder == "/" or path == folder or path.startswith(folder + "/")


def _plain(escaped: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match.group(1), 8) & 0xFF]), escaped))
