"""`prepare`: the preflight of a launch. Looks at everything and changes nothing."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List, Optional

from remote_agent import hello, layout, processes, runs
from remote_agent.protocol import (
    LIVE_STATES,
    AgentError,
    BoxFacts,
    DataDisk,
    GpuReport,
    Prepared,
    PrepareRequest,
    RunInfo,
    encode,
)
from remote_agent.rpc.launch_session import choose_backend, refuse_anothers_session
from remote_agent.rpc.request import check_name, request_of
from remote_agent.rpc.server import Call

GPU_DEADLINE_S = 10.0
USAGE_DEADLINE_S = 5.0
#: A training of many small files needs inodes as well as bytes.
MIN_FREE_INODES = 10000
#: A checkpoint is written beside the last good one before that may go.
CHECKPOINTS_AHEAD = 2


def prepare(call: Call) -> Prepared:
    """PrepareRequest -> Prepared. Raises AgentError where the run could not live here."""
    request = request_of(PrepareRequest, call.body)
    check_name(request.run)
    from remote_agent import disk
    data_disk = disk.data_disk(request.data_dir)
    data_dir = os.path.realpath(data_disk.path)
    run = layout.Data(data_dir).run(request.run)
    existing = runs.info(run)
    if existing is not None and (existing.project_id or not request.fresh):
        refuse_foreign(existing, request.project_id)
    refuse_half_alive(run, existing)
    refuse_anothers_session(run)
    gpu = _gpu_report()
    if existing is None or existing.state not in LIVE_STATES:  # a live one has what it needs
        check_space(data_disk, request.min_free_bytes, run)
        check_gpus(gpu, request.gpus)
    chosen = choose_backend(request.backend, request.install)
    anew = request.fresh or existing is None
    number = 1 if anew else next_launch(run)
    return Prepared(
        facts=facts_of(data_dir, run, request.project, number), data_disk=data_disk, backend=chosen.backend,
        will_install=chosen.will_install, gpu=gpu, existing=existing,
        existing_spec=runs.newest_spec(run) if existing else None,
        next_attempt=1 if anew else next_attempt(run, existing), next_launch=number,
    )


def next_launch(run: layout.Run) -> int:
    """Number of the next launch; one that broke before it began keeps its number."""
    return max(run.launches(), default=0) + 1


def next_attempt(run: layout.Run, existing: Optional[RunInfo]) -> int:
    """Number of the next attempt, counted over all launches; a log that is there is never written on."""
    return max([existing.attempt if existing else 0, *run.logged_attempts()]) + 1


def refuse_foreign(existing: Optional[RunInfo], project_id: str) -> None:
    """Raises AgentError where another project's run has the name, or where whose it is cannot be read any more."""
    if existing is None or existing.project_id == project_id:
        return
    if existing.project_id:
        raise AgentError("run-name-taken", run=existing.name, project=existing.project, run_dir=existing.run_dir)
    raise AgentError("run-damaged", run=existing.name, run_dir=existing.run_dir)


def refuse_half_alive(run: layout.Run, existing: Optional[RunInfo]) -> None:
    """Raises AgentError where processes of the run go on without a supervisor: a second training beside them ruins both.

    They are asked for whatever the state says: it may be damaged, or tell the truth of a command that left a daemon.
    """
    if existing is None or existing.state in LIVE_STATES:
        return
    if existing.cause == "supervisor-killed" or processes.marked(run.path):
        raise AgentError("run-half-alive", run=run.name)


def facts_of(data_dir: str, run: layout.Run, project: str, number: int) -> BoxFacts:
    """What the run.sh of launch `number` needs to know."""
    from remote_agent.sessions import terminal
    home = layout.Home.of_user()
    return BoxFacts(home=home.home, python=sys.executable, agent_dir=hello.agent_dir(), data_dir=data_dir,
                    run_dir=run.path, tree=home.tree(project, run.name), utf8_locale=terminal.utf8_locale(),
                    secret_file=home.secret_file(run.path, number))


# ------------------------------------------------------------------------------------------------ disk


def check_space(data_disk: DataDisk, min_free_bytes: int, run: layout.Run) -> None:
    """Bytes and inodes. Raises AgentError "disk-low" or "inodes-low" with the figures and what takes the space."""
    ahead = CHECKPOINTS_AHEAD * largest_checkpoint(run)
    needed = max(min_free_bytes, ahead)
    if data_disk.free_bytes < needed:
        for_checkpoints = ahead > min_free_bytes
        raise AgentError("disk-low-for-checkpoints" if for_checkpoints else "disk-low", run=run.name,
                         path=data_disk.path, free_bytes=data_disk.free_bytes, total_bytes=data_disk.total_bytes,
                         needed_bytes=needed, largest=_largest(data_disk))
    if data_disk.total_inodes and data_disk.free_inodes is not None and data_disk.free_inodes < MIN_FREE_INODES:
        raise AgentError("inodes-low", path=data_disk.path, free_inodes=data_disk.free_inodes,
                         total_inodes=data_disk.total_inodes, needed_inodes=MIN_FREE_INODES)


def _largest(data_disk: DataDisk) -> List[Dict[str, Any]]:
    """What takes the space, counted within bounded time."""
    from remote_agent import space
    path = data_disk.path if os.path.isdir(data_disk.path) else data_disk.mount
    return [encode(taken) for taken in space.largest(path, USAGE_DEADLINE_S)]


def largest_checkpoint(run: layout.Run) -> int:
    """Bytes of the largest published checkpoint; 0 where there is none."""
    sizes = [_folder_bytes(entry.path) for entry in _entries(run.checkpoints) if entry.is_dir(follow_symlinks=False)]
    return max(sizes, default=0)


def _folder_bytes(path: str) -> int:
    return sum(entry.stat(follow_symlinks=False).st_size for entry in _entries(path)
               if entry.is_file(follow_symlinks=False))


def _entries(path: str) -> List["os.DirEntry[str]"]:
    try:
        with os.scandir(path) as found:
            return list(found)
    except OSError:
        return []


# ------------------------------------------------------------------------------------------------- GPU


def _gpu_report() -> GpuReport:
    from remote_agent import gpu
    return gpu.report(GPU_DEADLINE_S)


def check_gpus(report: GpuReport, wanted: Optional[List[int]]) -> None:
    """Refuses only where the run asks for cards, each kind of "none" by a code of its own. Raises AgentError."""
    if not wanted:
        return
    if report.state != "ok":
        raise AgentError("gpu-" + report.state, wanted=_numbers(wanted), detail=report.detail or "")
    there = [card.index for card in report.gpus if card.index is not None]
    missing = [index for index in wanted if index not in there]
    if there and missing:
        raise AgentError("gpu-index", missing=_numbers(missing), there=_numbers(there))


def _numbers(values: List[int]) -> str:
    return ", ".join(map(str, values))
