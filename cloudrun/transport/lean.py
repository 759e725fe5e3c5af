"""paramiko without what it never uses here: half of its import time is `invoke` (asyncio, mock, a YAML parser), which its reader
of ssh_config wants for `Match exec` alone, and declares optional."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any

_importing = threading.Lock()


def import_paramiko_beside() -> None:
    """Begins to import it in a thread, while something else is waited for. What fails there fails again where it is needed."""

    def work() -> None:
        with contextlib.suppress(Exception):
            import_paramiko()

    threading.Thread(target=work, name="import-paramiko", daemon=True).start()


def import_paramiko() -> None:
    """Imports paramiko for the first time; `invoke` counts as not installed meanwhile and can be imported afterwards."""
    with _importing:
        if "paramiko" in sys.modules or "invoke" in sys.modules:
            import paramiko

            return
        modules: dict[str, Any] = sys.modules
        modules["invoke"] = None  # what the import system takes for "there is no such module"
        try:
            import paramiko  # noqa: F401
        finally:
            del modules["invoke"]
