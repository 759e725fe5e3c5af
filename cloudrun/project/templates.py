"""The texts of `templates/`: beside the package in the source tree, inside it in the wheel."""

from __future__ import annotations

from pathlib import Path

import cloudrun
from cloudrun.errors import CloudrunError
from cloudrun.i18n import _

#: How the session's own status line says how to leave it: the key that begins commands there, as the templates have it.
_KEYS = {"screenrc": "Ctrl-a", "tmux.conf": "Ctrl-b"}


def session_template(name: str, escape: str | None) -> str:
    """Settings of a session program. `escape` ("^Jj", or None) changes the key that their status line names."""
    key = _KEYS[name] if escape is None else f"Ctrl-{escape.lstrip('^')[:1].lower()}"
    return template_text(name).replace(f"{_KEYS[name]} d leaves", _("{keys} leaves").format(keys=f"{key} d"))


def template_text(name: str) -> str:
    """The template's text, line ends LF. Raises CloudrunError("template-missing")."""
    package = Path(cloudrun.__file__).parent
    for folder in (package / "templates", package.parent / "templates"):
        try:
            return (folder / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
    raise CloudrunError("template-missing", name=name, folder=str(package / "templates"))
