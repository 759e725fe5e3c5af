"""The texts of `templates/`: beside the package in the source tree, inside it in the wheel."""

from __future__ import annotations

from pathlib import Path

import cloudrun
from cloudrun.errors import CloudrunError


def template_text(name: str) -> str:
    """The template's text, line ends LF. Raises CloudrunError("template-missing")."""
    package = Path(cloudrun.__file__).parent
    for folder in (package / "templates", package.parent / "templates"):
        try:
            return (folder / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
    raise CloudrunError("template-missing", name=name, folder=str(package / "templates"))
