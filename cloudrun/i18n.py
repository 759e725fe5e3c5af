"""Every word for the user goes through `_()`; catalogues are found by locale or `CLOUDRUN_LANG`."""

from __future__ import annotations

import gettext
import os
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def _translation() -> gettext.NullTranslations:
    chosen = os.environ.get("CLOUDRUN_LANG")
    languages = [chosen] if chosen else None
    return gettext.translation("cloudrun", Path(__file__).parent / "locale", languages=languages, fallback=True)


def _(message: str) -> str:
    """The message in the user's language; unchanged where there is no translation."""
    return _translation().gettext(message) if message else message


def N_(message: str) -> str:
    """Marks a message for translation where it stands in a table; `_()` is called where it is shown."""
    return message
