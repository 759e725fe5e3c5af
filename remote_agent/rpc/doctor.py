"""`doctor`: looks at what a run needs of the box, and changes nothing."""

from __future__ import annotations

from typing import Any, Dict

from remote_agent.checks import PROBES
from remote_agent.checks.probe import Asked, run_all
from remote_agent.rpc.server import Call


def check(call: Call) -> Dict[str, Any]:
    """{"checks": [Check]} in the order they are shown. Body: data_dir, python."""
    return {"checks": run_all(PROBES, Asked(call.body.get("data_dir"), call.body.get("python")))}
