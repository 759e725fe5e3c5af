"""Sessions on the box: screen, tmux, or, where neither can be had, a detached process."""

from __future__ import annotations

from typing import Optional, Tuple

from remote_agent.protocol import AgentError
from remote_agent.sessions.base import Backend, Found, Plan

__all__ = ["NAMES", "Backend", "Found", "Plan", "backend", "choose", "find_any"]

NAMES = ("screen", "tmux", "detached")
_AUTO = ("screen", "tmux")


def backend(name: str) -> Backend:
    """The backend of that name. Raises AgentError "backend-missing" for a word that is none."""
    if name == "screen":
        from remote_agent.sessions.screen import Screen
        return Screen()
    if name == "tmux":
        from remote_agent.sessions.tmux import Tmux
        return Tmux()
    if name == "detached":
        from remote_agent.sessions.detached import Detached
        return Detached()
    raise AgentError("backend-missing", backend=name)


def choose(wanted: str) -> Optional[str]:
    """The backend that will serve. "auto": screen, else tmux, else None (the caller may install one, or take "detached").

    Raises AgentError "backend-missing" where a named one is not there.
    """
    if wanted == "auto":
        return next((name for name in _AUTO if backend(name).version() is not None), None)
    if backend(wanted).version() is None:
        raise AgentError("backend-missing", backend=wanted)
    return wanted


def find_any(name: str) -> Optional[Tuple[Backend, Found]]:
    """The live session of that name, whatever holds it. A program that is not there any more holds none."""
    for candidate in map(backend, NAMES):
        try:
            found = candidate.find(name)
        except AgentError as error:
            if error.code != "backend-missing":
                raise
            continue
        if found is not None:
            return candidate, found
    return None
