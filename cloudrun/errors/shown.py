"""An error's parameters as its words show them: by their names' units. JSON and programs get them as they came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cloudrun.units import age, size


class Shown(dict[str, Any]):
    """Parameters for `str.format_map`. One that the other side did not send shows as '?', never as a second error."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__({key: _shown(key, value) for key, value in params.items()})

    def __missing__(self, key: str) -> _Unknown:
        return _Unknown("?")


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
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if key.endswith("_bytes"):
        return size(int(value))
    return age(value) if key.endswith("age_s") else value
