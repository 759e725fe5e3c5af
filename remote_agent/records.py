"""Dataclasses that cost little to make: their methods are shared, where `dataclasses` writes and compiles some for each class.

There are dozens of them in every start of the agent, which is to answer within a blink. What `fields`, `replace` and
`is_dataclass` see is a dataclass like any other; type checkers see the original.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(kind: Optional[type] = None, *, frozen: bool = False) -> Any:
        """`@dataclass` and `@dataclass(frozen=True)`; no other settings, fields all plain."""
        if kind is None:
            return partial(dataclass, frozen=frozen)
        made = dataclasses.dataclass(init=False, repr=False, eq=False)(kind)
        made.__init__, made.__repr__, made.__eq__, made.__hash__ = _init, _repr, _eq, _hash if frozen else None
        if frozen:
            made.__setattr__ = made.__delattr__ = _refuse
        made.__record__ = tuple((f.name, f.default, f.default_factory) for f in dataclasses.fields(made))
        return made


_NONE = dataclasses.MISSING


def _init(self: Any, *values: Any, **named: Any) -> None:
    known = self.__record__
    if len(values) > len(known):
        raise TypeError("%s takes %d values, not %d" % (type(self).__name__, len(known), len(values)))
    held = self.__dict__
    for (name, _default, _factory), value in zip(known, values):
        if name in named:
            raise TypeError("%s: %s is given twice" % (type(self).__name__, name))
        held[name] = value
    for name, default, factory in known[len(values):]:
        if name in named:
            held[name] = named.pop(name)
        elif default is not _NONE:
            held[name] = default
        elif factory is not _NONE:
            held[name] = factory()
        else:
            raise TypeError("%s: %s is missing" % (type(self).__name__, name))
    if named:
        raise TypeError("%s knows no %s" % (type(self).__name__, ", ".join(sorted(named))))


def _hash(self: Any) -> int:
    return hash(tuple(getattr(self, f[0]) for f in self.__record__))


def _refuse(self: Any, name: str, *_value: Any) -> None:
    raise dataclasses.FrozenInstanceError("cannot change field %r" % name)


def _repr(self: Any) -> str:
    return "%s(%s)" % (type(self).__qualname__, ", ".join("%s=%r" % (f[0], getattr(self, f[0])) for f in self.__record__))


def _eq(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, f[0]) == getattr(other, f[0]) for f in self.__record__)
