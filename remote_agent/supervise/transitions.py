"""The legal steps of a run's life, in one table. What it does not name is refused."""

from __future__ import annotations

from typing import Dict, FrozenSet, Optional

from remote_agent.protocol import CAUSES, State

#: An end has no way out: the next launch writes a new record.
STEPS: Dict[str, FrozenSet[str]] = {
    "pending": frozenset(("running", "waiting", "stopping", "failed", "stopped")),
    "running": frozenset(("stalled", "waiting", "stopping", "succeeded", "failed", "stopped")),
    "stalled": frozenset(("running", "waiting", "stopping", "succeeded", "failed", "stopped")),
    "waiting": frozenset(("running", "stopping", "failed", "stopped")),
    "stopping": frozenset(("succeeded", "failed", "stopped")),
    "succeeded": frozenset(),
    "failed": frozenset(),
    "stopped": frozenset(),
}


def step(state: State, to: str, cause: Optional[str] = None) -> None:
    """Moves a record on. Raises ValueError, and leaves it as it was, where the table does not allow that."""
    if to not in STEPS.get(state.state, ()) or (cause is not None and cause not in CAUSES):
        raise ValueError("illegal step: %s to %s, cause %s" % (state.state, to, cause))
    state.state = to
    state.cause = cause
