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
