"""`launch`: everything between the code that has come and a command that really runs.

Whatever point this process dies at, the run's folder says enough for the next launch to go on from there: files appear
whole, `pending` is written before the session is asked for, and a `pending` that nobody works for is never believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

from remote_agent import clock, layout, processes
from remote_agent.protocol import LIVE_STATES, AgentError, Attempt, Launched, LaunchRequest, RunInfo, Spec, State
from remote_agent.rpc import launch_files
from remote_agent.rpc.exclusive import exclusive
from remote_agent.rpc.launch_session import Asked, end_leftover, pick_backend, refuse_anothers_session, start_session
from remote_agent.rpc.launch_wait import ALIVE_S, await_start
from remote_agent.rpc.prepare import next_attempt, next_launch, refuse_foreign, refuse_half_alive
from remote_agent.rpc.request import check_name, data_dir_of, request_of
from remote_agent.rpc.server import Call
from remote_agent.rpc.settled import settled

#: Files that the box had changed, each said by name up to so many.
_MAX_NAMED = 20


@dataclass
class _Start:
    """A launch under way. `existing`: the run of that name that has ended, or None."""

    call: Call
    request: LaunchRequest
    data: layout.Data
    run: layout.Run
    existing: Optional[RunInfo]


def launch(call: Call) -> Launched:
    """LaunchRequest -> Launched, when the command runs or has failed. Two at the same moment make one run."""
    request = request_of(LaunchRequest, call.body)
    check_name(request.spec.run)
    launch_files.secrets_text(request.secrets)  # refused before anything is touched
    data = layout.Data(data_dir_of(request.data_dir))
    run = data.run(request.spec.run)
    archived_to = None
    with exclusive(data, run.name, call):
        existing = settled(run)
        ours = _is_ours(run, existing, request)
        live = not ours and _same_live(run, existing, request)
        if not ours and not live:
            archived_to = _start(_Start(call, request, data, run, existing))
    launched = await_start(call, run, min(request.settle_s, ALIVE_S) if live else request.settle_s)
    if live and launched.outcome == "started":
        launched.outcome = "already-running"
    launched.archived_to = archived_to
    return launched


# -------------------------------------------------------------------------------------- what stands there


def _is_ours(run: layout.Run, existing: Optional[RunInfo], request: LaunchRequest) -> bool:
    """Whether this very request has been here: its answer got lost on the way, and it is not done a second time."""
    if existing is None or not request.spec.launch_id or existing.cause == "never-started":
        return False
    there = layout.read_record(Spec, run.launch(existing.launch).spec)
    return there is not None and there.launch_id == request.spec.launch_id


def _same_live(run: layout.Run, existing: Optional[RunInfo], request: LaunchRequest) -> bool:
    """Whether this very work is running already. Raises AgentError where something else stands in the way."""
    spec = request.spec
    if existing is not None and (existing.project_id or not request.fresh):
        refuse_foreign(existing, spec.project_id)
    refuse_half_alive(run, existing)
    if existing is None or existing.state not in LIVE_STATES:
        return False
    there = layout.read_record(Spec, run.launch(existing.launch).spec)
    differing = ["spec"] if there is None else spec.differing(there)
    if "secrets" not in differing and not launch_files.same_secrets(run, existing.launch, request.secrets):
        differing.append("secrets")
    if not differing and not request.fresh:
        return True
    raise AgentError("run-differs" if differing else "run-live", run=run.name, state=existing.state,
                     attempt=existing.attempt, age_s=existing.age_s, fresh=request.fresh, differing=differing)


# ------------------------------------------------------------------------------------------------ starting


def _start(start: _Start) -> Optional[str]:
    """Brings code, folder and session into being; gives where --fresh put the old folder."""
    request, run, fresh = start.request, start.run, start.request.fresh or start.existing is None
    number = 1 if fresh else next_launch(run)
    if request.launch not in (None, number) or (request.staging is None and request.spec.code_digest is not None):
        raise AgentError("launch-again", run=run.name)  # prepared for what is no longer there
    refuse_anothers_session(run)
    backend = pick_backend(start.call, request)
    if start.existing is not None:
        end_leftover(run, start.existing)
    _apply_code(start)
    archived_to = None
    if fresh and start.existing is not None:
        archived_to = launch_files.put_aside(start.data, run)
        launch_files.forget_secrets(run)
    state = _first_state(start, number, backend, fresh)
    launch_files.write_run(run, request, number, state)
    try:
        _place_links(start)
        start_session(Asked(run, request.spec, number, backend))
    except (AgentError, OSError):
        launch_files.write_failure(run, state, "never-started")
        raise
    return archived_to


def _first_state(start: _Start, number: int, backend: str, fresh: bool) -> State:
    """`pending`: what is known before the supervisor's first word."""
    earlier: List[Attempt] = []
    attempt = 1
    if not fresh:
        before = layout.read_record(State, start.run.state)
        earlier = before.attempts if before else []
        attempt = next_attempt(start.run, start.existing)
    return State(state="pending", launch=number, attempt=attempt, backend=backend, session=start.run.name,
                 box_id=processes.box_id(), launched_at=clock.now_utc(), attempts=earlier)


def _apply_code(start: _Start) -> None:
    if start.request.staging is not None:
        from remote_agent import code
        spec = start.request.spec
        applied = code.apply(spec.project, spec.project_id, spec.run, start.request.staging)
        for path in applied.put_aside[:_MAX_NAMED]:
            start.call.event("put-aside", path=path, kept=applied.aside, count=len(applied.put_aside))


def _place_links(start: _Start) -> None:
    spec = start.request.spec
    if spec.links or spec.outputs:
        from remote_agent import code
        placed = code.place_links(spec, start.run)
        for target in placed.missing:
            start.call.event("link-target-missing", target=target)
        for target in placed.hanging:
            start.call.event("link-target-hangs", target=target)
