"""What the doctor looks at on the box. One file per subject; a new check is a function there and a line in `PROBES`."""

from __future__ import annotations

from typing import Tuple

from remote_agent.checks import disk, gpu, python, sessions
from remote_agent.checks.probe import Probe

#: In the order in which they are shown.
PROBES: Tuple[Probe, ...] = (
    Probe("python", python.check, deadline_s=5.0),
    Probe("data-disk", disk.check, deadline_s=15.0),
    Probe("sessions", sessions.check, deadline_s=8.0),
    Probe("gpu", gpu.check, deadline_s=12.0),
)
