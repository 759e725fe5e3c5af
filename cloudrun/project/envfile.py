"""Environment files: lines NAME=value, as `docker --env-file` and dotenv read them."""

from __future__ import annotations

import re
from pathlib import Path

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)\Z", re.DOTALL)


def read_env_file(path: Path, named_by: str = "--env-file") -> dict[str, str]:
    """Names and values. They are secrets: the error names line, file and what named it, never what stands there."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        detail = error.strerror if isinstance(error, OSError) and error.strerror else _("it is no UTF-8 text")
        raise CloudrunError("env-file", path=str(path), detail=detail, named_by=named_by) from None
    return parse_env(text, str(path), named_by)


def parse_env(text: str, where: str, named_by: str = "--env-file") -> dict[str, str]:
    """Blank lines and lines that begin with # are skipped; a value may stand in single or double quotes."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.match(stripped)
        if not match:
            detail = _("line {number} is not of the form NAME=value").format(number=number)
            raise CloudrunError("env-file", path=where, named_by=named_by, detail=detail)
        values[match.group(1)] = _unquoted(match.group(2))
    return values


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        inner = value[1:-1]
        if value[0] == "'":
            return inner
        return re.sub(r'\\(["\\$n])', lambda escaped: "\n" if escaped[1] == "n" else escaped[1], inner)
    return re.split(r"\s+#", value, maxsplit=1)[0].rstrip()
