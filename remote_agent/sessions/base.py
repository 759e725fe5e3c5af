"""What a session backend is: one protocol, kept by screen, tmux and the detached process alike."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Protocol, Tuple

from remote_agent.protocol import AgentError

#: Ways into a session: refused while others are on it, sending them away, beside them.
MODES = ("plain", "take", "shared")

#: Ctrl-C, H, I, M, Q, S, Z and D are the terminal's own or the training's.
_ESCAPE = re.compile(r"\^([A-BE-GJ-LN-PRT-Ya-be-gj-ln-prt-y])([A-Za-z0-9])\Z")


@dataclass
class Plan:
    """A session to be: the three windows' programs (argv), where they begin, and the settings of the multiplexer.

    `env`: a few fixed variables on top of the box's own. `screenrc`, `tmux_conf`: paths. `escape`: "^Jj", or None.
    """

    name: str
    train: List[str]
    monitor: List[str]
    log: List[str]
    cwd: str
    env: Dict[str, str]
    screenrc: str
    tmux_conf: str
    escape: Optional[str] = None


@dataclass
class Found:
    """A session that lives. `id`: screen's `<pid>.<name>`, tmux's socket, a detached process' pid.

    `pid`: of the multiplexer's server, or the detached process itself. `clients`: attached now (screen tells 0 or 1).
    """

    id: str
    pid: int
    clients: int


class Backend(Protocol):
    """Names are matched whole: `train1` is never `train10`."""

    name: str

    def version(self) -> Optional[str]:
        """The program's version; None where it is not there."""

    def start(self, plan: Plan, deadline_s: float) -> Found:
        """Starts the session and returns when it is seen to live, all windows made.

        Raises AgentError: session-exists, session-start-failed (also where the train window's program ended at once),
        backend-missing, escape-invalid.
        """

    def find(self, name: str) -> Optional[Found]:
        """The live session of exactly that name. Raises AgentError "session-ambiguous" where there are two."""

    def end(self, name: str) -> None:
        """Ends the session and every process in it, verified; nothing to do where there is none.

        A caller that lives in the session is spared, with what it started, and hears a SIGHUP.
        Raises AgentError "session-end-failed".
        """

    def attach_argv(self, name: str, mode: str, term: str) -> Tuple[List[str], Dict[str, str]]:
        """Command and environment that show the session on the terminal they are run on.

        Raises AgentError: session-not-running, detached-cannot-attach.
        """

    def leave_keys(self, name: str) -> str:
        """The keys that leave an attached session, for a person: "Ctrl-a d"."""


def check_escape(escape: Optional[str]) -> Optional[Tuple[str, str]]:
    """("j", "j") of "^Jj": the control letter, and the key that sends it through. Raises AgentError "escape-invalid"."""
    if escape is None:
        return None
    match = _ESCAPE.match(escape)
    if match is None:
        raise AgentError("escape-invalid", escape=escape)
    return match.group(1).lower(), match.group(2)
