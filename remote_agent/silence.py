"""Disks that do not answer: a question under a deadline, and which mount it is that hangs."""

from __future__ import annotations

import os
import shutil
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from remote_agent import bounded, mounts
from remote_agent.protocol import AgentError

#: How long a mount may be silent when it is asked whether it is the one that hangs.
_SILENT_S = 1.0
#: Folders of PATH that did not answer once; not asked again by this process.
_silent_folders: Set[str] = set()


def ask(question: Callable[[], Any], path: str, deadline_s: float) -> Any:
    """`bounded.in_child` for something that lies at `path`. Raises AgentError as `no_answer`, and OSError."""
    try:
        return bounded.in_child(question, deadline_s)
    except TimeoutError:
        raise no_answer(path, deadline_s) from None


def no_answer(path: str, deadline_s: float) -> AgentError:
    """The error for a path that did not answer: "disk-hangs" with its mount, or "disk-timeout" where that is not found out."""
    silent = hanging()
    mount = mounts.holding(os.path.normpath(path), silent) or (silent[0] if len(silent) == 1 else None)
    if mount is None:  # a link may lead to either of several
        return AgentError("disk-timeout", path=path, deadline_s=deadline_s)
    return AgentError("disk-hangs", path=path, deadline_s=deadline_s, mount=mount.point, type=mount.fs_type, source=mount.source)


def may_hang(folder: str) -> bool:
    """Whether another machine or program answers for this folder (a path without links), or for something below it."""
    mounted = mounts.read()
    here = mounts.holding(folder, mounted)
    return any(mount.may_hang for mount in mounted if mount == here or mounts.beneath(mount.point, folder))


def hanging() -> List[mounts.Mount]:
    """Mounts that another machine or program answers for, and that do not answer now."""
    mounted = mounts.read()
    suspects = [mount for mount in mounted if mount.may_hang and mount == mounts.holding(mount.point, mounted)]
    answers = bounded.in_each([_statvfs(mount.point) for mount in suspects], _SILENT_S)
    return [mount for mount, answer in zip(suspects, answers) if isinstance(answer, TimeoutError)]


def exist(paths: Sequence[str], deadline_s: float) -> Dict[str, bool]:
    """Which of them are there, links followed. What does not answer is left out."""
    answers = bounded.in_each([_exists(path) for path in paths], deadline_s)
    return {path: answer for path, answer in zip(paths, answers) if isinstance(answer, bool)}


def which(name: str, path: Optional[str] = None) -> Optional[str]:
    """`shutil.which`, where a folder of PATH on a disk that does not answer is passed over."""
    if not any(mount.may_hang for mount in mounts.read()):
        return shutil.which(name, path=path)
    folders = [folder for folder in (os.environ.get("PATH", "") if path is None else path).split(":")
               if folder and folder not in _silent_folders]
    try:
        found: Optional[str] = bounded.in_child(lambda: shutil.which(name, path=":".join(folders)), _SILENT_S)
        return found
    except TimeoutError:
        answers = bounded.in_each([_which(name, folder) for folder in folders], _SILENT_S)
        _silent_folders.update(folder for folder, answer in zip(folders, answers) if isinstance(answer, TimeoutError))
        return next((answer for answer in answers if isinstance(answer, str)), None)


def _which(name: str, folder: str) -> Callable[[], Optional[str]]:
    return lambda: shutil.which(name, path=folder)


def _statvfs(point: str) -> Callable[[], bool]:
    return lambda: bool(os.statvfs(point).f_bsize)


def _exists(path: str) -> Callable[[], bool]:
    return lambda: os.path.exists(path)
