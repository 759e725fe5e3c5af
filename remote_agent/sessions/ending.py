"""Ending a session wholly: what belongs to it is written down before the multiplexer goes, and waited for afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import List, Optional, Set

from remote_agent import processes
from remote_agent.protocol import AgentError, ProcessRef

#: How long programs may take that were told to go (the multiplexer hangs them up: SIGHUP).
GRACE_S = 10.0
#: How long a multiplexer may take to hear that it is to quit, and then to go. One whose client hangs would wait for that.
QUIT_S = 2.0
_QUITTING_S = 1.0
_KILLED_S = 5.0
_POLL_S = 0.02


def family(pid: int) -> List[ProcessRef]:
    """A multiplexer's server and everything beneath it, but for the line that leads to this process and what it started."""
    spared = (own_line() | set(processes.descendants(os.getpid()))) - {pid}
    found = (processes.ref(member) for member in [pid, *processes.descendants(pid)] if member not in spared)
    return [member for member in found if member is not None]


def after_quit(server: Optional[ProcessRef], members: List[ProcessRef], name: str) -> None:
    """Sees a session out whose multiplexer was told to quit. Raises AgentError "session-end-failed"."""
    if server is not None and not _gone_within([server], _QUITTING_S):
        send(server, signal.SIGKILL)
    wait_gone(members, GRACE_S, name)


def wait_gone(members: List[ProcessRef], grace_s: float, name: str) -> None:
    """Waits until none lives; after the grace they are killed. Raises AgentError "session-end-failed" with pids.

    An nvidia-smi (the monitor window's, mostly) only looks: it is killed at once and not waited for, it may hang in the driver.
    """
    looking = _looking(members)
    for looker in looking:
        send(looker, signal.SIGKILL)
    members = [member for member in members if member not in looking]
    if _gone_within(members, grace_s):
        return
    for member in members:
        send(member, signal.SIGKILL)
    if not _gone_within(members, _KILLED_S):
        raise AgentError("session-end-failed", name=name, pids=[m.pid for m in members if processes.alive(m)])


def _looking(members: List[ProcessRef]) -> List[ProcessRef]:
    """Those that are nvidia-smi, or were started by one."""
    pids: Set[int] = set()
    for member in members:
        if processes.name(member.pid) == "nvidia-smi":
            pids |= {member.pid, *processes.descendants(member.pid)}
    return [member for member in members if member.pid in pids]


def send(member: Optional[ProcessRef], number: int) -> None:
    """A signal to this very process, if it still lives and is ours to signal."""
    if member is not None:
        with contextlib.suppress(PermissionError):
            processes.send(member, number)


def _gone_within(members: List[ProcessRef], seconds: float) -> bool:
    ends = time.monotonic() + seconds
    while any(processes.alive(member) for member in members):
        if time.monotonic() > ends:
            return False
        time.sleep(_POLL_S)
    return True


def own_line() -> Set[int]:
    """This process and those above it."""
    line, pid = {os.getpid()}, processes.parent(os.getpid())
    while pid and pid > 1:
        line.add(pid)
        pid = processes.parent(pid)
    return line
