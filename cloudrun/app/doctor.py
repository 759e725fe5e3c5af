"""`cloudrun doctor`: whether the box can be reached, and what its agent finds there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from cloudrun.agent.client import AgentClient
from cloudrun.errors import CloudrunError, Exit
from remote_agent import protocol

TIMEOUT_S = 60.0
#: What keeps one from the box, and what keeps the agent from running there; anything else is no finding but an error.
_NO_WAY = (Exit.UNREACHABLE, Exit.AUTHENTICATION, Exit.HOST_KEY_CHANGED, Exit.HOST_KEY_UNKNOWN, Exit.UNKNOWN_OUTCOME)
_SEVERITY = ("ok", "warning", "failure")


@dataclass(frozen=True)
class Examination:
    """What was found, in the order in which it is shown. Codes; `cloudrun.cli.render` makes the words."""

    host: str
    checks: tuple[protocol.Check, ...]
    #: The box is this machine: there is no provider to turn to.
    local: bool = False

    @property
    def exit_code(self) -> Exit:
        """Says the worst."""
        worst = max((_SEVERITY.index(check.status) for check in self.checks if check.status in _SEVERITY), default=0)
        return (Exit.OK, Exit.DOCTOR_WARNING, Exit.DOCTOR_FAILURE)[worst]


@dataclass(frozen=True)
class Patient:
    """The host to look at. `address` as people write it; `python` as it is configured; `local`: it is this machine."""

    host: str
    address: str
    data_dir: str | None
    python: str | None = None
    local: bool = False


def examine(patient: Patient, open_agent: Callable[[], AbstractContextManager[AgentClient]]) -> Examination:
    """Opens the box and asks its agent. No way to the box is a finding, not an error; raises CloudrunError for the rest."""
    reachable = protocol.Check("reachable", "ok", "reachable", {"address": patient.address})
    try:
        with open_agent() as client:
            answer = client.call("doctor", {"data_dir": patient.data_dir, "python": patient.python}, timeout_s=TIMEOUT_S)
    except CloudrunError as error:
        return Examination(patient.host, _without_agent(error, reachable), patient.local)
    found = [protocol.decode(protocol.Check, check) for check in answer["checks"]]
    return Examination(patient.host, (reachable, *found), patient.local)


def _without_agent(error: CloudrunError, reachable: protocol.Check) -> tuple[protocol.Check, ...]:
    if error.exit_code in _NO_WAY:
        return (protocol.Check("reachable", "failure", error.code, error.params, hint=error.code),)
    if error.exit_code == Exit.AGENT:
        name = "python" if "python" in error.code else "agent"
        return (reachable, protocol.Check(name, "failure", error.code, error.params, hint=error.code))
    raise error
