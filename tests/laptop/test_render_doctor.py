"""The doctor on the laptop: no way to the box is a finding; every code has words; the exit code says the worst."""

from __future__ import annotations

import io
import itertools
import string
from dataclasses import dataclass, replace
from typing import Any

import pytest
from rich.console import Console

from cloudrun.app.doctor import Examination, Means, Patient, examine
from cloudrun.cli.render import doctor_found, doctor_hints
from cloudrun.cli.render.doctor import doctor_document, doctor_lines
from cloudrun.errors import CloudrunError, Exit
from cloudrun.errors.assembled import CATALOGUE
from cloudrun.transport.base import Address, Met
from remote_agent.protocol import GPU_STATES, Check, Hello, encode

GB = 10**9
PATIENT = Patient("box", Address("127.0.0.1", 2222, "root"), "/data")
GOOD = [
    Check("python", "ok", "python", {"version": "3.11.2", "path": "/usr/bin/python3"}),
    Check("data-disk", "ok", "data-disk", {"path": "/root/autodl-tmp", "mount": "/root/autodl-tmp", "source": "known"}),
    Check("disk-space", "ok", "disk-space", {"path": "/d", "free_bytes": 39 * GB, "total_bytes": 50 * GB,
                                        "needed_bytes": 5 * GB}),
    Check("inodes", "ok", "inodes", {"path": "/d", "free": 3000000, "total": 3276800}),
    Check("sessions", "ok", "sessions", {"programs": "screen 4.09.00, tmux 3.3a"}),
]
LOW = Check("disk-space", "failure", "disk-space", {**GOOD[2].params, "free_bytes": GB}, hint="disk-space-low")
HOME = Check("data-disk", "warning", "data-disk-is-home", {"path": "/root"}, hint="data-disk-is-home")


class Client:
    """An agent that answers with these checks, or fails with this error; its clock is the laptop's, and `ahead_s` more."""

    hello = Hello(1, "0" * 12, "/usr/bin/python3", "3.11.2", "b", "/root", "root")

    def __init__(self, answer: list[Check] | CloudrunError, ahead_s: float) -> None:
        self.answer, self.ahead_s = answer, ahead_s

    def call(self, op: str, params: dict[str, Any], timeout_s: float) -> Any:
        if op == "clock":
            return {"time_s": 1000.0 + self.ahead_s}
        assert (op, params["data_dir"], params["python"]) == ("doctor", "/data", None)
        if isinstance(self.answer, CloudrunError):
            raise self.answer
        return {"checks": [encode(check) for check in self.answer]}

    def close(self) -> None:
        pass


class Way:
    """A connection that stands."""

    met = Met("/home/me/.ssh/id_ed25519", "ssh-ed25519", "SHA256:abc", "/home/me/.ssh/known_hosts")

    def close(self) -> None:
        pass


@dataclass
class Box:
    """What the laptop meets: an answer or an error, at one of three places. Each question takes `trip_s`."""

    answer: list[Check] | CloudrunError
    refuses: CloudrunError | None = None
    no_agent: CloudrunError | None = None
    ahead_s: float = 0.0
    trip_s: float = 0.0

    def means(self) -> Means:
        ticks = itertools.count()
        return Means(self.connect, self.speak, lambda: 1000.0, lambda: next(ticks) * self.trip_s)

    def connect(self) -> Any:
        if self.refuses:
            raise self.refuses
        return Way()

    def speak(self, transport: Any, python: str | None) -> Any:
        if self.no_agent:
            raise self.no_agent
        return Client(self.answer, self.ahead_s)


def examined(box: Box, patient: Patient = PATIENT) -> Examination:
    return examine(patient, box.means())


def line_of(found: Examination, name: str) -> Check:
    (check,) = (check for check in found.checks if check.name == name)
    return check


def code_with(exit_code: Exit) -> str:
    return next(code for code, entry in CATALOGUE.items() if entry.exit_code == exit_code)


