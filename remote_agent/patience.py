"""Running a package manager with a deadline that breaks nothing: a dpkg killed in the middle leaves the box's packages half done.

apt takes SIGINT as it is meant (tried on the real one): while it downloads or waits for a lock it ends, while dpkg works it
waits for dpkg. SIGTERM ends it at once, and dpkg with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import Callable, Dict, Optional, Sequence

from remote_agent import dpkg

#: How long what works on the packages may go on beyond the deadline. After that it is left alone, at work.
GRACE_S = 60.0
#: How long one that only downloads or waits may take to end when it is told to.
_ENDING_S = 3.0
_STEP_S = 0.2
_KEPT_BYTES = 1 << 16


@dataclass
class Ended:
    """`returncode` None: the deadline passed. `text`: the end of both outputs. `left`: pid of what goes on, not to be cut."""

    returncode: Optional[int]
    text: str
    left: Optional[int] = None

    @property
    def timed_out(self) -> bool:
        return self.returncode is None


def run(argv: Sequence[str], deadline_s: float, env: Dict[str, str], tick: Callable[[str], None]) -> Ended:
    """Runs it with stdin closed. `tick` is called several times a second with the last of what it said. Raises OSError."""
    # No pipe: what is left to finish its work must not die of a reader that is gone.
    with tempfile.TemporaryFile(buffering=0) as stream:
        output = stream.fileno()
        process = subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env,
                                   start_new_session=True, cwd="/")
        if _wait(process, deadline_s, lambda: tick(_tail(output))):
            return Ended(process.returncode, _tail(output))
        left = _end(process, lambda: tick(_tail(output)))
        return Ended(None, _tail(output), left)


def _end(process: "subprocess.Popen[bytes]", tick: Callable[[], None]) -> Optional[int]:
    """Ends it in its own time; gives the pid of what could not be ended without harm."""
    with contextlib.suppress(OSError):  # another user's (sudo): its keeper says it
        os.kill(process.pid, signal.SIGINT)
    ends = time.monotonic() + GRACE_S
    while not _wait(process, min(_ENDING_S, max(0.0, ends - time.monotonic())), tick):
        working = dpkg.workers(process.pid)
        if not working:
            break
        if time.monotonic() >= ends:
            return working[-1]
    if not dpkg.workers(process.pid):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        _wait(process, _ENDING_S, tick)
    return None


def _wait(process: "subprocess.Popen[bytes]", seconds: float, tick: Callable[[], None]) -> bool:
    ends = time.monotonic() + seconds
    while True:
        try:
            process.wait(min(_STEP_S, max(0.0, ends - time.monotonic())))
            return True
        except subprocess.TimeoutExpired:
            if time.monotonic() >= ends:
                return False
            tick()


def _tail(output: int) -> str:
    start = max(0, os.fstat(output).st_size - _KEPT_BYTES)
    return os.pread(output, _KEPT_BYTES, start).decode("utf-8", "replace")
