"""What runs there are, reconciled with what is really alive. Reads files and /proc, and changes nothing."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple

from remote_agent import bounded, clock, layout, processes, protocol, silence
from remote_agent.protocol import (
    ENDED_STATES,
    LIVE_STATES,
    RUN_NAME,
    AgentError,
    Identity,
    Progress,
    RunInfo,
    Spec,
    State,
)

if TYPE_CHECKING:
    from remote_agent.verdict import Outcome

LOST = "lost"
#: How long a launch's "pending" is believed without any sign of its session.
START_WINDOW_S = 30.0
#: How long the files of all runs may take to be read and, where they take longer, those of each.
_ALL_S = 6.0
_ONE_S: float = 3
_MAX_OBJECT_BYTES = 1 << 20


class Look:
    """One look at the box: what is asked of /proc for one run is not asked again for the next."""

    def __init__(self) -> None:
        self.box_id = processes.box_id()
        self._marks: Optional[Dict[str, Set[int]]] = None

    def marked(self, run_dir: str) -> Set[int]:
        """Processes that carry this run's mark; one pass over /proc serves all runs."""
        if self._marks is None:
            self._marks = processes.marks()
        return self._marks.get(run_dir, set())


def all_runs(data_dir: str, archived: bool = False) -> List[RunInfo]:
    """Every run, newest launch first; with `archived` those that --fresh put aside as well.

    On a disk that another machine answers for, files may never answer: their run alone is shown as hanging then.
    Raises AgentError (as `silence.no_answer`) where the list itself cannot be had.
    """
    data = layout.Data(data_dir)
    found = _bounded(data, archived) if silence.may_hang(data_dir) else _every(_run_folders(data, archived))
    for run in found:
        run.archived = os.path.dirname(run.run_dir) == data.archive
    return sorted(found, key=_newest_last, reverse=True)


def _bounded(data: layout.Data, archived: bool) -> List[RunInfo]:
    """All in one child and, where that does not end, each in one of its own."""
    try:
        found = bounded.in_child(lambda: protocol.encode(_every(_run_folders(data, archived))), _ALL_S)
    except TimeoutError:
        folders = silence.ask(lambda: _run_folders(data, archived), data.data_dir, _ONE_S)
        answers = bounded.in_each([_asking_of(folder) for folder in folders], _ONE_S)
        found = [run for folder, answer in zip(folders, answers) for run in _answered(folder, answer)]
    return [protocol.decode(RunInfo, run) for run in found]


def _run_folders(data: layout.Data, archived: bool) -> List[str]:
    parents = [data.runs, data.archive] if archived else [data.runs]
    return [os.path.join(parent, name) for parent in parents for name in _folders(parent)]


def _every(folders: List[str]) -> List[RunInfo]:
    look = Look()
    found = (info(layout.Run(folder), look) for folder in folders)
    return [run for run in found if run is not None]


def _asking_of(folder: str) -> Callable[[], Any]:
    return lambda: protocol.encode(_every([folder]))


def _answered(folder: str, answer: Any) -> List[Any]:
    """What a child said of one run, or that its files do not answer."""
    if not isinstance(answer, OSError):
        return list(answer)
    return [protocol.encode(RunInfo(name=os.path.basename(folder), project="?", project_id="", state=LOST, run_dir=folder,
                                    cause="disk-hangs"))]


def info(run: layout.Run, look: Optional[Look] = None) -> Optional[RunInfo]:
    """One run as it stands; None where there is no such folder. A damaged one is "lost" without a cause."""
    if not os.path.isdir(run.path):
        return None
    look = look or Look()
    identity = layout.read_record(Identity, run.identity)
    shown = RunInfo(name=run.name, project=identity.project if identity else "?",
                    project_id=identity.project_id if identity else "", state=LOST, run_dir=run.path)
    state = _read_state(run, look)
    if state is not None:
        _tell(shown, run, true_state(run, state, look))
    elif identity is not None and not os.path.lexists(run.state):
        shown.cause = "never-started"
    return shown


def resolve(data_dir: str, name: Optional[str], project_id: Optional[str]) -> RunInfo:
    """The run that is meant. Without a name: the project's newest live one, else its newest.

    Without a project either: the same of the whole box.
    Raises AgentError "no-such-run" (with the names that are near) or "no-runs".
    """
    if name is not None:
        run = info(layout.Data(data_dir).run(name)) if RUN_NAME.match(name) else None
        if run is None:
            raise AgentError("no-such-run", name=name, near=_near(name, _folders(layout.Data(data_dir).runs)))
        return run
    mine = [run for run in all_runs(data_dir) if project_id is None or run.project_id == project_id]
    if not mine:
        raise AgentError("no-runs", data_dir=data_dir)
    return next((run for run in mine if run.state in LIVE_STATES), mine[0])


def true_state(run: layout.Run, state: State, look: Look) -> State:
    """The state as it really is: the file is the supervisor's word, and it may be gone without a last one."""
    if state.state in ENDED_STATES or _supervised(state, look):
        return state
    ending = _read_outcome(run, state.attempt)
    if ending is not None and state.phase != "setup":
        return _ended(run, state, ending)
    if state.box_id != look.box_id:
        return _lost(state, "box-restarted")
    if state.supervisor is None:
        return state if _is_starting(run, state) else _lost(state, "never-started")
    outlived = processes.alive(state.command) or look.marked(run.path)
    return _lost(state, "supervisor-killed" if outlived else "session-killed")


