"""`cloudrun init`: a commented `cloudrun.toml` to begin with."""

from __future__ import annotations

from pathlib import Path

from cloudrun.errors import CloudrunError
from cloudrun.i18n import CHINESE, spoken
from cloudrun.project.settings import FILE_NAME
from cloudrun.project.templates import template_text


def example() -> str:
    """The commented example, as it would be written: with comments in the user's language."""
    return template_text("cloudrun.zh_CN.toml" if spoken() == CHINESE else FILE_NAME)


def init(folder: Path) -> Path:
    """Writes the example into the folder. Raises CloudrunError where a file of that name is there: it is never overwritten."""
    path = folder / FILE_NAME
    try:
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(example())
    except FileExistsError:
        raise CloudrunError("init-exists", path=str(path)) from None
    return path
