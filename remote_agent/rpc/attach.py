"""`attach`: which session holds the run, for a client that is about to open a terminal on it."""

from __future__ import annotations

from typing import Any, Dict

from remote_agent import runs
from remote_agent.protocol import LIVE_STATES, AgentError, Ref
from remote_agent.rpc.request import data_dir_of, request_of
from remote_agent.rpc.server import Call


def attach(call: Call) -> Dict[str, Any]:
    """{"run", "backend", "session", "clients", "leave"}: `leave` are the keys that leave it, for a person. Body: Ref.

    Raises AgentError: "run-not-live", "detached-cannot-attach", "session-not-running".
    """
    from remote_agent import sessions
    ref = request_of(Ref, call.body)
    shown = runs.resolve(data_dir_of(ref.data_dir), ref.name, ref.project_id)
    if shown.state not in LIVE_STATES or shown.backend not in sessions.NAMES:
        raise AgentError("run-not-live", run=shown.name, state=shown.state)
    if shown.backend == "detached":
        raise AgentError("detached-cannot-attach", name=shown.name)
    backend = sessions.backend(shown.backend)
    found = backend.find(shown.name)
    if found is None:
        raise AgentError("session-not-running", name=shown.name)
    return {"run": shown.name, "backend": shown.backend, "session": found.id, "clients": found.clients,
            "leave": backend.leave_keys(shown.name)}
