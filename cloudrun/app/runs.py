"""Use cases on runs that are there: list, stop, remove. Each is one request to the agent."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from cloudrun.agent.client import AgentClient, Question
from cloudrun.errors import CloudrunError
from remote_agent import protocol

OnEvent = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class HostRuns:
    """What one host answered: its runs, or the error that stood in the way."""

    host: str
    runs: tuple[protocol.RunInfo, ...] = ()
    error: CloudrunError | None = None


def question(data_dir: str | None, *, archived: bool = False) -> Question:
    """What `list_runs` asks, to be asked ahead."""
    return Question("ps", {"data_dir": data_dir, "archived": archived})


def list_runs(client: AgentClient, host: str, data_dir: str | None, *, archived: bool = False) -> HostRuns:
    """Every run of the host, newest first, reconciled with what is really alive."""
    answer = client.call("ps", question(data_dir, archived=archived).params)
    runs = [protocol.decode(protocol.RunInfo, run) for run in answer["runs"]]
    return HostRuns(host, tuple(sorted(runs, key=lambda run: run.launched_at or "", reverse=True)))


def side_by_side(hosts: list[str], ask: Callable[[str], HostRuns]) -> list[HostRuns]:
    """Asks all hosts at once: a dead one costs its own time-out and no one else's. Answers in the order of `hosts`."""
    def guarded(host: str) -> HostRuns:
        try:
            return ask(host)
        except CloudrunError as error:
            return HostRuns(host, error=error)

    if not hosts:
        return []
    with ThreadPoolExecutor(max_workers=min(32, len(hosts))) as pool:
        return list(pool.map(guarded, hosts))


def ps_document(answers: list[HostRuns]) -> dict[str, Any]:
    """The JSON of `ps`, frozen by a test."""
    return {
        "runs": [run_document(run, answer.host) for answer in answers for run in answer.runs],
        "errors": [
            {"host": answer.host, "code": answer.error.code, "message": answer.error.message, "hint": answer.error.hint,
             "exit_code": int(answer.error.exit_code)}
            for answer in answers if answer.error
        ],
    }


def run_document(run: protocol.RunInfo, host: str) -> dict[str, Any]:
    """One run as JSON says it; unknown is null, times are UTC in ISO 8601."""
    return {
        "name": run.name, "project": run.project, "host": host, "state": run.state, "cause": run.cause,
        "exit_code": run.exit_code, "signal": run.signal, "attempt": run.attempt, "launched_at": run.launched_at,
        "ended_at": run.ended_at, "backend": run.backend,
        "progress": asdict(run.progress) if run.progress else None, "run_dir": run.run_dir,
    }


@dataclass(frozen=True)
class Stopped:
    """How a stop ended. `already`: the run had ended before."""

    run: protocol.RunInfo
    already: bool


def stop_run(client: AgentClient, data_dir: str | None, name: str, grace_s: float, on_event: OnEvent) -> Stopped:
    """Stops the run of exactly that name and returns when nothing of it is left. Raises CloudrunError."""
    answer = client.call("stop", {"data_dir": data_dir, "name": name, "grace_s": grace_s}, on_event, timeout_s=grace_s + 120)
    return Stopped(protocol.decode(protocol.RunInfo, answer["run"]), bool(answer.get("already")))


def find_run(client: AgentClient, data_dir: str | None, name: str) -> protocol.RunInfo:
    """The run of exactly that name. Raises CloudrunError("no-such-run")."""
    for run in list_runs(client, "", data_dir).runs:
        if run.name == name:
            return run
    raise CloudrunError("no-such-run", name=name, near=[])


def remove_run(client: AgentClient, data_dir: str | None, name: str, *, code: bool = False) -> dict[str, Any]:
    """Deletes the folder of a run that has ended, with `code` its tree of code too. Raises CloudrunError("run-live")."""
    answer: dict[str, Any] = client.call("remove", {"data_dir": data_dir, "name": name, "code": code}, timeout_s=600)
    return answer