@pytest.mark.parametrize(("checks", "exit_code"), [
    (GOOD, Exit.OK), ([*GOOD, HOME], Exit.DOCTOR_WARNING), ([LOW, *GOOD, HOME], Exit.DOCTOR_FAILURE), ([], Exit.OK),
])
def test_the_exit_code_says_the_worst(checks: list[Check], exit_code: Exit) -> None:
    found = examined(Box(checks))
    assert found.exit_code == exit_code
    assert doctor_document(found)["status"] == {0: "ok", 20: "warning", 21: "failure"}[exit_code]


@pytest.mark.parametrize(("kind", "line", "before"), [
    (Exit.UNREACHABLE, "reachable", ["ssh"]), (Exit.UNKNOWN_OUTCOME, "reachable", ["ssh"]),
    (Exit.AUTHENTICATION, "login", ["ssh", "reachable"]), (Exit.HOST_KEY_CHANGED, "host-key", ["ssh", "reachable"]),
    (Exit.HOST_KEY_UNKNOWN, "host-key", ["ssh", "reachable"]),
])
def test_no_way_to_the_box_is_a_line_where_it_ends(kind: Exit, line: str, before: list[str]) -> None:
    error = CloudrunError(code_with(kind), host="box")
    refused = examined(Box([], refuses=error))
    lost = examined(Box(error))
    assert doctor_document(refused) == doctor_document(lost)
    assert [(check.name, check.status) for check in refused.checks] == [*((name, "ok") for name in before), (line, "failure")]
    last = doctor_document(refused)["checks"][-1]
    assert (last["found"], last["hint"]) == (error.message, error.hint)
    assert refused.exit_code == Exit.DOCTOR_FAILURE


def test_a_box_that_answers_and_has_no_agent() -> None:
    found = examined(Box([], no_agent=CloudrunError("agent-no-python", tried="python3")))
    assert [(check.name, check.status) for check in found.checks] == [
        ("ssh", "ok"), ("reachable", "ok"), ("host-key", "ok"), ("login", "ok"), ("python", "failure")]
    assert "cloudrun host set box --python" in doctor_document(found)["checks"][-1]["hint"]
    assert [check.name for check in examined(Box([], no_agent=CloudrunError(code_with(Exit.AGENT)))).checks][-1] != "reachable"


def test_settings_of_ssh_that_are_wrong_are_a_line() -> None:
    error = CloudrunError("ssh-config-wrong", name="box", detail="line 3: Bad configuration option: portt")
    found = examined(Box([], refuses=error), replace(PATIENT, address=None))
    assert [(check.name, check.status, check.found) for check in found.checks] == [("ssh", "failure", "ssh-config-wrong")]
    unwritable = examined(Box([], refuses=CloudrunError("known-hosts-unwritable", path="/x", detail="read-only")))
    assert [(check.name, check.status) for check in unwritable.checks] == [("ssh", "failure")]


def test_what_is_no_finding_stays_an_error() -> None:
    with pytest.raises(CloudrunError):
        examined(Box([], refuses=CloudrunError("usage", detail="x")))


@pytest.mark.parametrize(("ahead_s", "trip_s", "code"), [
    (0.0, 0.1, "clock"), (4.9, 0.0, "clock"), (95.0, 0.1, "clock-ahead"), (-95.0, 0.1, "clock-behind"),
    (6.5, 4.0, "clock"),  # half of what it took may be all of it
])
def test_clocks_that_differ(ahead_s: float, trip_s: float, code: str) -> None:
    """The answer was made half-way: with that taken off, the rest is what the clocks differ."""
    line = line_of(examined(Box(GOOD, ahead_s=ahead_s + trip_s / 2, trip_s=trip_s)), "clock")
    assert (line.found, line.status) == (code, "ok" if code == "clock" else "warning")
    assert line.params["ahead_s"] == pytest.approx(ahead_s)


def test_a_login_that_has_to_be_typed_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Way, "met", replace(Way.met, login="a password", typed=True))
    found = examined(Box(GOOD), replace(PATIENT, target="ssh -p 2222 root@127.0.0.1"))
    assert line_of(found, "login").status == "warning"
    hint = next(check["hint"] for check in doctor_document(found)["checks"] if check["name"] == "login")
    assert hint.endswith('cloudrun host set box "ssh -p 2222 root@127.0.0.1"')