def newest_spec(run: layout.Run) -> Optional[Spec]:
    """The spec of the newest launch that can be read."""
    for number in reversed(run.launches()):
        spec = layout.read_record(Spec, run.launch(number).spec)
        if spec is not None:
            return spec
    return None


def read_ending(run: layout.Run, attempt: int) -> Optional[Dict[str, Any]]:
    """How the attempt's command ended, as the tee said it: {"exit_code", "signal", "ended_at"}, or None."""
    said = _read_outcome(run, attempt)
    return {"exit_code": said.exit_code, "signal": said.signal, "ended_at": said.ended_at} if said is not None else None


def log_tail(run: layout.Run, attempt: int, lines: int = 20, max_bytes: int = 8192) -> str:
    """The last lines of an attempt's log, for an error's own words."""
    return "\n".join(run.log_tail(attempt, max_bytes).splitlines()[-lines:])


def _read_outcome(run: layout.Run, attempt: int) -> Optional["Outcome"]:
    from remote_agent import verdict  # its patterns cost every `ps` some milliseconds, and few runs need them
    return verdict.read_record(run.exit_record(attempt))


def _read_state(run: layout.Run, look: Look) -> Optional[State]:
    """The file's word. Read again where its supervisor is gone: its last word may have come between."""
    for last in (False, True):
        state = layout.read_record(State, run.state)
        if state is None or state.state not in LIVE_STATES + ENDED_STATES:
            return None
        if last or state.state in ENDED_STATES or _supervised(state, look):
            break
    return state


def _supervised(state: State, look: Look) -> bool:
    return state.box_id == look.box_id and processes.alive(state.supervisor)


def _ended(run: layout.Run, state: State, ending: "Outcome") -> State:
    """What its supervisor would have said. Whether the kernel killed for want of memory nobody can tell any more."""
    from remote_agent import verdict, wishes
    if wishes.wants_stop(run):
        found = verdict.of_order("user")
    elif state.state == "stopping":
        found = verdict.of_order(state.cause)
    else:
        found = verdict.of_command(ending, run.log_tail(state.attempt, verdict.TAIL_BYTES), oom_rose=False)
    return replace(state, state=found.state, cause=found.cause, exit_code=ending.exit_code, signal=ending.signal,
                   ended_at=ending.ended_at)


def _is_starting(run: layout.Run, state: State) -> bool:
    """Whether a supervisor that has not said a word yet may still come: it is early, or somebody is at work on it."""
    age = clock.age_s(state.launched_at)
    return (age is not None and age < START_WINDOW_S) or bool(processes.mentioning(run.path))


def _lost(state: State, cause: str) -> State:
    return replace(state, state=LOST, cause=cause)


def _tell(shown: RunInfo, run: layout.Run, state: State) -> None:
    """Fills in what the reconciled state says, and what lies beside it."""
    for name in ("state", "cause", "phase", "exit_code", "signal", "attempt", "launch", "launched_at",
                 "ended_at", "backend", "session"):
        setattr(shown, name, getattr(state, name))
    shown.age_s = clock.age_s(state.launched_at)
    if state.attempt > 0:
        shown.log = run.log(state.attempt)
    shown.gpus = _gpus(run.launch(state.launch).spec)
    shown.progress, shown.progress_age_s = _progress(run.heartbeat)


def _gpus(path: str) -> Optional[List[int]]:
    """The one cell of a spec that a list of runs needs: the whole record costs more than all the rest of the look."""
    gpus = _read_object(path).get("gpus")
    return gpus if isinstance(gpus, list) and all(type(index) is int for index in gpus) else None


def _progress(path: str) -> Tuple[Optional[Progress], Optional[float]]:
    """The heartbeat, cell by cell: what is no number of its kind is unknown. Its age is the file's."""
    record = _read_object(path)
    progress = Progress(step=_whole(record.get("step")), epoch=_whole(record.get("epoch")),
                        loss=_finite(record.get("loss")), rate=_finite(record.get("rate")),
                        phase=record["phase"] if isinstance(record.get("phase"), str) else None)
    if progress == Progress():
        return None, None
    try:
        return progress, max(0.0, time.time() - os.stat(path).st_mtime)
    except OSError:
        return progress, None


def _whole(value: Any) -> Optional[int]:
    number = _finite(value)
    return int(number) if number is not None and number == int(number) else None


def _finite(value: Any) -> Optional[float]:
    """A number that JSON can say; NaN and the infinities are not among them."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _read_object(path: str) -> Dict[str, Any]:
    """A JSON object from a small file; {} where it is anything else."""
    try:
        with open(path, "rb") as stream:
            value = json.loads(stream.read(_MAX_OBJECT_BYTES).decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _folders(path: str) -> List[str]:
    """Names of runs' folders; what starts with a dot is bookkeeping, what is no run's name is not ours."""
    try:
        return sorted(entry.name for entry in os.scandir(path)
                      if RUN_NAME.match(entry.name) and entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _near(name: str, names: List[str]) -> List[str]:
    import difflib  # for a mistyped name only
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    return close + [other for other in names if other.startswith(name) and other not in close][:3]


def _newest_last(run: RunInfo) -> Tuple[str, int, str]:
    return (run.launched_at or "", run.launch, run.name)
