"""Every word for the user goes through `_()`: English as it stands in the code, Chinese from the catalogue in `locale/`."""

from __future__ import annotations

import gettext
import locale
import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

LOCALE_DIR = Path(__file__).parent / "locale"
CHINESE = "zh_CN"


def language(env: Mapping[str, str] | None = None) -> str:
    """"zh_CN" or "en": by CLOUDRUN_LANG, else by the locale as gettext reads it, else by the system's own setting."""
    env = os.environ if env is None else env
    chosen = env.get("CLOUDRUN_LANG")
    if chosen:
        return CHINESE if _is_chinese(chosen) else "en"
    place = next((env[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if env.get(name)), None)
    if place is None:
        return _first_known(_of_system())
    if place.partition(".")[0] in ("C", "POSIX"):
        return "en"
    return _first_known([*env.get("LANGUAGE", "").split(":"), place])


def spoken() -> str:
    """The language that is really shown: English where the terminal has no Chinese letters."""
    return "en" if _translation() is None else CHINESE


def _is_chinese(name: str) -> bool:
    """Traditional too: it reads Simplified sooner than English."""
    return name.lower().startswith(("zh", "chinese"))


def _first_known(names: list[str]) -> str:
    """The first of the user's languages that is one of ours; whoever has neither reads English."""
    for name in names:
        if _is_chinese(name):
            return CHINESE
        if name.lower().startswith("en"):
            return "en"
    return "en"


def _of_system() -> list[str]:
    """What Windows and macOS know where no variable says it, best first; a Linux without any has said English."""
    if sys.platform == "win32":
        import ctypes

        return [locale.windows_locale.get(ctypes.windll.kernel32.GetUserDefaultUILanguage(), "")]
    if sys.platform == "darwin":
        return languages_of_macos(Path.home() / "Library" / "Preferences" / ".GlobalPreferences.plist")
    return []


def languages_of_macos(preferences: Path) -> list[str]:
    """The user's order of languages. Terminals there set no LANG where language and region are no pair of the system's."""
    import plistlib
    from xml.parsers.expat import ExpatError

    try:
        found = plistlib.loads(preferences.read_bytes()).get("AppleLanguages", [])
    except (OSError, ValueError, AttributeError, ExpatError):
        return []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _can_be_shown() -> bool:
    """Whether the terminal takes Chinese letters; a pipe is as the locale says."""
    for stream in (sys.stdout, sys.stderr):
        try:
            "中".encode(getattr(stream, "encoding", None) or "utf-8")
        except (UnicodeEncodeError, LookupError):
            return False
    return True


@lru_cache(maxsize=1)
def _translation() -> gettext.NullTranslations | None:
    """None for English, which needs no file."""
    if language() != CHINESE or not _can_be_shown():
        return None
    return gettext.translation("cloudrun", LOCALE_DIR, languages=[CHINESE], fallback=True)


def _(message: str) -> str:
    """The message in the user's language; unchanged where there is no translation."""
    found = _translation()
    return found.gettext(message) if found is not None and message else message


def N_(message: str) -> str:
    """Marks a message for translation where it stands in a table; `_()` is called where it is shown."""
    return message
