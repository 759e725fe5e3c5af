"""`stop`: the run of exactly that name, ended and verified gone.

What is wanted is written before anybody is signalled, and it wins over everything that would bring the run back.
"""

from __future__ import annotations

import math
import signal
import time
from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional

from remote_agent import atomic, clock, layout, processes, runs, tree, wishes
from remote_agent.protocol import (
    DEFAULT_GRACE_S,
    ENDED_STATES,
    LIVE_STATES,
    AgentError,
    Desired,
    ProcessRef,
    RunInfo,
    State,
    encode,
)
from remote_agent.rpc.exclusive import exclusive
from remote_agent.rpc.launch_session import end_leftover
from remote_agent.rpc.request import data_dir_of
from remote_agent.rpc.server import Call
from remote_agent.rpc.settled import settled

#: Beyond the grace: the kill, the tee's last words, the session's end. A supervisor that takes longer has failed us.
MARGIN_S = 30.0
#: How long a supervisor is hoped for that no readable state names.
UNREADABLE_S = 5.0
SAY_EVERY_S = 3.0
_POLL_S = 0.05


@dataclass
class _Stop:
    """One stop under way; `launch` is the one that is meant, should another follow at once; 0 where nobody can tell."""

    call: Call
    run: layout.Run
    launch: int
    grace_s: float


def stop(call: Call) -> Dict[str, Any]:
    """{"run": RunInfo, "already": bool}. Body: data_dir, name, grace_s. Raises AgentError."""
    data = layout.Data(data_dir_of(call.body.get("data_dir")))
    name = runs.resolve(data.data_dir, str(call.body.get("name")), None).name
    job = _Stop(call, data.run(name), 0, _grace(call.body.get("grace_s")))
    with exclusive(data, name, call):
        shown = settled(job.run) or _shown(job.run)
        living = processes.marked(job.run.path)
        if shown.state in ENDED_STATES and living:  # how it ended is known; what it left behind goes
            _end_processes(job, [], job.grace_s)
        if shown.state in ENDED_STATES or (shown.state not in LIVE_STATES and not living):
            return {"run": _at_rest(job.run, shown), "already": True}
        job.launch = shown.launch
        _want_stop(job)
    call.event("stopping", run=name, grace_s=job.grace_s)
    overdue = not _ends_by_itself(job)
    with exclusive(data, name, call):
        return {"run": _make_sure(job, 0.0 if overdue else job.grace_s), "already": False}


def _grace(given: Any) -> float:
    if isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given) and given >= 0:
        return float(given)
    return DEFAULT_GRACE_S


def _want_stop(job: _Stop) -> None:
    """Writes what is wanted. A full disk must not make a run unstoppable: at the worst the signal alone has to do."""
    wanted = Desired(want="stop", grace_s=job.grace_s, at=clock.now_utc())
    try:
        wishes.write(job.run, wanted)
    except OSError:
        try:
            wishes.write_aside(job.run, wanted)
        except OSError as error:
            job.call.event("stop-not-written", run=job.run.name, reason=error.strerror or str(error))


def _ends_by_itself(job: _Stop) -> bool:
    """Asks the supervisor, whenever it shows itself, and waits. False when it takes longer than it may."""
    begun = said = time.monotonic()
    asked: List[ProcessRef] = []
    while time.monotonic() - begun < job.grace_s + MARGIN_S:
        state = layout.read_record(State, job.run.state)
        supervisor = _living(state) if state is not None else None
        if state is None:  # damaged: a supervisor that lives heeds the word all the same, and writes it anew
            if time.monotonic() - begun > UNREADABLE_S or not processes.marked(job.run.path):
                return True
        elif _followed(job, state) or (supervisor is None and _shown(job.run).state not in LIVE_STATES):
            return True
        if supervisor is not None and supervisor not in asked:
            processes.send(supervisor, signal.SIGTERM)
            processes.send(supervisor, signal.SIGCONT)  # one that somebody stopped could not answer
            asked.append(supervisor)
        if time.monotonic() - said > SAY_EVERY_S:
            said = time.monotonic()
            job.call.event("stopping", run=job.run.name, waited_s=round(said - begun, 1))
        time.sleep(_POLL_S)
    return False


def _followed(job: _Stop, state: State) -> bool:
    """Whether another launch came after the one that is meant."""
    return state.launch != job.launch and job.launch > 0


def _make_sure(job: _Stop, grace_s: float) -> RunInfo:
    """Ends what is left of this launch, its session included, and sees to it that the state says how it ended."""
    state = layout.read_record(State, job.run.state)
    if state is not None and _followed(job, state):
        return _shown(job.run)  # ended, and launched anew since
    supervisor = _living(state) if state is not None else None
    if supervisor is not None:
        processes.send(supervisor, signal.SIGKILL)
    roots = [state.command] if state is not None and state.command is not None else []
    before = _shown(job.run)
    _end_processes(job, [root for root in roots if processes.alive(root)], grace_s)
    end_leftover(job.run, before)
    if state is not None and state.state not in ENDED_STATES:
        _write_end(job.run, state, "user")
    return _shown(job.run)


def _end_processes(job: _Stop, roots: List[ProcessRef], grace_s: float) -> None:
    ended = tree.end_tree(job.run.path, roots, grace_s)
    if ended.left:
        raise AgentError("stop-left", run=job.run.name, pids=", ".join(str(left.pid) for left in ended.left))


def _at_rest(run: layout.Run, shown: RunInfo) -> RunInfo:
    """Nothing lives. What only readers could tell (lost, or ended without a last word) is written down now."""
    state = layout.read_record(State, run.state)
    if state is not None and state.state not in ENDED_STATES:
        end_leftover(run, shown)
        if shown.state == runs.LOST:
            _write_end(run, state, shown.cause)
        else:
            atomic.write_json(run.state, encode(runs.true_state(run, state, runs.Look())))
        return _shown(run)
    return shown


def _write_end(run: layout.Run, state: State, cause: Optional[str]) -> None:
    ending = runs.read_ending(run, state.attempt) or {"exit_code": None, "signal": None}
    told: Dict[str, Any] = {"cause": cause, "exit_code": ending["exit_code"], "signal": ending["signal"],
                            "ended_at": clock.now_utc()}
    attempts = [replace(attempt, **told) if attempt.number == state.attempt else attempt
                for attempt in state.attempts]
    atomic.write_json(run.state, encode(replace(state, state="stopped", attempts=attempts, **told)))


def _living(state: State) -> Optional[ProcessRef]:
    """The supervisor, where it lives on this very box."""
    if state.box_id == processes.box_id() and processes.alive(state.supervisor):
        return state.supervisor
    return None


def _shown(run: layout.Run) -> RunInfo:
    shown = runs.info(run)
    if shown is None:
        raise AgentError("no-such-run", name=run.name, near=[])
    return shown
