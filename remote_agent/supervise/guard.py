"""The session's leader. The kernel hangs up on the foreground when a leader dies, so the leader is not the supervisor:

whoever kills the supervisor does not hit the training with it.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Tuple

from remote_agent import processes
from remote_agent.supervise import wakeup
from remote_agent.supervise.terminal import Terminal


def stand_before(terminal: Terminal, last_codes: Tuple[int, ...]) -> None:
    """Returns in a child, where the supervisor goes on. The leader waits, hands HUP and TERM down, and ends as it does.

    Where the child ends in another way than by one of `last_codes` it leaves a training behind: the leader stays as long.
    Does nothing where this process leads no terminal.
    """
    if not terminal.present or os.getsid(0) != os.getpid():
        return
    leader = os.getpid()
    forwarded = (signal.SIGHUP, signal.SIGTERM)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)
    child = os.fork()
    if child == 0:
        wakeup.signal_on_parent_death(signal.SIGHUP)
        if os.getppid() != leader:
            os.kill(os.getpid(), signal.SIGHUP)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    for number in wakeup.IGNORED:
        signal.signal(number, signal.SIG_IGN)

    def hand_down(number: int, frame: Any) -> None:
        try:
            os.kill(child, number)
        except ProcessLookupError:
            pass

    for number in forwarded:
        signal.signal(number, hand_down)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    for number in forwarded:  # before its pid can be another's: what comes from now on is for nobody
        signal.signal(number, signal.SIG_IGN)
    _, status = os.waitpid(child, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1
    if code not in last_codes:
        _outlast(terminal)
    os._exit(code)


def _outlast(terminal: Terminal) -> None:
    """The supervisor is gone: the terminal stays for as long as the training has it."""
    while True:
        try:
            group = os.tcgetpgrp(terminal.fd)
        except OSError:
            return
        if group == os.getpgrp() or not processes.group_lives(group):
            return
        time.sleep(1.0)
