"""Tests wait on conditions with deadlines, never on sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T], timeout_s: float = 15.0, what: str = "") -> T:
    """The first true value of `condition`. Raises AssertionError with `what` when the deadline passes."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come true within {timeout_s} s: {what or condition}")
        time.sleep(0.02)
