"""An error's parameters as its words show them: by their names' units. JSON and programs get them as they came."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cloudrun.i18n import _
from cloudrun.states import state_words
from cloudrun.units import age, size

#: What stands in a hint for a name that is not known where the error arose.
_PLACEHOLDERS = {"host_name": "NAME", "verb": "add", "near": "", "largest": ""}
#: Of what takes space, a part smaller than this of the whole disk explains nothing.
_WORTH_NAMING = 0.01


class Shown(dict[str, Any]):
    """Parameters for `str.format_map`. One that the other side did not send shows as '?', never as a second error."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__({key: _shown(key, value) for key, value in params.items()})
        self.update({key: make(params) for key, make in _CLAUSES.items() if isinstance(params.get(key), (list, tuple))})

    def __missing__(self, key: str) -> _Unknown:
        return _Unknown(_PLACEHOLDERS.get(key, "?"))


class _Unknown(str):
    """Stands where a value is not known, whatever way the words wanted to write it."""

    def __format__(self, spec: str) -> str:
        return str(self)


def _shown(key: str, value: Any) -> Any:
    if value is None:
        return _Unknown("?")
    if isinstance(value, (list, tuple)):
        return ", ".join(str(_shown(key, item)) for item in value) or "-"
    if isinstance(value, Mapping) and "size_bytes" in value:  # a `SpaceTaken`
        more = "" if value.get("complete", True) else "≥ "
        return f"{value.get('path')} ({more}{size(value['size_bytes'])})"
    if key == "state":
        return state_words(str(value))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if key.endswith("_bytes"):
        return size(int(value))
    return age(value) if key.endswith("age_s") else value


def _near(params: Mapping[str, Any]) -> str:
    """A clause that is not there where there is nothing to name."""
    return _("; near it: {names}").format(names=", ".join(params["near"])) if params["near"] else ""


def _largest(params: Mapping[str, Any]) -> str:
    least = _WORTH_NAMING * (params.get("total_bytes") or 0)
    taken = [one for one in params["largest"] if isinstance(one, Mapping) and (one.get("size_bytes") or 0) >= least]
    return _("; most is taken by: {what}").format(what=", ".join(_shown("largest", one) for one in taken)) if taken else ""


def _differing(params: Mapping[str, Any]) -> str:
    """What two launches do not have in common, by name."""
    named = {"command": _("the command differs"), "code": _("the code differs"), "secrets": _("the secrets differ")}
    given = list(map(str, params["differing"]))
    parts = [named[name] for name in given if name in named]
    settings = [name for name in given if name not in named]
    return ", ".join([*parts, *([_("settings differ: {names}").format(names=", ".join(settings))] if settings else [])])


_CLAUSES: dict[str, Callable[[Mapping[str, Any]], str]] = {"near": _near, "largest": _largest, "differing": _differing}
