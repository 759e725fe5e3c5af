"""What the agent itself shows on a terminal, in the language of the user who launched or attached (CLOUDRUN_LANG).

Errors and answers travel as codes and are put into words on the laptop; this is for what no laptop stands between, and for
the reasons that go along with a code (`rpc --lang`).
"""

from __future__ import annotations

import os
from typing import Callable, Optional

#: Set for a session at its launch, and by `--lang` for a mode that a laptop started.
VARIABLE = "CLOUDRUN_LANG"
_CATALOGUE = "locale/zh_CN/LC_MESSAGES/agent.mo"

_found: Optional[Callable[[str], str]] = None


def _(message: str) -> str:
    """The message in that language; unchanged in English."""
    global _found
    if _found is None:
        _found = _load(os.environ.get(VARIABLE, ""))
    return _found(message)


def N_(message: str) -> str:
    """Marks a message for translation where it stands in a table; `_()` is called where it is shown."""
    return message


def speak(language: str) -> None:
    """From now on in that language, and so do the programs that are started."""
    global _found
    os.environ[VARIABLE] = language
    _found = None


def _load(language: str) -> Callable[[str], str]:
    if not language.lower().startswith("zh"):
        return N_
    import gettext  # most answers need no word of ours, and a start counts milliseconds
    import io
    import pkgutil

    try:
        data = pkgutil.get_data("remote_agent", _CATALOGUE)  # from a zip too
        return gettext.GNUTranslations(io.BytesIO(data or b"")).gettext
    except (OSError, ValueError, UnicodeDecodeError):
        return N_
