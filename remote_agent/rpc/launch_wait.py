"""After the start: until the command really runs, or has really failed. The run needs none of this to go on."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Optional

from remote_agent import layout, processes, runs
from remote_agent.protocol import LIVE_STATES, AgentError, Launched, RunInfo, Spec, State
from remote_agent.rpc.server import Call

#: A command that lives this long and has written something is said to run; a silent one is watched for `settle_s`.
ALIVE_S = 1.0
#: How long the supervisor may be silent in a session that lives.
FIRST_WORD_S = 120.0
#: How long a set-up, or a slow activation, is waited for; it goes on without us.
PATIENCE_S = 1800.0
SAY_EVERY_S = 3.0
_POLL_S = 0.03


@dataclass
class _Watch:
    """What has been seen so far, on the monotonic clock."""

    begun: float = field(default_factory=time.monotonic)
    alive_since: Optional[float] = None
    #: Size of the log when the command began: what stands before is the set-up's.
    log_began_bytes: int = 0
    said: float = field(default_factory=time.monotonic)
    setup_said: bool = False


def await_start(call: Call, run: layout.Run, settle_s: float) -> Launched:
    """Returns with "started" or "failed-at-once". Raises AgentError("launch-silent") when nobody says a first word.

    Importing takes seconds, and that is where most launches fail: a command that has written nothing yet is watched for
    `settle_s` before it counts as running, and then its silence is said (`Launched.silent`).
    """
    watch = _Watch()
    while True:
        shown = runs.info(run)
        if shown is None:
            raise AgentError("no-such-run", name=run.name, near=[])
        if shown.state not in LIVE_STATES:
            return _ended(run, shown)
        alive_s = _alive_s(run, shown, watch)
        spoken = _log_bytes(shown) > watch.log_began_bytes
        if alive_s >= settle_s or (alive_s >= ALIVE_S and spoken) or call.gone:
            return Launched("started", shown, silent=not spoken)
        waited_s = time.monotonic() - watch.begun
        if shown.state == "pending" and waited_s > FIRST_WORD_S:
            raise AgentError("launch-silent", run=run.name, waited_s=round(waited_s))
        if waited_s > PATIENCE_S:
            return Launched("started", shown)
        _say(call, run, shown, watch)
        time.sleep(_POLL_S)


def _say(call: Call, run: layout.Run, shown: RunInfo, watch: _Watch) -> None:
    """A set-up once, with what it is; then a sign of life now and again, which finds out whether anybody still listens."""
    now = time.monotonic()
    if shown.phase == "setup" and not watch.setup_said:
        spec = layout.read_record(Spec, run.launch(shown.launch).spec)
        call.event("setup", run=run.name, setup=spec.setup if spec else None, log=shown.log)
        watch.setup_said = True
    elif now - watch.said > SAY_EVERY_S:
        call.event("starting", run=run.name, phase=shown.phase, waited_s=round(now - watch.begun))
    else:
        return
    watch.said = now


def _alive_s(run: layout.Run, shown: RunInfo, watch: _Watch) -> float:
    """How long the command has been seen alive, in one go; 0 while it is not."""
    state = layout.read_record(State, run.state)
    if shown.phase != "command" or state is None or not processes.alive(state.command):
        watch.alive_since = None
        return 0.0
    if watch.alive_since is None:
        watch.alive_since = time.monotonic()
        watch.log_began_bytes = _log_bytes(shown) if watch.setup_said else 0
    return time.monotonic() - watch.alive_since


def _log_bytes(shown: RunInfo) -> int:
    try:
        return os.path.getsize(shown.log) if shown.log else 0
    except OSError:
        return 0


def _ended(run: layout.Run, shown: RunInfo) -> Launched:
    if shown.state == "succeeded":
        return Launched("started", shown)
    return Launched("failed-at-once", shown, tail=runs.log_tail(run, shown.attempt))
