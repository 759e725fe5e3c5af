"""`--watch`: the same answer again and again, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from cloudrun.errors import Exit

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cloudrun.cli.context import Context

INTERVAL_S = 2.0

T = TypeVar("T")


def watch(context: Context, answers: Iterator[T], show: Callable[[T], object], view: Callable[[T], RenderableType]) -> int:
    """Redraws in place on a terminal (`view`); into a pipe, and with --json, one answer after the other (`show`).

    Leaving it is no failure.
    """
    from rich.live import Live

    try:
        if context.json or not sys.stdout.isatty():
            for answer in answers:
                show(answer)
                time.sleep(INTERVAL_S)
        with Live(auto_refresh=False) as live:
            for answer in answers:
                live.update(view(answer), refresh=True)
                time.sleep(INTERVAL_S)
    except KeyboardInterrupt:
        pass
    return int(Exit.OK)
