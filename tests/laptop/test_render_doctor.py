"""The doctor on the laptop: no way to the box is a finding; every code has words; the exit code says the worst."""

from __future__ import annotations

import io
import string
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from rich.console import Console

from cloudrun.app.doctor import Examination, Patient, examine
from cloudrun.cli.render import doctor_words
from cloudrun.cli.render.doctor import doctor_document, doctor_lines
from cloudrun.errors import CATALOGUE, CloudrunError, Exit
from remote_agent.protocol import GPU_STATES, Check, encode

GB = 10**9
PATIENT = Patient("box", "root@127.0.0.1:2222", "/data")
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
    """An agent that answers with these checks, or fails with this error."""

    def __init__(self, answer: list[Check] | CloudrunError) -> None:
        self.answer = answer

    def call(self, op: str, params: dict[str, Any], timeout_s: float) -> Any:
        assert (op, params) == ("doctor", {"data_dir": "/data", "python": None})
        if isinstance(self.answer, CloudrunError):
            raise self.answer
        return {"checks": [encode(check) for check in self.answer]}


def opening(
    answer: list[Check] | CloudrunError, refuses: CloudrunError | None = None,
) -> Callable[[], AbstractContextManager[Any]]:
    @contextmanager
    def open_agent() -> Iterator[Client]:
        if refuses:
            raise refuses
        yield Client(answer)

    return open_agent


def code_with(exit_code: Exit) -> str:
    return next(code for code, entry in CATALOGUE.items() if entry.exit_code == exit_code)


@pytest.mark.parametrize(("checks", "exit_code"), [
    (GOOD, Exit.OK), ([*GOOD, HOME], Exit.DOCTOR_WARNING), ([LOW, *GOOD, HOME], Exit.DOCTOR_FAILURE), ([], Exit.OK),
])
def test_the_exit_code_says_the_worst(checks: list[Check], exit_code: Exit) -> None:
    assert examine(PATIENT, opening(checks)).exit_code == exit_code


@pytest.mark.parametrize("kind", [
    Exit.UNREACHABLE, Exit.AUTHENTICATION, Exit.HOST_KEY_CHANGED, Exit.HOST_KEY_UNKNOWN, Exit.UNKNOWN_OUTCOME,
])
def test_no_way_to_the_box_is_the_only_line(kind: Exit) -> None:
    error = CloudrunError(code_with(kind), host="box")
    refused = examine(PATIENT, opening([], refuses=error))
    lost = examine(PATIENT, opening(error))
    assert doctor_document(refused) == doctor_document(lost) == {
        "host": "box",
        "checks": [{"name": "reachable", "status": "failure", "found": error.message, "hint": error.hint}],
    }
    assert refused.exit_code == Exit.DOCTOR_FAILURE


def test_a_box_that_answers_and_has_no_agent() -> None:
    error = CloudrunError(code_with(Exit.AGENT))
    found = examine(PATIENT, opening([], refuses=error))
    assert [(check.name in ("agent", "python"), check.status) for check in found.checks] == [(False, "ok"), (True, "failure")]


def test_what_is_no_finding_stays_an_error() -> None:
    with pytest.raises(CloudrunError):
        examine(PATIENT, opening([], refuses=CloudrunError("usage", detail="x")))


def test_the_json_is_frozen() -> None:
    document = doctor_document(examine(PATIENT, opening([*GOOD, LOW])))
    assert document["host"] == "box"
    assert document["checks"][0] == {"name": "reachable", "status": "ok", "found": "root@127.0.0.1:2222 answers", "hint": None}
    assert document["checks"][3]["found"] == "39 GB free of 50 GB"
    assert document["checks"][4]["found"] == "3,000,000 free of 3,276,800"
    assert document["checks"][6]["status"] == "failure"
    assert document["checks"][6]["hint"].startswith("a launch needs 5 GB (min_free)")
    assert all(list(check) == ["name", "status", "found", "hint"] for check in document["checks"])


def test_lines_for_people_keep_to_their_columns() -> None:
    out = io.StringIO()
    Console(file=out, width=80, force_terminal=False).print(doctor_lines(examine(PATIENT, opening([*GOOD, HOME]))))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["✓", "reachable", "root@127.0.0.1:2222", "answers"]
    assert any(line.startswith("!") for line in lines)
    assert "try: " in out.getvalue()
    assert "cloudrun host set box --data-dir" in " ".join(out.getvalue().split())


def test_codes_of_a_newer_agent_show_as_they_came() -> None:
    newer = Check("quota", "warning", "quota-of-the-future", {"left": 3}, hint="buy-more")
    (line,) = doctor_document(Examination("box", (newer,)))["checks"]
    assert line == {"name": "quota", "status": "warning", "found": "quota-of-the-future {'left': 3}", "hint": None}
    odd = Check("disk-space", "ok", "disk-space", {"free_bytes": 1})
    assert "free_bytes" in doctor_document(Examination("box", (odd,)))["checks"][0]["found"]


def test_this_machine_has_no_provider() -> None:
    broken = [HOME, LOW, *(Check("gpu", "failure", f"gpu-{state}", {"detail": ""}, hint=f"gpu-{state}") for state in GPU_STATES)]
    for local in (False, True):
        hints = [check["hint"] or "" for check in doctor_document(Examination("box", tuple(broken), local))["checks"]]
        assert any("provider" in hint for hint in hints) is not local
        assert not local or not any("the box" in hint for hint in hints)


def test_every_template_is_whole_and_every_gpu_state_has_words() -> None:
    for template in [*doctor_words.FOUND.values(), *doctor_words.HINTS.values(), *doctor_words.LOCAL_HINTS.values()]:
        list(string.Formatter().parse(template))
    for state in GPU_STATES:
        assert f"gpu-{state}" in doctor_words.FOUND
        assert state == "ok" or f"gpu-{state}" in doctor_words.HINTS
