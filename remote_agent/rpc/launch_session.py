"""A run's session, as launching, stopping and removing need it: which backend, its start, its end."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from remote_agent import hello, layout, processes, words
from remote_agent.protocol import AgentError, LaunchRequest, RunInfo, Spec, State
from remote_agent.rpc.server import Call

if TYPE_CHECKING:
    from remote_agent.sessions.base import Found

START_DEADLINE_S = 30.0
INSTALL_DEADLINE_S = 300.0
#: Where auto finds neither, the first is installed, and where that fails too the detached process serves.
INSTALLABLE = ("screen", "tmux")


@dataclass
class Chosen:
    """Which backend serves, or else what has to be installed first."""

    backend: Optional[str]
    will_install: Optional[str] = None


@dataclass
class Asked:
    """The session of launch `number` of a run."""

    run: layout.Run
    spec: Spec
    number: int
    backend: str


def choose_backend(wanted: str, install: bool) -> Chosen:
    """What would serve as things stand. Raises AgentError "backend-missing"."""
    from remote_agent import sessions
    try:
        found = sessions.choose(wanted)
    except AgentError:
        if not install or wanted not in INSTALLABLE:
            raise
        return Chosen(None, wanted)
    if found is None and install:
        return Chosen(None, INSTALLABLE[0])
    return Chosen(found or "detached")


def pick_backend(call: Call, request: LaunchRequest) -> str:
    """The backend that serves, its program installed where that has to be and may be. Says so where it is the poorer one."""
    wanted = request.spec.backend
    chosen = choose_backend(wanted, request.install)
    if chosen.backend is None and chosen.will_install is not None:
        chosen = _installed(call, chosen.will_install, wanted)
    backend = chosen.backend or "detached"
    if backend == "detached" and wanted != "detached":
        call.event("fallback-detached", run=request.spec.run)
    return backend


def _installed(call: Call, program: str, wanted: str) -> Chosen:
    """With "auto" the next one is tried where a manager just has no such package (Red Hat's knows tmux and no screen)."""
    from remote_agent import packages
    try:
        packages.install(program, call.event, INSTALL_DEADLINE_S)
    except AgentError as error:
        if wanted != "auto":
            raise
        if error.code == "install-failed" and program != INSTALLABLE[-1]:
            return _installed(call, INSTALLABLE[-1], wanted)
        call.event("install-failed", program=program, code=error.code, params=error.params)
        return Chosen("detached")
    return choose_backend(wanted, install=False)


def start_session(asked: Asked) -> None:
    """Returns when the session lives, or when its supervisor has had its say already. Raises AgentError, with nothing left."""
    from remote_agent import sessions
    from remote_agent.sessions.base import Plan
    run, launch = asked.run, asked.run.launch(asked.number)
    agent = [sys.executable, "-I", hello.agent_dir()]
    plan = Plan(
        name=run.name,
        train=[*agent, "supervise", run.path, str(asked.number), "--backend", asked.backend],
        monitor=[*agent, "window", "monitor"], log=[*agent, "window", "log", run.path],
        cwd=asked.spec.workdir if os.path.isdir(asked.spec.workdir) else run.path, env={words.VARIABLE: asked.spec.language},
        screenrc=launch.screenrc, tmux_conf=launch.tmux_conf, escape=asked.spec.screen_escape,
    )
    try:
        sessions.backend(asked.backend).start(plan, START_DEADLINE_S)
    except (AgentError, OSError):
        if _has_spoken(run):  # a command that fails at once takes its session with it
            return
        _end_own(run, asked.backend)
        if _has_spoken(run):
            return
        raise


def end_leftover(run: layout.Run, shown: RunInfo) -> None:
    """Ends what is still there of the session of a run that has ended or is lost.

    The session must speak of this very folder: a run of that name on another data disk is not ours to end.
    """
    from remote_agent import sessions
    known = shown.backend in sessions.NAMES  # a damaged state does not tell
    for backend in sessions.NAMES:
        if backend == shown.backend or not known:
            _end_own(run, backend)


def refuse_anothers_session(run: layout.Run) -> None:
    """Raises AgentError("session-of-another") where the name's session is that of a run on another data disk.

    A session, a tree and its code go by the run's name: a second live run of that name would take the first one's.
    """
    from remote_agent import sessions
    found = sessions.find_any(run.name)
    if found is not None and not _speaks_of(run, found[1]):
        raise AgentError("session-of-another", run=run.name, backend=found[0].name, pid=found[1].pid)


def _end_own(run: layout.Run, backend: str) -> None:
    from remote_agent import sessions
    holder = sessions.backend(backend)
    found = holder.find(run.name)
    if found is not None and _speaks_of(run, found):
        holder.end(run.name)


def _speaks_of(run: layout.Run, found: Found) -> bool:
    return bool(processes.mentioning(run.path) & {found.pid, *processes.descendants(found.pid)})


def _has_spoken(run: layout.Run) -> bool:
    state = layout.read_record(State, run.state)
    return state is not None and (state.state != "pending" or state.supervisor is not None)
