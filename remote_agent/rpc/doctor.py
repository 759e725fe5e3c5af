"""`doctor`: looks at what a run needs of the box, and changes nothing."""

from __future__ import annotations

import time
from typing import Any, Dict

from remote_agent.checks import PROBES, together
from remote_agent.checks.probe import Asked, run_all
from remote_agent.rpc.server import Call


def clock(call: Call) -> Dict[str, Any]:
    """{"time_s"}: the box's clock, in seconds since 1970. Asked for the round trip and for what the clocks differ."""
    return {"time_s": time.time()}


def check(call: Call) -> Dict[str, Any]:
    """{"checks": [Check]} in the order they are shown. Body: data_dir, python, activation."""
    body = call.body
    asked = Asked(body.get("data_dir"), body.get("python"), str(body.get("activation") or ""))
    return {"checks": together.judge(run_all(PROBES, asked))}
