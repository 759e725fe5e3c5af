"""What the doctor looks at on the box. One file per subject; a new check is a function there and a line in `PROBES`."""

from __future__ import annotations

from typing import Tuple

from remote_agent.checks import disk, gpu, installing, loginkeys, memory, python, sessions, terminals, training
from remote_agent.checks.probe import Probe

#: In the order in which they are shown. All run side by side; the longest deadline bounds the whole.
PROBES: Tuple[Probe, ...] = (
    Probe("python", python.check, deadline_s=5.0),
    Probe("gpu", gpu.check, deadline_s=12.0),
    Probe("training-python", training.check, deadline_s=training.IMPORT_S + 2),
    Probe("data-disk", disk.check, deadline_s=15.0),
    Probe("data-write", disk.check_write, deadline_s=15.0),
    Probe("system-disk", disk.check_system, deadline_s=10.0),
    Probe("network-disk", disk.check_network, deadline_s=8.0),
    Probe("memory", memory.check, deadline_s=5.0),
    Probe("shared-memory", memory.check_shared, deadline_s=5.0),
    Probe("sessions", sessions.check, deadline_s=8.0),
    Probe("sockets", terminals.check_sockets, deadline_s=8.0),
    Probe("pty", terminals.check_pty, deadline_s=5.0),
    Probe("locale", terminals.check_locale, deadline_s=5.0),
    Probe("packages", installing.check, deadline_s=6.0),
    Probe("login-keys", loginkeys.check, deadline_s=8.0),
)
