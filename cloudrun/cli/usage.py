"""A wrong command line, in words of ours: typer's own are in English whatever the language."""

from __future__ import annotations

import re
from typing import Any

from cloudrun.i18n import N_, _

_NUMBER = re.compile(r"Input should be a valid (?P<kind>number|integer)")
_LEAST = re.compile(r"Input should be greater than or equal to (?P<limit>\S+)\Z")
_MOST = re.compile(r"Input should be less than or equal to (?P<limit>\S+)\Z")
_EXTRA = re.compile(r"Got unexpected extra argument\S* \((?P<words>.*)\)\Z", re.DOTALL)
_NO_VALUE = re.compile(r"Option '(?P<option>\S+)' requires an argument\.?\Z")
_A_VALUE = re.compile(r"Option '(?P<option>\S+)' does not take a value\.?\Z")


def usage_words(error: Any) -> str:
    """What is wrong with the command line. `error`: what typer raised; a kind that is not known here speaks for itself."""
    kind = type(error).__name__
    if kind == "NoSuchOption":
        return _no_option(error)
    if kind == "MissingParameter":
        return _("{what} is missing").format(what=_named(error.param))
    if kind == "BadParameter" and error.param is not None:
        return _bad_value(error)
    for pattern, words in (
        (_EXTRA, N_("too much on the line: {words}")), (_NO_VALUE, N_("the option {option} needs a value")),
        (_A_VALUE, N_("the option {option} takes no value")),
    ):
        found = pattern.match(error.message)
        if found:
            return _(words).format(**found.groupdict())
    if error.message.startswith("Missing command"):
        return _("a command is missing")
    return str(error.format_message())


def _no_option(error: Any) -> str:
    near = ", ".join(sorted(error.possibilities or ()))
    if near:
        return _("there is no option {option}; near it: {near}").format(option=error.option_name, near=near)
    return _("there is no option {option}").format(option=error.option_name)


def _bad_value(error: Any) -> str:
    what = _named(error.param)
    for pattern, words in (
        (_NUMBER, N_("{what} takes a number")), (_LEAST, N_("{what} must be {limit} or more")),
        (_MOST, N_("{what} must be {limit} or less")),
    ):
        found = pattern.match(error.message)
        if found:
            return _(words).format(what=what, **found.groupdict())
    return f"{what}: {error.message}"


def _named(param: Any) -> str:
    """As it is typed: `--grace`, `NAME`."""
    if param.param_type_name == "option":
        return str(max(param.opts, key=len))
    return str(param.metavar or param.name).strip("[]")