def test_the_way_is_told_as_it_was() -> None:
    through = replace(PATIENT, address=replace(PATIENT.address, jumps=(Address("gate", 22, "me"), Address("inner", 2200, "you"))))
    found = examined(Box(GOOD, trip_s=0.05), through)
    words = {check["name"]: check["found"] for check in doctor_document(found)["checks"]}
    assert words["ssh"] == "root@127.0.0.1:2222, through me@gate:22 → you@inner:2200"
    assert words["reachable"] == "answers in 50 ms (median of 5 round trips)"
    assert words["host-key"] == "SHA256:abc (ssh-ed25519), known from /home/me/.ssh/known_hosts"
    assert words["login"] == "opened by /home/me/.ssh/id_ed25519"
    assert line_of(examined(Box(GOOD, trip_s=0.9)), "reachable").status == "warning"


def test_the_json_is_frozen() -> None:
    document = doctor_document(examined(Box([*GOOD, LOW])))
    assert list(document) == ["host", "status", "checks"]
    checks = {check["name"]: check for check in document["checks"]}
    assert checks["login"] == {"name": "login", "status": "ok", "code": "login", "found": "opened by /home/me/.ssh/id_ed25519",
                               "hint": None, "params": {"by": "/home/me/.ssh/id_ed25519"}}
    assert checks["inodes"]["found"] == "3,000,000 free of 3,276,800"
    assert checks["disk-space"]["status"] == "failure"
    assert checks["disk-space"]["found"] == "1 GB free of 50 GB"
    assert checks["disk-space"]["hint"].startswith("a launch needs 5 GB (min_free)")
    assert all(list(check) == ["name", "status", "code", "found", "hint", "params"] for check in document["checks"])


def shown(found: Examination, width: int = 80) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(doctor_lines(found))
    return out.getvalue().splitlines()


def test_lines_for_people_keep_to_their_columns_and_end_with_the_worst() -> None:
    lines = shown(examined(Box([*GOOD[:2], LOW, HOME])))
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["✓", "ok", "ssh", "settings", "root@127.0.0.1:2222"]
    assert any(line.startswith("! warning") for line in lines)
    assert any(line.startswith("✗ failure") for line in lines)
    closing = " ".join(" ".join(lines[lines.index(""):]).split())
    assert closing.startswith("✗ box: 1 × failure, 1 × warning, 7 × ok, in 0.0 s "
                              "first: disk space: 1 GB free of 50 GB try: a launch needs")
    assert shown(examined(Box(GOOD)))[-1] == "✓ box: all is well, 10 × ok, in 0.0 s"


def test_codes_of_a_newer_agent_show_as_they_came() -> None:
    newer = Check("quota", "warning", "quota-of-the-future", {"left": 3}, hint="buy-more")
    (line,) = doctor_document(Examination("box", (newer,)))["checks"]
    assert (line["found"], line["hint"]) == ("quota-of-the-future {'left': 3}", None)
    odd = Check("disk-space", "ok", "disk-space", {"free_bytes": 1})
    assert "free_bytes" in doctor_document(Examination("box", (odd,)))["checks"][0]["found"]


def test_this_machine_has_no_way_and_no_provider() -> None:
    here = replace(PATIENT, address=Address("local"))
    found = examined(Box([*GOOD, Check("login-keys", "ok", "login-keys-none")]), here)
    assert [check.name for check in found.checks] == ["reachable", *(check.name for check in GOOD)]
    for code in doctor_hints.HINTS:
        check = Check("x", "failure", "no-answer", {}, hint=code)
        words = doctor_document(Examination("box", (check,), local=True))["checks"][0]["hint"]
        assert "provider" not in words, code
        assert "the box" not in words, code
        assert "log in" not in words, code


def test_a_box_has_hints_of_its_own() -> None:
    assert set(doctor_hints.LOCAL_HINTS) <= set(doctor_hints.HINTS)


def test_every_template_is_whole_and_every_gpu_state_has_words() -> None:
    tables = (doctor_found.FOUND, doctor_hints.HINTS, doctor_hints.LOCAL_HINTS)
    for template in (template for table in tables for template in table.values()):
        list(string.Formatter().parse(template))
    for state in GPU_STATES:
        assert f"gpu-{state}" in doctor_found.FOUND
        assert state == "ok" or f"gpu-{state}" in doctor_hints.HINTS
