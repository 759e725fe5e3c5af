"""How a command ended, and what that makes of its run. One judge: the supervisor asks it, and so does who reads after it.

Pure, but for the reading of the tee's record: what was recorded goes in, a word comes out.
"""

from __future__ import annotations

import json
import re
import signal
from typing import Any, Optional

from remote_agent.records import dataclass

TAIL_BYTES = 64 * 1024
_MAX_RECORD_BYTES = 64 * 1024
#: run.sh could not go to its folder or set up its environment; not executable; not found.
NEVER_STARTED_CODES = (125, 126, 127)
#: Lines that may follow a traceback that still ends the log: what libraries say on their way out.
_LINES_AFTER = 60

_TRACEBACK = "Traceback (most recent call last)"
_CHAINED = re.compile(
    r"During handling of the above exception|was the direct cause of the following|ChildFailedError|SignalException"
)
_EXCEPTION = re.compile(r"^(?:\S+: )?([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Failure)|[a-z_]\w*(?:\.\w+)+)\b",
                        re.MULTILINE)
_INTERRUPTED = re.compile(r"^(?:\S+: )?KeyboardInterrupt\b", re.MULTILINE)
_CUDA_OOM = re.compile(r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED")
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|\bENOSPC\b")
#: How a program says that one of its processes was killed: a DataLoader's, a pool's, torchrun's.
_WORKER_KILLED = re.compile(
    r"killed by signal: Killed|SIGKILL|Signal 9\b|exitcode\s*: -9\b|exit code -9\b|BrokenProcessPool|terminated abruptly"
)


@dataclass
class Outcome:
    """How the text at the heart of run.sh ended. Code and signal both None: nobody could tell."""

    exit_code: Optional[int]
    signal: Optional[int]
    ended_at: Optional[str]
    log_bytes_lost: int = 0


@dataclass
class Verdict:
    state: str
    cause: Optional[str]


def read_record(path: str) -> Optional[Outcome]:
    """The tee's record of an end; None where there is none, or what is there tells nothing."""
    try:
        with open(path, "rb") as stream:
            said: Any = json.loads(stream.read(_MAX_RECORD_BYTES).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    code, number, lost, ended_at = (said.get(name) for name in ("exit_code", "signal", "log_bytes_lost", "ended_at"))
    if not isinstance(code, int) and not isinstance(number, int):
        return None
    return Outcome(code if isinstance(code, int) else None, number if isinstance(number, int) else None,
                   ended_at if isinstance(ended_at, str) else None, lost if isinstance(lost, int) else 0)


def of_order(cause: Optional[str]) -> Verdict:
    """A run that was ended because somebody wanted it to: the user, or whoever killed its session."""
    return Verdict("stopped", "user") if cause == "user" else Verdict("failed", cause)


def of_command(outcome: Outcome, tail: str, oom_rose: bool) -> Verdict:
    """`tail`: the last 64 KiB of the log. `oom_rose`: whether the container's out-of-memory counter rose meanwhile."""
    if outcome.exit_code == 0:
        return Verdict("succeeded", None)
    if _interrupted(outcome, tail):
        return Verdict("stopped", "user")
    killed = outcome.signal == signal.SIGKILL or outcome.exit_code == 128 + signal.SIGKILL
    said = last_words(tail)
    if oom_rose and (killed or said is None or _WORKER_KILLED.search(tail)):
        return Verdict("failed", "oom-killed")
    if outcome.signal is not None:
        return Verdict("failed", "session-killed" if outcome.signal == signal.SIGHUP else "signal")
    if outcome.exit_code in NEVER_STARTED_CODES and said is None:
        return Verdict("failed", "never-started")
    return Verdict("failed", _of_words(said, tail))


def of_setup(outcome: Outcome, tail: str) -> Verdict:
    """A set-up that did not succeed."""
    return Verdict("stopped", "user") if _interrupted(outcome, tail) else Verdict("failed", "setup-failed")


def last_words(tail: str) -> Optional[str]:
    """The traceback that ends the log, with those it was chained to; None where the log does not end in one."""
    begin = tail.rfind(_TRACEBACK)
    if begin < 0:
        return None
    matches = list(_EXCEPTION.finditer(tail, begin))
    if matches and tail.count("\n", matches[0].start()) > _LINES_AFTER:
        return None
    while _CHAINED.search(tail, begin):
        earlier = tail.rfind(_TRACEBACK, 0, begin)
        if earlier < 0 or not _CHAINED.search(tail[earlier:]):
            break
        begin = earlier
    return tail[begin:]


def _of_words(said: Optional[str], tail: str) -> Optional[str]:
    words = said if said is not None else "\n".join(tail.splitlines()[-5:])
    if _CUDA_OOM.search(words):
        return "cuda-oom"
    if _NO_SPACE.search(words):
        return "disk-full"
    return None if said is None else "exception"


def _interrupted(outcome: Outcome, tail: str) -> bool:
    """Ctrl-C: by the signal, by the shell's word for it, or by a program that gave up with Python's own."""
    if outcome.signal == signal.SIGINT or outcome.exit_code == 128 + signal.SIGINT:
        return True
    said = last_words(tail)
    return outcome.exit_code is not None and said is not None and bool(_INTERRUPTED.search(said))
