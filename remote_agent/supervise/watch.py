"""Seeing one start of run.sh through: it ends by itself or is ended, and nothing of it is left afterwards."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Callable, Iterator, List, Optional

from remote_agent import clock, layout, tree
from remote_agent.protocol import ProcessRef
from remote_agent.supervise.attempt import Step
from remote_agent.supervise.journal import Journal
from remote_agent.supervise.orders import Orders
from remote_agent.supervise.wakeup import Wakeup
from remote_agent.verdict import Outcome

QUIET_S = 1.0
LEFTOVERS_GRACE_S = 3.0
#: How long run.sh may take to become the tee when it is to end at once.
COMMAND_WINDOW_S = 3.0
_FIRST_LOOKS_S = (0.02, 0.02, 0.05, 0.05, 0.1, 0.1, 0.25, 0.25)


@dataclass
class Surroundings:
    """What a watch works with. `pause` sleeps, reaps, and heeds what is wanted."""

    run: layout.Run
    journal: Journal
    signals: Wakeup
    orders: Orders
    pause: Callable[[float], None]
    #: Called when the step's process at the heart is known.
    began: Callable[[Step], None]
    #: Called before anybody is asked to end.
    stopping: Callable[[], None]


class Watch:
    """Watches one step."""

    def __init__(self, step: Step, around: Surroundings) -> None:
        self._step = step
        self._around = around

    def see_through(self) -> Outcome:
        """Returns when the text at the heart of run.sh has ended and no process of it lives."""
        alone = False
        for quiet_s in _looks():
            if self._step.look():
                self._around.began(self._step)
            outcome = self._outcome()
            if outcome is not None:
                self._end_tree(self._ending([], LEFTOVERS_GRACE_S))
                return outcome
            if self._around.orders.to_end is not None:
                return self._end()
            if self._step.pid in self._around.signals.statuses and not alone:
                alone = True
                self._around.journal.say("tee-died", status=self._around.signals.statuses[self._step.pid])
            self._around.pause(quiet_s)
        raise AssertionError("the looks never end")

    def _end(self) -> Outcome:
        """The orderly stop: said first, then asked, waited for, killed, verified."""
        self._around.stopping()
        self._await_command()
        top = self._step.command or self._step.tee
        ending = self._ending([top] if top is not None else [], self._around.orders.grace_s)

        def pause(seconds: float) -> None:
            self._around.pause(seconds)
            ending.grace_s = self._around.orders.grace_s

        ending.pause = pause
        self._end_tree(ending)
        self._around.signals.reap()
        return self._outcome() or Outcome(None, None, clock.now_utc())

    def _await_command(self) -> None:
        """While run.sh is on its way to the command nobody there would hear us: the tee is deaf on purpose."""
        deadline = time.monotonic() + COMMAND_WINDOW_S
        while self._step.command is None and not self._step.look() and time.monotonic() < deadline:
            if self._outcome() is not None:
                return
            self._around.pause(_FIRST_LOOKS_S[0])

    def _ending(self, roots: List[ProcessRef], grace_s: float) -> tree.Ending:
        tee = self._step.tee
        return tree.Ending(self._around.run.path, roots, grace_s, reaper=os.getpid(), pause=self._around.pause,
                           last=[tee] if tee is not None and tee not in roots else [])

    def _end_tree(self, ending: tree.Ending) -> None:
        ended = tree.end(ending)
        if ended.asked or ended.killed or ended.left:
            self._around.journal.say("tree-ended", asked=len(ended.asked), killed=ended.killed,
                                     left=[ref.pid for ref in ended.left])

    def _outcome(self) -> Optional[Outcome]:
        return self._step.outcome(self._around.signals.statuses)


def _looks() -> Iterator[float]:
    """Often at first, to see the command begin; then rarely."""
    for quiet_s in _FIRST_LOOKS_S:
        yield quiet_s
    while True:
        yield QUIET_S
