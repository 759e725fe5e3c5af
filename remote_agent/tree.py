"""Ending a run's processes: asked at the top, waited for, then killed, and verified gone.

Used by the supervisor, which sees what leaves the tree because it is a subreaper, and by whoever ends a run whose
supervisor is dead.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Set

from remote_agent import processes
from remote_agent.protocol import DEFAULT_GRACE_S, ProcessRef

KILL_WINDOW_S = 10.0
#: A process in uninterruptible sleep dies when its system call returns; nobody can say when.
SLEEPER_WINDOW_S = 3.0
#: What the tee is given to write down the last words once nothing feeds it any more.
TEE_WINDOW_S = 5.0
_TICKS_S = (0.02, 0.05, 0.1, 0.25)
_SHELLS = ("bash", "sh", "dash", "zsh", "ash", "ksh", "rbash", "busybox")

Pause = Callable[[float], None]


@dataclass
class Ending:
    """What is to end. `grace_s` may be changed while it is waited for: a second `stop` may be in more of a hurry."""

    run_dir: str
    #: The command's process: its top is asked first.
    roots: List[ProcessRef] = field(default_factory=list)
    grace_s: float = DEFAULT_GRACE_S
    #: Ended last, with time to write down what was said: the tee, where it is known. Above a living root it is found.
    last: List[ProcessRef] = field(default_factory=list)
    #: Process whose descendants all belong to the run (the supervisor, itself excepted), or None.
    reaper: Optional[int] = None
    pause: Pause = time.sleep
    now: Callable[[], float] = time.monotonic


@dataclass
class Ended:
    """How it went: who was asked, how many had to be killed, and who is still there (stuck in the kernel)."""

    asked: List[int] = field(default_factory=list)
    killed: int = 0
    left: List[ProcessRef] = field(default_factory=list)


def end_tree(run_dir: str, roots: List[ProcessRef], grace_s: float, pause: Pause = time.sleep) -> Ended:
    """Ends a run whose supervisor is dead: what is under `roots` and what carries the run's mark."""
    return end(Ending(run_dir, roots, grace_s, pause=pause))


def end(ending: Ending) -> Ended:
    """TERM to the top, at most `grace_s` for all to go, KILL in rounds, and a bounded look that they are gone."""
    began, last = ending.now(), _last(ending)
    asked: Dict[int, ProcessRef] = {}
    ticks = _ticks()

    def in_grace() -> bool:
        return ending.now() - began < ending.grace_s

    while in_grace():
        _ask(top(ending.roots), asked)  # again and again: a shell that lives on may have started its next command
        if not any(map(processes.alive, asked.values())):
            break
        ending.pause(next(ticks))
    while in_grace():
        left = _others(ending, last)
        _ask(left, asked)
        if not left:
            break
        ending.pause(next(ticks))
    killed = _kill_all(ending, last)
    _end_last(ending, last)
    return Ended(sorted(asked), killed, members(ending))


def _ticks() -> Iterator[float]:
    """Short at first, since most trainings end at once; a look at /proc has its price on a busy box."""
    for tick_s in _TICKS_S:
        yield tick_s
    while True:
        yield _TICKS_S[-1]


def members(ending: Ending) -> List[ProcessRef]:
    """Every living process of the run, by tree and by mark; never ourselves, nor what we run under."""
    tree = processes.children()
    found = {root.pid for root in ending.roots if processes.alive(root)} | processes.marked(ending.run_dir)
    found |= _beneath(tree, found)
    if ending.reaper is not None:
        found |= _beneath(tree, {ending.reaper})
    found -= _ancestry(os.getpid())
    return [ref for ref in map(processes.ref, sorted(found)) if ref is not None]


