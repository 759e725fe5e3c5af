"""What the box knows of terminals and locales. Files are looked at: `infocmp` is often not there, and a Python with a
terminfo of its own (conda's) knows terminals that the box's screen does not."""

from __future__ import annotations

import locale
import os
import subprocess
import sys
from typing import List, Optional, Tuple

FALLBACKS = ("xterm-256color", "xterm", "vt100")
_WINDOW_TERMS = ("screen-256color", "screen", "xterm", "vt100")
#: A terminal that cannot be drawn on.
_USELESS = ("", "dumb", "unknown", "network", "dialup")
_FOLDERS = ("/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo", "/usr/lib/terminfo", "/usr/local/share/terminfo")
_LOCALES = ("C.UTF-8", "C.utf8", "en_US.UTF-8", "en_US.utf8", "zh_CN.UTF-8", "zh_CN.utf8", "POSIX.UTF-8")
_CURSES_S = 5.0


def usable_term(term: str, program: Optional[str] = None) -> str:
    """The terminal's own name where the box knows it, else the first of those that are known nearly everywhere."""
    if term not in _USELESS and known(term, program):
        return term
    return next((name for name in FALLBACKS if known(name, program)), FALLBACKS[-1])


def window_term(program: Optional[str] = None) -> str:
    """What the programs inside a session are told their terminal is."""
    return next((name for name in _WINDOW_TERMS if known(name, program)), _WINDOW_TERMS[-1])


def known(term: str, program: Optional[str] = None) -> bool:
    """Whether terminfo has this terminal, for a program at that path (conda's carry one of their own)."""
    if not term or "/" in term or term.startswith("."):
        return False
    folders = [folder for folder in _folders(program) if os.path.isdir(folder)]
    if not folders:
        return _known_to_curses(term)
    below = (term[0], "%x" % ord(term[0]))
    return any(os.path.exists(os.path.join(folder, first, term)) for folder in folders for first in below)


def utf8_locale() -> Optional[str]:
    """A UTF-8 locale that the box has, the user's own first; None where there is none."""
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        return next((name for name in _candidates() if _is_utf8(name)), None)
    finally:
        locale.setlocale(locale.LC_CTYPE, before)


def _folders(program: Optional[str]) -> List[str]:
    own: Tuple[str, ...] = ()
    if program:
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(program)))
        own = (os.path.join(prefix, "share", "terminfo"), os.path.join(prefix, "lib", "terminfo"))
    return [*own, *_FOLDERS]


def _known_to_curses(term: str) -> bool:
    """Where terminfo is one hashed file. In a child: setupterm answers only once in a process."""
    code = "import curses, sys; curses.setupterm(sys.argv[1], 1)"
    try:
        done = subprocess.run([sys.executable, "-I", "-c", code, term], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_CURSES_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _candidates() -> List[str]:
    own = (os.environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    return [*(name for name in own if name), *_LOCALES]


def _is_utf8(name: str) -> bool:
    try:
        locale.setlocale(locale.LC_CTYPE, name)
    except locale.Error:
        return False
    return locale.nl_langinfo(locale.CODESET).upper() in ("UTF-8", "UTF8")
