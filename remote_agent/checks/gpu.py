"""The GPU, as the driver tells."""

from __future__ import annotations

from typing import List, Optional

from remote_agent import gpu
from remote_agent.checks import memory
from remote_agent.checks.probe import Asked
from remote_agent.protocol import Check, GpuReport

_DEADLINE_S = 10.0
#: A box without a card is one that was started cheaply to copy data; anything else is broken.
_NO_CARD = ("not-installed", "no-device")


def check(asked: Asked) -> List[Check]:
    report = gpu.report(_DEADLINE_S)
    limit = memory.limit() if report.state in _NO_CARD else None
    return [judge(report, limit.limit_bytes if limit else None)]


def judge(report: GpuReport, memory_limit_bytes: Optional[int] = None) -> Check:
    """No card and hardly any memory: the provider's mode for copying data, where nothing is broken."""
    params = {"detail": report.detail or "", "count": len(report.gpus), "names": _names(report)}
    code = "gpu-" + report.state
    if report.state in _NO_CARD and memory_limit_bytes is not None and memory_limit_bytes <= memory.LITTLE_BYTES:
        code, params = "gpu-no-card-mode", dict(params, limit_bytes=memory_limit_bytes)
    if report.state == "ok":
        return Check("gpu", "ok", code, params)
    return Check("gpu", "warning" if report.state in _NO_CARD else "failure", code, params, hint=code)


def _names(report: GpuReport) -> str:
    """`2 x NVIDIA A100`, alike ones together, in the order of the cards."""
    names = [card.name or "?" for card in report.gpus]
    return ", ".join("%d x %s" % (names.count(name), name) for name in dict.fromkeys(names))
