"""paramiko without what it never uses here: half of its import time is `invoke` (asyncio, mock, a YAML parser), which its reader
of ssh_config wants for `Match exec` alone, and declares optional."""

from __future__ import annotations

import sys
from typing import Any


def import_paramiko() -> None:
    """Imports paramiko for the first time; `invoke` counts as not installed meanwhile and can be imported afterwards."""
    if "paramiko" in sys.modules or "invoke" in sys.modules:
        import paramiko

        return
    modules: dict[str, Any] = sys.modules
    modules["invoke"] = None  # what the import system takes for "there is no such module"
    try:
        import paramiko  # noqa: F401
    finally:
        del modules["invoke"]
