"""Starting for real: a multiplexer's exit code 0 says nothing, so its listing and /proc are watched until they say it."""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass
from typing import Callable, Dict, Optional, TypeVar

from remote_agent import processes
from remote_agent.protocol import AgentError, ProcessRef
from remote_agent.sessions import environment, terminal
from remote_agent.sessions.base import Backend, Found, Plan
from remote_agent.words import _

T = TypeVar("T")
_POLL_S = 0.02
_SHOWN_BYTES = 500


def nonce() -> str:
    return secrets.token_hex(8)


def env_of(plan: Plan) -> Dict[str, str]:
    """The plan's variables, on a UTF-8 locale that the box has (the plan's own goes first)."""
    found = terminal.utf8_locale()
    return dict({"LANG": found, "LC_CTYPE": found} if found else {}, **plan.env)


def refuse_second(backend: Backend, plan: Plan) -> None:
    """Raises AgentError where a session of that name lives, or the folder to begin in is not there."""
    found = backend.find(plan.name)
    if found is not None:
        raise AgentError("session-exists", name=plan.name, backend=backend.name, pid=found.pid)
    if not os.path.isdir(plan.cwd):
        raise AgentError("session-start-failed", backend=backend.name, detail=_("no such folder: {path}").format(path=plan.cwd))


@dataclass
class Start:
    """A start under way. `ends`: monotonic deadline. `said`: what the program printed."""

    backend: Backend
    plan: Plan
    nonce: str
    ends: float
    said: str

    def left_s(self) -> float:
        """Seconds left, never so few that a program could not even be asked."""
        return max(1.0, self.ends - time.monotonic())

    def seen(self) -> Found:
        """The session, as the listing shows it."""
        return self._await(lambda: self.backend.find(self.plan.name), _("the session did not appear"))

    def first_child(self, pid: int) -> ProcessRef:
        """The train window's program."""
        def look() -> Optional[ProcessRef]:
            below = processes.children().get(pid, [])
            return processes.ref(min(below)) if below else None
        return self._await(look, _("the program in window train did not appear"))

    def await_children(self, pid: int, number: int) -> None:
        """Waits until that many windows have a program."""
        self._await(lambda: len(processes.children().get(pid, [])) >= number, _("not all windows came up"))

    def _await(self, look: Callable[[], Optional[T]], what: str) -> T:
        while True:
            value = look()
            if value:
                return value
            if not self._lives():
                # What began may have made its session between the look and this.
                value = look()
                if value:
                    return value
                raise self._failed(_("the session ended at once (did the program in window train end?)"))
            if time.monotonic() > self.ends:
                raise self._failed(what)
            time.sleep(_POLL_S)

    def _lives(self) -> bool:
        """Whether any process of this start is there: without one nothing will come any more."""
        wanted = ("%s=%s" % (environment.NONCE, self.nonce)).encode("ascii")
        for pid in processes.pids():
            try:
                with open("/proc/%d/environ" % pid, "rb") as stream:
                    if wanted in stream.read():
                        return True
            except OSError:
                continue
        return False

    def _failed(self, what: str) -> AgentError:
        detail = " ".join([what, self.said.strip()[:_SHOWN_BYTES]]).strip()
        return AgentError("session-start-failed", backend=self.backend.name, detail=detail)
