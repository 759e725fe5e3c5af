"""One launch, stop or removal of a run at a time, on whichever connection it comes."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import Iterator

from remote_agent.layout import Data
from remote_agent.protocol import AgentError
from remote_agent.rpc.server import Call

WAIT_S = 120.0
_POLL_S = 0.05
_SAY_EVERY_S = 3.0


@contextmanager
def exclusive(data: Data, run: str, call: Call, wait_s: float = WAIT_S) -> Iterator[None]:
    """Holds the run's lock. A record lock: no child inherits it, and it falls with this process however that ends.

    Raises AgentError("run-busy") when another holds it longer than `wait_s`.
    """
    os.makedirs(data.locks, exist_ok=True)
    fd = os.open(os.path.join(data.locks, run), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _acquire(fd, run, call, wait_s)
        yield
    finally:
        os.close(fd)


def _acquire(fd: int, run: str, call: Call, wait_s: float) -> None:
    begun = said = time.monotonic()
    first = True
    while True:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except (BlockingIOError, PermissionError):  # which of the two is the system's choice
            pass
        now = time.monotonic()
        if now - begun > wait_s:
            raise AgentError("run-busy", run=run, waited_s=round(now - begun))
        if first or now - said > _SAY_EVERY_S:
            call.event("waiting-for-launch", run=run, waited_s=round(now - begun))
            first, said = False, now
        time.sleep(_POLL_S)
