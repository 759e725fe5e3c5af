"""The words for what the doctor finds. Codes that have no template here are those of the error catalogue."""

from __future__ import annotations

from typing import Any

from cloudrun.cli.render.doctor_found import FOUND, NAMES
from cloudrun.cli.render.doctor_hints import HINTS, LOCAL_HINTS
from cloudrun.cli.render.units import memory, size
from cloudrun.errors import CloudrunError
from cloudrun.errors.assembled import CATALOGUE
from cloudrun.i18n import _
from remote_agent import protocol

#: Lines whose bytes are memory, which is counted in powers of 1024.
_OF_MEMORY = ("memory", "shared-memory", "gpu")


def name_words(check: protocol.Check) -> str:
    return _(NAMES[check.name]) if check.name in NAMES else check.name


def found_words(check: protocol.Check, host: str) -> str:
    """What was found, in words; a code of a newer agent shows as it came."""
    if check.found in FOUND:
        return _fill(FOUND[check.found], check, host)
    if check.found in CATALOGUE:
        return CloudrunError(check.found, **check.params).message
    return f"{check.found} {check.params}" if check.params else check.found


def hint_words(check: protocol.Check, host: str, *, local: bool = False) -> str | None:
    """What to type, or None where all is well or this version does not know. `local`: the box is this machine."""
    if check.hint is None:
        return None
    template = (LOCAL_HINTS if local else HINTS).get(check.hint, HINTS.get(check.hint))
    if template is not None:
        return _fill(template, check, host)
    return CloudrunError(check.hint, **{"host_name": host, **check.params}).hint if check.hint in CATALOGUE else None


def gpu_check(report: protocol.GpuReport) -> protocol.Check:
    """A report that is not well as the doctor's line, so that both say it in the same words."""
    code = "gpu-" + report.state
    return protocol.Check("gpu", "failure", code, {"detail": report.detail or ""}, hint=code)


def _fill(template: str, check: protocol.Check, host: str) -> str:
    shown: dict[str, Any] = {"host": host}
    amount = memory if check.name in _OF_MEMORY else size
    for key, value in check.params.items():
        shown[key] = amount(value) if key.endswith("_bytes") and isinstance(value, int) else value
    try:
        return _(template).format_map(shown)
    except (KeyError, ValueError, TypeError):  # an older or newer agent says less or other than this template wants
        return f"{_(template)} {check.params}"
