"""The laptop's side imports where there is nothing of POSIX, as on Windows; attach says that it cannot yet."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import importlib, os, pkgutil, signal, sys
for name in ("fcntl", "termios", "tty", "pty", "pwd", "grp", "resource", "syslog", "readline"):
    sys.modules[name] = None
import cloudrun
for found in pkgutil.walk_packages(cloudrun.__path__, "cloudrun."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
from cloudrun.cli import main, terminal
terminal.supported = lambda: False
sys.exit(main.run(["attach", "exp_x"]))
"""


def test_nothing_of_the_laptops_side_needs_posix_to_be_imported() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done.stderr
    assert "Windows" in done.stderr
    assert "cloudrun logs -f exp_x" in done.stderr
