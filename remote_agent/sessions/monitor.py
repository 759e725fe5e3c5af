"""The monitor window: per card how busy it is and how full, anew every five seconds; less often where looking is dear."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING, List, Optional

from remote_agent import clock, gpu
from remote_agent.protocol import Gpu, GpuReport
from remote_agent.words import N_, _

if TYPE_CHECKING:
    from remote_agent.sessions.windows import Window

EVERY_S = 5.0
#: A driver that is not kept awake takes seconds for an answer, and every run on the box has a monitor: the look takes a tenth of
#: the time at most. One that hangs is left alone for a while.
_SHARE = 10.0
HANGING_S = 60.0
_ASK_S = 10.0
_GIB = float(1 << 30)
_BAR_WIDTH = 20
_WHY = {
    "not-installed": N_("No GPU here: nvidia-smi is not installed."),
    "no-device": N_("No GPU here: the driver is there and finds no card. (Was the box started without one?)"),
    "driver-mismatch": N_("The driver in the kernel and its library are of different versions. A restart of the box mends it."),
    "driver-unreachable": N_("nvidia-smi cannot reach the driver."),
    "device-unknown": N_("The driver cannot tell what card this is."),
    "gpu-lost": N_("A card has fallen off the bus. Only a restart of the box brings it back."),
    "timeout": N_("nvidia-smi does not answer; the driver hangs."),
    "error": N_("nvidia-smi failed."),
}


def show(window: "Window") -> int:
    """Redraws until the window is not wanted any more. A hang-up takes along the nvidia-smi that is being waited for."""
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    window.write(b"\x1b[2J")
    while True:
        began = time.monotonic()
        report = gpu.report(_ASK_S)
        every_s = pause_s(report, time.monotonic() - began)
        window.write(page(report, clock.now_utc(), window.columns(), every_s).encode("utf-8", "replace"))
        if not window.wait(every_s):
            return 0


def pause_s(report: GpuReport, took_s: float) -> float:
    """How long to wait before the next look."""
    return max(HANGING_S if report.state == "timeout" else EVERY_S, _SHARE * took_s)


def page(report: GpuReport, now: str, columns: int, every_s: float = EVERY_S) -> str:
    """The whole page, drawn over the last one without a flicker."""
    lines = ["GPU   %s" % now, ""]
    if every_s > EVERY_S:
        lines[0] += "   " + _("nvidia-smi is slow here: asked every {seconds} s").format(seconds=round(every_s))
    for card in report.gpus:
        lines += [*_card(card), ""]
    if report.state != "ok":
        why = _(_WHY[report.state]) if report.state in _WHY else _("The state of the GPU is {state}.").format(state=report.state)
        lines += [why, report.detail or ""]
    drawn = "".join("%s\x1b[K\r\n" % line[:max(1, columns - 1)] for line in lines)
    return "\x1b[H" + drawn + "\x1b[J"


def _card(card: Gpu) -> List[str]:
    index = "?" if card.index is None else str(card.index)
    more = [text for text in (_number(card.temperature_c, "%.0f °C"), _number(card.power_w, "%.0f W")) if text]
    used, total = card.memory_used_bytes, card.memory_total_bytes
    unknown = _("unknown")
    share = 100.0 * used / total if used is not None and total else None
    return [
        "%s  %s   %s" % (index, card.name or _("unknown card"), "  ".join(more)),
        "   %s %s %s" % (_("use    "), _bar(card.utilization_percent), _number(card.utilization_percent, "%3.0f %%") or unknown),
        "   %s %s %s / %s" % (_("memory "), _bar(share), _number(used, "%.1f", _GIB) or unknown,
                              _number(total, "%.1f GiB", _GIB) or unknown),
    ]


def _bar(percent: Optional[float]) -> str:
    if percent is None:
        return "[%s]" % ("?" * _BAR_WIDTH)
    full = round(_BAR_WIDTH * min(100.0, max(0.0, percent)) / 100.0)
    return "[%s%s]" % ("#" * full, "." * (_BAR_WIDTH - full))


def _number(value: Optional[float], shape: str, unit: float = 1.0) -> str:
    return "" if value is None else shape % (value / unit)
