"""`--watch`: one question asked again and again over one connection, which is made anew when it is lost."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

from cloudrun.app.logs import SAY_AFTER_S, Patience
from cloudrun.errors import CloudrunError, Exit

Box = TypeVar("Box")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Question(Generic[Box, Answer]):
    """`open` gives the box for as long as its block lasts; `ask` asks it once. Both raise CloudrunError."""

    open: Callable[[], AbstractContextManager[Box]]
    ask: Callable[[Box], Answer]


@dataclass(frozen=True)
class Told:
    """Where it is said, once in an outage that lasts, that the box cannot be reached; and after how many seconds it was again."""

    lost: Callable[[CloudrunError], None]
    back: Callable[[float], None]


def answers(
    question: Question[Box, Answer], told: Told, patience: Patience | None = None
) -> Generator[Answer, None, None]:
    """Answers without end. The first one's failure is an error at once; a connection that is lost later is made again without
    end. Other errors are raised."""
    return _Watch(question, told, patience or Patience()).answers()


@dataclass
class _Watch(Generic[Box, Answer]):
    """`lost_at`: since when there has been no answer, or None. `tries`: connections made in vain since then."""

    question: Question[Box, Answer]
    told: Told
    patience: Patience
    answered: bool = False
    lost_at: float | None = None
    tries: int = 0
    said: bool = False

    def answers(self) -> Generator[Answer, None, None]:
        while True:
            try:
                with self.question.open() as box:
                    while True:
                        answer = self.question.ask(box)
                        self._is_back()
                        yield answer
            except CloudrunError as error:
                if not self.answered or error.exit_code != Exit.UNREACHABLE:
                    raise
                self._is_lost(error)

    def _is_back(self) -> None:
        self.answered = True
        if self.lost_at is not None:
            self.told.back(self.patience.clock() - self.lost_at)
        self.lost_at, self.tries, self.said = None, 0, False

    def _is_lost(self, error: CloudrunError) -> None:
        """Waits before the next try."""
        now = self.patience.clock()
        if self.lost_at is None:
            self.lost_at = now
        if not self.said and now - self.lost_at > SAY_AFTER_S:
            self.said = True
            self.told.lost(error)
        self.patience.sleep(self.patience.delay_s(self.tries))
        self.tries += 1
