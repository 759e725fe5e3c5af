"""Sizes as people write them: `5 GB`, `500MiB`, `2e9`."""

from __future__ import annotations

import re

from cloudrun.i18n import _

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*([kmgt]?)(i?)b?\s*\Z", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(value: str | int) -> int:
    """Bytes. GB is 10^9, GiB is 2^30. Raises ValueError for anything else, negative numbers too."""
    if isinstance(value, int):
        if value < 0:
            raise ValueError(_("{value} is negative").format(value=value))
        return value
    match = _SIZE.match(value)
    if not match:
        raise ValueError(_("{value!r} is no size; write it like '5 GB' or '500 MiB'").format(value=value))
    number, prefix, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** _POWER[prefix.lower()])
