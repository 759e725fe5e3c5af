"""What follows only from several findings: a torch that sees no card is well on a box without one, and broken beside one."""

from __future__ import annotations

from typing import List

from remote_agent.protocol import Check

_BLIND = {"torch-cpu": "torch-cpu-beside-gpu", "torch-idle": "torch-blind"}


def judge(checks: List[Check]) -> List[Check]:
    """The same lines in the same order, some of them worse."""
    has_cards = any(check.name == "gpu" and check.found == "gpu-ok" for check in checks)
    return [_beside_cards(check) if has_cards and check.name == "torch" else check for check in checks]


def _beside_cards(check: Check) -> Check:
    code = _BLIND.get(check.found)
    return check if code is None else Check(check.name, "failure", code, check.params, hint=code)
