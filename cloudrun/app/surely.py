"""An outcome that is unknown is looked up: the connection is made anew and the same question asked, which must bear that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

from cloudrun.app.logs import Patience
from cloudrun.errors import CloudrunError, Exit

Box = TypeVar("Box")
Answer = TypeVar("Answer")
#: How long a box that answered before is looked for; a laptop that slept finds its network again in that time.
LIMIT_S = 60.0
#: An agent that dies of the request each time is no lost connection.
MOST_LOST = 4
#: The connection ended, or nothing came over it any more: the box may have done all of it, or nothing.
_UNKNOWN = ("connection-lost", "outcome-unknown")


@dataclass(frozen=True)
class Errand(Generic[Box, Answer]):
    """`ask` is told whether it was asked before: the box may have done all of it then. `lost` hears of each lost connection."""

    open: Callable[[], AbstractContextManager[Box]]
    ask: Callable[[Box, bool], Answer]
    lost: Callable[[CloudrunError], None]


def surely(errand: Errand[Box, Answer], patience: Patience | None = None) -> Answer:
    """The answer, over as many connections as it takes. Raises CloudrunError("outcome-unknown") when the time is over."""
    return _Trying(errand, patience or Patience()).answer()


@dataclass
class _Trying(Generic[Box, Answer]):
    """`unknown`: how the last request ended that may have been done. `deadline`: how long the box is looked for since."""

    errand: Errand[Box, Answer]
    patience: Patience
    unknown: CloudrunError | None = None
    lost: int = 0
    deadline: float = 0.0
    tries: int = 0

    def answer(self) -> Answer:
        while True:
            asked = False
            try:
                with self.errand.open() as box:
                    asked = True
                    return self.errand.ask(box, self.unknown is not None)
            except CloudrunError as error:
                self._again_or_raise(error, asked)

    def _again_or_raise(self, error: CloudrunError, asked: bool) -> None:
        """Waits where another connection may tell more. The first connection's own failure is an error at once."""
        if asked and error.code in _UNKNOWN:
            self.lost += 1
            self.unknown, self.tries = error, 0
            self.deadline = self.patience.clock() + LIMIT_S
            self.errand.lost(error)
        elif self.unknown is None or asked:
            raise error
        elif error.exit_code != Exit.UNREACHABLE:  # a login refused, a changed key: not what became of the request
            raise CloudrunError("outcome-unknown", **{**self.unknown.params, "stderr": f"({error.message})"}) from error
        if self.lost > MOST_LOST or self.patience.clock() > self.deadline:
            raise CloudrunError("outcome-unknown", **self.unknown.params) from error
        self.patience.sleep(self.patience.delay_s(self.tries))
        self.tries += 1
