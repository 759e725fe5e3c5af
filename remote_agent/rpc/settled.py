"""A launch that broke half-way has either come to life or surely will not: told by looking, not by waiting out a window."""

from __future__ import annotations

import time
from typing import Optional

from remote_agent import layout, processes, runs
from remote_agent.protocol import RunInfo, State

_POLL_S = 0.05
#: A process that is just becoming another program has no command line for a moment.
_QUIET_S = 0.5


def settled(run: layout.Run) -> Optional[RunInfo]:
    """The run as it stands; None where there is none. Called under the run's lock, when no launch is at work.

    A "pending" whose supervisor has said nothing is that only while some process still speaks of the run's folder.
    """
    deadline = time.monotonic() + runs.START_WINDOW_S
    last_sign = time.monotonic()
    while time.monotonic() < deadline and time.monotonic() - last_sign < _QUIET_S:
        state = layout.read_record(State, run.state)
        if state is None or state.state != "pending" or state.supervisor is not None:
            return runs.info(run)
        if processes.mentioning(run.path):
            last_sign = time.monotonic()
        time.sleep(_POLL_S)
    shown = runs.info(run)
    if shown is not None and shown.state == "pending":
        shown.state, shown.cause = runs.LOST, "never-started"
    return shown
