"""The box's clock, as files say it: UTC, ISO 8601, whole seconds. Durations elsewhere are monotonic."""

from __future__ import annotations

import calendar
import time
from typing import Optional

_FORMAT = "%Y-%m-%dT%H:%M:%S"


def now_utc() -> str:
    """Now, for example "2026-12-01T02:59:44Z"."""
    return time.strftime(_FORMAT, time.gmtime()) + "Z"


def age_s(stamp: Optional[str]) -> Optional[float]:
    """Seconds since that time, never below 0: the clock may have been set back. None for what is no time."""
    if stamp is None:
        return None
    try:
        then = calendar.timegm(time.strptime(stamp[:19], _FORMAT))
    except ValueError:
        return None
    return max(0.0, time.time() - then)
