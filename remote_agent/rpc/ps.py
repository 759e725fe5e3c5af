"""`ps`: what runs there are."""

from __future__ import annotations

from typing import Any, Dict

from remote_agent import runs
from remote_agent.rpc.request import data_dir_of
from remote_agent.rpc.server import Call


def ps(call: Call) -> Dict[str, Any]:
    """{"runs": [RunInfo]}, newest launch first. Body: data_dir, archived."""
    data_dir = data_dir_of(call.body.get("data_dir"))
    return {"runs": runs.all_runs(data_dir, archived=call.body.get("archived") is True)}
