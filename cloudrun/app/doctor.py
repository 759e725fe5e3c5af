"""`cloudrun doctor`: how the box is reached, whether it can be, and what its agent finds there."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from cloudrun.agent.client import AgentClient
from cloudrun.app import doctor_link
from cloudrun.errors import CloudrunError, Exit
from cloudrun.project.runscript import activation
from cloudrun.project.settings import RunSettings
from cloudrun.transport.base import Address, Transport
from remote_agent import protocol
from remote_agent.protocol import Check

TIMEOUT_S = 60.0
_SEVERITY = ("ok", "warning", "failure")
#: Which line a failed connection belongs to; anything else is no finding but an error.
_LINE_OF = {
    Exit.UNREACHABLE: "reachable", Exit.UNKNOWN_OUTCOME: "reachable", Exit.AUTHENTICATION: "login",
    Exit.HOST_KEY_CHANGED: "host-key", Exit.HOST_KEY_UNKNOWN: "host-key", Exit.CONFIG: "ssh",
}


@dataclass(frozen=True)
class Examination:
    """What was found, in the order in which it is shown. Codes; `cloudrun.cli.render` makes the words."""

    host: str
    checks: tuple[Check, ...]
    #: The box is this machine: there is no provider to turn to.
    local: bool = False
    took_s: float = 0.0

    @property
    def worst(self) -> str:
        """ok | warning | failure."""
        return max((check.status for check in self.checks if check.status in _SEVERITY), key=_SEVERITY.index, default="ok")

    @property
    def exit_code(self) -> Exit:
        """Says the worst."""
        return (Exit.OK, Exit.DOCTOR_WARNING, Exit.DOCTOR_FAILURE)[_SEVERITY.index(self.worst)]


@dataclass(frozen=True)
class Training:
    """What decides the Python of a run: settings of the project's run, and the project's name on the box."""

    settings: RunSettings
    project: str
    #: Why cloudrun.toml could not be read, where it could not.
    problem: CloudrunError | None = None


@dataclass(frozen=True)
class Patient:
    """The host to look at. `python` as it is configured."""

    host: str
    #: None where the settings of ssh do not tell: connecting says why.
    address: Address | None
    data_dir: str | None
    python: str | None = None
    #: As `host add` was given it.
    target: str = ""
    training: Training = field(default_factory=lambda: Training(RunSettings(), "project"))

    @property
    def local(self) -> bool:
        return self.address is not None and self.address.is_local


@dataclass(frozen=True)
class Means:
    """How to get to the box and to speak with its agent."""

    connect: Callable[[], Transport]
    speak: Callable[[Transport, str | None], AgentClient] = AgentClient.open
    #: Seconds since 1970 on this machine, and seconds that nobody sets.
    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


def examine(patient: Patient, means: Means) -> Examination:
    """Opens the box and asks its agent. No way to the box is a finding, not an error; raises CloudrunError for the rest."""
    began = means.monotonic()
    way = _of_the_way(patient, means)
    settings = [] if any(check.name == "ssh" for check in way) else _settings_line(patient)
    checks = (*_project_line(patient.training), *settings, *way)
    found = Examination(patient.host, tuple(checks), patient.local)
    return replace(found, took_s=means.monotonic() - began)


def _settings_line(patient: Patient) -> list[Check]:
    return [] if patient.local or patient.address is None else [doctor_link.settings(patient.address)]


def _project_line(training: Training) -> list[Check]:
    error = training.problem
    return [] if error is None else [Check("project", "failure", error.code, error.params, hint=error.code)]


def _of_the_way(patient: Patient, means: Means) -> list[Check]:
    """The way to the box, and what lies at its end."""
    try:
        transport = means.connect()
    except CloudrunError as error:
        return _no_way(patient, error)
    try:
        return _of_the_box(patient, means, transport)
    finally:
        transport.close()


def _of_the_box(patient: Patient, means: Means, transport: Transport) -> list[Check]:
    opened = [] if patient.local else doctor_link.opened(transport.met, patient.target)
    try:
        client = means.speak(transport, patient.python)
    except CloudrunError as error:
        return _no_agent(patient, opened, error)
    try:
        trips = doctor_link.measure(lambda: _time_on(client), means.wall, means.monotonic)
        answer = client.call("doctor", _question(patient, client), timeout_s=TIMEOUT_S)
    except CloudrunError as error:
        return _no_agent(patient, opened, error)
    finally:
        client.close()
    found = [protocol.decode(Check, check) for check in answer["checks"]]
    if patient.local:  # one clock, and nobody logs in
        return [doctor_link.reachable(trips), *(check for check in found if check.name != "login-keys")]
    return [doctor_link.reachable(trips), *opened, doctor_link.clock(trips), *found]


def _time_on(client: AgentClient) -> float:
    return float(client.call("clock", {}, timeout_s=TIMEOUT_S)["time_s"])


def _question(patient: Patient, client: AgentClient) -> dict[str, Any]:
    home = client.hello.home
    trees = posixpath.join(home, "cloudrun", patient.training.project)
    return {"data_dir": patient.data_dir, "python": patient.python,
            "activation": activation(patient.training.settings, home, trees)}


def _no_way(patient: Patient, error: CloudrunError) -> list[Check]:
    line = _LINE_OF.get(error.exit_code)
    if line is None:
        raise error
    before = [doctor_link.answers()] if line in ("host-key", "login") else []
    return [*before, Check(line, "failure", error.code, error.params, hint=error.code)]


def _no_agent(patient: Patient, opened: list[Check], error: CloudrunError) -> list[Check]:
    error.params.setdefault("host_name", patient.host)
    if error.exit_code not in (Exit.AGENT, Exit.BOX):
        return _no_way(patient, error)
    name = "python" if "python" in error.code else "agent"
    failed = Check(name, "failure", error.code, error.params, hint=error.code)
    return [doctor_link.answers(), *opened, failed]