def top(roots: Iterable[ProcessRef]) -> List[ProcessRef]:
    """Whom to ask: shells from each root down, then the first that are no shells. What reads from one of them through a pipe
    is not asked: it ends when its input does, and asked first it would take the other's voice away."""
    tree = processes.children()
    shells: List[int] = []
    programs: List[int] = []
    queue = [root.pid for root in roots if processes.alive(root)]
    while queue:
        pid = queue.pop(0)
        if is_shell(pid):
            shells.append(pid)
            queue.extend(tree.get(pid, []))
        else:
            programs.append(pid)
    chosen = shells + [pid for pid in programs if not _reads_from(pid, programs)]
    return [ref for ref in map(processes.ref, chosen) if ref is not None]


def _ask(refs: Iterable[ProcessRef], asked: Dict[int, ProcessRef]) -> None:
    """TERM once to each, and CONT: one that somebody stopped could not answer."""
    for ref in refs:
        if asked.get(ref.pid) != ref and _send(ref, signal.SIGTERM):
            _send(ref, signal.SIGCONT)
            asked[ref.pid] = ref


def _send(ref: ProcessRef, number: int) -> bool:
    """A signal to this very process; one that is not ours to signal counts as gone."""
    try:
        return processes.send(ref, number)
    except PermissionError:
        return False


def _kill_all(ending: Ending, last: List[ProcessRef]) -> int:
    """KILL in rounds: what was forked during one is found by the next. Gives how many there were."""
    killed: Set[int] = set()
    began = ending.now()
    while ending.now() - began < KILL_WINDOW_S:
        left = _others(ending, last)
        if not left:
            break
        if ending.now() - began > SLEEPER_WINDOW_S and all(_sleeps_in_kernel(ref.pid) for ref in left):
            break
        for ref in left:
            if _send(ref, signal.SIGKILL):
                killed.add(ref.pid)
        ending.pause(_TICKS_S[0])
    return len(killed)


def _end_last(ending: Ending, last: List[ProcessRef]) -> None:
    """Lets the tee drain what was said, then makes sure of it too."""
    began = ending.now()
    while any(map(processes.alive, last)) and ending.now() - began < TEE_WINDOW_S + SLEEPER_WINDOW_S:
        if ending.now() - began > TEE_WINDOW_S:
            for ref in last:
                _send(ref, signal.SIGKILL)
        ending.pause(_TICKS_S[0])


def _last(ending: Ending) -> List[ProcessRef]:
    """The members that stand directly above a root: the tee. It writes down how the command ended."""
    above = {processes.parent(root.pid) for root in ending.roots if processes.alive(root)}
    return [ref for ref in members(ending) if ref.pid in above or ref in ending.last]


def _others(ending: Ending, last: List[ProcessRef]) -> List[ProcessRef]:
    return [ref for ref in members(ending) if ref not in last]


def _beneath(tree: Dict[int, List[int]], above: Iterable[int]) -> Set[int]:
    found: Set[int] = set()
    queue = list(above)
    while queue:
        fresh = [pid for pid in tree.get(queue.pop(), []) if pid not in found]
        found.update(fresh)
        queue.extend(fresh)
    return found


def _ancestry(pid: Optional[int]) -> Set[int]:
    """A process and everything it runs under; among it the session's server."""
    found: Set[int] = set()
    while pid and pid not in found:
        found.add(pid)
        pid = processes.parent(pid)
    return found | {1}


def is_shell(pid: int) -> bool:
    """False also for a process that is gone."""
    try:
        return os.path.basename(os.readlink("/proc/%d/exe" % pid)).split(" ")[0] in _SHELLS
    except OSError:
        return False


def _reads_from(pid: int, programs: List[int]) -> bool:
    source = _open_end(pid, 0)
    if source is None or not source.startswith("pipe:"):
        return False
    return any(source in (_open_end(other, 1), _open_end(other, 2)) for other in programs if other != pid)


def _open_end(pid: int, fd: int) -> Optional[str]:
    try:
        return os.readlink("/proc/%d/fd/%d" % (pid, fd))
    except OSError:
        return None


def _sleeps_in_kernel(pid: int) -> bool:
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0] == b"D"
    except (OSError, IndexError):
        return False
