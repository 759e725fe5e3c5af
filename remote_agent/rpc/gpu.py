"""`gpu`: the cards, and which of our runs are on them."""

from __future__ import annotations

import os
import re
from dataclasses import field
from typing import Callable, Dict, List, Optional, Set

from remote_agent import gpu as cards
from remote_agent import layout, processes, runs
from remote_agent.protocol import LIVE_STATES, AgentError, Gpu, GpuReport, RunInfo, State
from remote_agent.records import dataclass
from remote_agent.rpc.request import data_dir_of
from remote_agent.rpc.server import Call

DEADLINE_S = 10.0
#: Name of the machine's own pid namespace: there, and only there, the driver's pids are surely those of /proc.
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
_DEVICE = re.compile(r"/dev/nvidia\d+\Z|/dev/dxg\Z")


@dataclass
class Tree:
    """A run that lives, and its processes. Nothing is asked of any other process."""

    run: RunInfo
    pids: Set[int] = field(default_factory=set)


@dataclass
class Evidence:
    """What speaks for a process being on a card: the driver's pids by card (uuid), and whose numbers they are."""

    computing: Dict[str, Set[int]]
    pids_are_ours: bool
    holds_card: Callable[[int], bool]


def gpu(call: Call) -> GpuReport:
    """GpuReport with the names of live runs per card. Body: data_dir. A broken driver is an answer, not an error."""
    report, computing = cards.look(DEADLINE_S)
    if report.gpus:
        evidence = Evidence(computing, _in_first_namespace(), holds_card)
        try:
            assign(report, trees(_runs_of(call.body.get("data_dir"))), evidence)
        except AgentError as error:  # a data disk that is not well hides no card
            report.runs_unknown = {"code": error.code, "params": error.params}
        except OSError as error:
            report.runs_unknown = {"code": "box-os-error", "params": {
                "reason": error.strerror or str(error), "path": str(error.filename or "")}}
    return report


def assign(report: GpuReport, live: List[Tree], evidence: Evidence) -> None:
    """Writes each run to its cards: those it declared, else those on which the driver names a process of its.

    In a container the driver may give the machine's numbers, which can be anybody's here: then the process itself has
    to hold a card open. On a box of one card that is enough by itself, for there it can be no other.
    """
    ours: Set[int] = set()
    for tree in live:
        for card in report.gpus:
            named = _named(card, tree, evidence)
            ours |= named
            if tree.run.gpus is not None:
                there = card.index in tree.run.gpus
            else:
                there = bool(named) or (len(report.gpus) == 1 and any(map(evidence.holds_card, tree.pids)))
            if there:
                card.runs.append(tree.run.name)
    report.foreign_processes = any(pids - ours for pids in evidence.computing.values())


def trees(live: List[RunInfo]) -> List[Tree]:
    """The processes of each run: what hangs below its supervisor or, where that is gone, what carries its mark."""
    children: Optional[Dict[int, List[int]]] = None
    found = []
    for run in live:
        state = layout.read_record(State, layout.Run(run.run_dir).state)
        if state is not None and state.supervisor is not None and processes.alive(state.supervisor):
            children = processes.children() if children is None else children
            found.append(Tree(run, _below(state.supervisor.pid, children)))
        else:
            found.append(Tree(run, processes.marked(run.run_dir)))
    return found


def holds_card(pid: int) -> bool:
    """Whether a process of ours has a card's device open."""
    folder = "/proc/%d/fd" % pid
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            if _DEVICE.match(os.readlink(os.path.join(folder, name))):
                return True
        except OSError:  # closed meanwhile
            continue
    return False


def _named(card: Gpu, tree: Tree, evidence: Evidence) -> Set[int]:
    """Processes of the run that the driver names on this card."""
    named = evidence.computing.get(card.uuid or "", set()) & tree.pids
    return named if evidence.pids_are_ours else set(filter(evidence.holds_card, named))


def _runs_of(data_dir: Optional[str]) -> List[RunInfo]:
    """Runs that live, those included whose supervisor alone is gone. Raises AgentError or OSError where the disk is not well."""
    found = runs.all_runs(data_dir_of(data_dir))
    return [run for run in found if run.state in LIVE_STATES or _processes_left(run)]


def _processes_left(run: RunInfo) -> bool:
    """Whether a run that counts as lost still has processes at work."""
    return run.state == runs.LOST and bool(processes.marked(run.run_dir))


def _below(pid: int, children: Dict[int, List[int]]) -> Set[int]:
    found: Set[int] = set()
    queue = [pid]
    while queue:
        below = children.get(queue.pop(), [])
        queue.extend(child for child in below if child not in found)
        found.update(below)
    return found


def _in_first_namespace() -> bool:
    try:
        return os.readlink("/proc/self/ns/pid") == _FIRST_PID_NAMESPACE
    except OSError:
        return False
