"""TOML as people write it by hand: read, with a mistake said in plain words and by its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import tomlkit
from tomlkit import exceptions

from cloudrun.i18n import _

_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"\s*(\"[^\"]*\"|'[^']*'|[A-Za-z0-9_-]+)\s*[=.]")
_TYPOGRAPHIC = "“”„‘’「」"


class TomlError(ValueError):
    """What is wrong, in words for the user."""


def decode(text: str) -> dict[str, Any]:
    """The file's content. Raises TomlError."""
    try:
        return tomlkit.parse(text).unwrap()
    except exceptions.ParseError as error:
        lines = text.splitlines()
        line = lines[error.line - 1].strip() if 0 < error.line <= len(lines) else ""
        words = _("line {number}: {what}").format(number=error.line, what=_meaning(error, line))
        raise TomlError(f"{words}: {line}" if line else words) from error
    except exceptions.TOMLKitError as error:  # a key that is there twice comes without its line
        raise TomlError(f"{_second(text)}{str(error).rstrip('.')}") from error


def _meaning(error: exceptions.ParseError, line: str) -> str:
    """What mostly is behind the parser's word."""
    key, _equals, value = (part.strip() for part in line.partition("="))
    if isinstance(error, exceptions.InvalidControlChar):
        return _("a quotation mark is left open")
    if isinstance(error, exceptions.UnexpectedEofError):
        return _("a quotation mark or bracket that opens here or further on is not closed")
    if value[:1] and value[0] in _TYPOGRAPHIC:
        return _("these quotation marks are typographic, TOML knows only \" and '")
    if isinstance(error, exceptions.InvalidCharInStringError):
        return _("a backslash has to be doubled, or the text put into single quotation marks")
    if isinstance(error, exceptions.UnexpectedCharError) and key and value:
        if re.match(r"[A-Za-z_./~$]", value):
            return _("a text has to stand in quotation marks")
        if value.count('"') > 2:
            return _("quotation marks inside of quotation marks; put single ones around the whole")
    return re.sub(r" at line \d+ col \d+\Z", "", str(error)).rstrip(".")


def line_of(text: str, table: str, key: str) -> int | None:
    """The line, from 1, on which `key` of `[table]` ("" for the top) stands; None where it is written in another way."""
    for number, found_table, found_key in _keys(text):
        if (found_table, found_key) == (table, key):
            return number
    return None


def _second(text: str) -> str:
    """The line of the first key that its table has already; nothing where none is found."""
    seen = set()
    for number, table, key in _keys(text):
        if (table, key) in seen:
            return _("line {number}: ").format(number=number)
        seen.add((table, key))
    return ""


def _keys(text: str) -> Iterator[tuple[int, str, str]]:
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = _TABLE.match(line)
        if header:
            table = re.sub(r"\s*[\"']?\s*\.\s*[\"']?\s*", ".", header.group(1)).strip("\"'")
        elif key := _KEY.match(line):
            yield number, table, key.group(1).strip("\"'")
