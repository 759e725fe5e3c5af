"""Real mounts that nobody else sees: a mount namespace of the test's own, gone with it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.sshd import program

ROOT = Path(__file__).parents[2]


def in_mount_namespace(base: Path, shell: str, script: str, python: str) -> str:
    """Lays out mounts by `shell`, then runs the Python `script` with the agent importable; gives its stdout."""
    start = 'import os, sys; sys.path.insert(0, os.environ["AGENT"]); exec(os.environ["SCRIPT"])'
    told = f"set -e\n{shell}\nexec {python} -c '{start}'\n"
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    done = subprocess.run(
        [program("unshare"), "--mount", "--propagation", "private", *as_root, "bash", "-c", told],
        cwd=base, capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "AGENT": str(ROOT), "SCRIPT": script},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def dead_mount(point: Path) -> str:
    """Python lines that mount a network disk which is gone: a FUSE file system whose server, this very process, never says a
    word. Whoever asks it anything hangs in the kernel until the process ends."""
    point.mkdir(parents=True, exist_ok=True)
    return f"""
import ctypes, os
_libc, _fd = ctypes.CDLL(None, use_errno=True), os.open("/dev/fuse", os.O_RDWR)
_options = b"fd=%d,rootmode=40000,user_id=0,group_id=0" % _fd
assert _libc.mount(b"10.0.0.2:/share", {str(point)!r}.encode(), b"fuse.dead", 0, _options) == 0, os.strerror(ctypes.get_errno())
"""
