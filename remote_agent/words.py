"""What the agent itself shows on a terminal, in the language of the user who launched or attached (CLOUDRUN_LANG).

Errors and answers travel as codes and are put into words on the laptop; this is for what no laptop stands between.
"""

from __future__ import annotations

import gettext
import io
import os
import pkgutil
from typing import Optional

#: Set for a session at its launch, and by `attach --lang`.
VARIABLE = "CLOUDRUN_LANG"
_CATALOGUE = "locale/zh_CN/LC_MESSAGES/agent.mo"

_found: Optional[gettext.NullTranslations] = None


def _(message: str) -> str:
    """The message in that language; unchanged in English."""
    global _found
    if _found is None:
        _found = _load(os.environ.get(VARIABLE, ""))
    return _found.gettext(message)


def N_(message: str) -> str:
    """Marks a message for translation where it stands in a table; `_()` is called where it is shown."""
    return message


def speak(language: str) -> None:
    """From now on in that language, and so do the programs that are started."""
    global _found
    os.environ[VARIABLE] = language
    _found = None


def _load(language: str) -> gettext.NullTranslations:
    if not language.lower().startswith("zh"):
        return gettext.NullTranslations()
    try:
        data = pkgutil.get_data("remote_agent", _CATALOGUE)  # from a zip too
        return gettext.GNUTranslations(io.BytesIO(data or b""))
    except (OSError, ValueError, UnicodeDecodeError):
        return gettext.NullTranslations()
