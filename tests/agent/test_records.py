"""Our cheap dataclasses beside the standard library's: nobody may see a difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from remote_agent import records


def made(dataclass: Any, **settings: Any) -> Any:
    @dataclass(**settings) if settings else dataclass
    class Point:
        """A point."""

        x: int
        y: int = 2
        tags: list[str] = dataclasses.field(default_factory=list)

        @property
        def far(self) -> bool:
            return self.x > 10

    return Point


BOTH = [(made(records.dataclass, **settings), made(dataclasses.dataclass, **settings)) for settings in ({}, {"frozen": True})]


def outcome(work: Callable[[], Any]) -> Any:
    """What it gives, or the kind of error."""
    try:
        return work()
    except Exception as error:
        return type(error)


def change(point: Any) -> None:
    point.x = 5


def take_away(point: Any) -> None:
    del point.x


@pytest.mark.parametrize(("ours", "theirs"), BOTH, ids=["plain", "frozen"])
@pytest.mark.parametrize("use", [
    lambda kind: repr(kind(1)),
    lambda kind: repr(kind(1, tags=["a"], y=3)),
    lambda kind: kind(1) == kind(1, 2, []),
    lambda kind: kind(1) == kind(2),
    lambda kind: kind(1) == (1, 2, []),
    lambda kind: kind(1).tags is kind(1).tags,
    lambda kind: kind(),
    lambda kind: kind(1, 2, [], 4),
    lambda kind: kind(1, x=1),
    lambda kind: kind(1, z=1),
    lambda kind: kind(y=1),
    lambda kind: repr(dataclasses.replace(kind(1), y=7)),
    lambda kind: dataclasses.asdict(kind(1, 2, ["a"])),
    lambda kind: [field.name for field in dataclasses.fields(kind)],
    lambda kind: dataclasses.is_dataclass(kind(1)),
    lambda kind: (kind(11).far, kind.__doc__, vars(kind(3))),
    lambda kind: hash(kind(1, tags="ab")),
    lambda kind: {kind(1, tags=()): 1}[kind(1, tags=())],
    lambda kind: change(kind(1)),
    lambda kind: take_away(kind(1)),
])
def test_nobody_sees_a_difference(ours: Any, theirs: Any, use: Callable[[Any], Any]) -> None:
    assert outcome(lambda: use(ours)) == outcome(lambda: use(theirs))
