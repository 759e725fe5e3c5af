"""What takes the space on a disk: a walk in turns, within bounded time, for the refusal that a full disk needs."""

from __future__ import annotations

import os
import stat
import time
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from remote_agent import bounded, layout
from remote_agent.protocol import SpaceTaken

#: Left for the answer to come home before the child counts as hanging.
_MARGIN_S = 1.0


def largest(path: str, deadline_s: float = 5.0, count: int = 5) -> List[SpaceTaken]:
    """The largest things directly in `path`, each run apart from the others, largest first, links not followed.

    Sizes are what they take on the disk, and "at least" where the deadline came first. Never raises for what it cannot read.
    """
    try:
        rows = bounded.in_child(lambda: _walk(path, deadline_s, count), deadline_s + _MARGIN_S)
    except (OSError, ValueError):  # TimeoutError is an OSError
        return []
    return [SpaceTaken(**row) for row in rows]


def _walk(path: str, deadline_s: float, count: int) -> List[Dict[str, Any]]:
    """Runs in the child: one folder of each entry in turn, so that a huge one does not hide the others."""
    ends = time.monotonic() + deadline_s
    seen: Set[Tuple[int, int]] = set()
    device = os.stat(path).st_dev
    walks = {entry: _sizes(entry, device, seen) for entry in _entries(path)}
    totals = dict.fromkeys(walks, 0)
    open_walks = list(walks)
    while open_walks and time.monotonic() < ends:
        for entry in list(open_walks):
            step = next(walks[entry], None)
            if step is None:
                open_walks.remove(entry)
            else:
                totals[entry] += step
            if time.monotonic() >= ends:
                break
    by_size = sorted(totals, key=lambda entry: (-totals[entry], entry))[:count]
    return [_row(entry, totals[entry], entry not in open_walks) for entry in by_size if totals[entry]]


def _row(entry: str, size_bytes: int, complete: bool) -> Dict[str, Any]:
    return {"path": os.fsencode(entry).decode("utf-8", "replace"), "size_bytes": size_bytes, "complete": complete}


def _entries(path: str) -> List[str]:
    """What is counted apart: entries of the folder, and in place of our folder the runs in it, which can be removed singly."""
    data, found = layout.Data(path), []
    for entry in _names(path):
        found.extend(_entries_of_ours(data) if entry == data.root else [entry])
    return found


def _entries_of_ours(data: layout.Data) -> List[str]:
    opened = (data.root, data.runs, data.archive)
    return [entry for folder in opened for entry in _names(folder) if entry not in opened]


def _names(folder: str) -> List[str]:
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:
        return []


def _sizes(entry: str, device: int, seen: Set[Tuple[int, int]]) -> Iterator[int]:
    """Bytes on the disk, folder by folder. Other devices are not entered; a file of several names counts once."""
    stack = [entry]
    first = _size(entry, device, seen)
    if first is None:
        return
    yield first[0]
    while stack:
        folder, taken = stack.pop(), 0
        for name in _names(folder) if _is_folder(folder) else []:
            found = _size(name, device, seen)
            if found is None:
                continue
            taken += found[0]
            if found[1]:
                stack.append(name)
        yield taken


def _size(path: str, device: int, seen: Set[Tuple[int, int]]) -> Optional[Tuple[int, bool]]:
    """Bytes and whether it is a folder; None for what is gone, counted already, or on another device."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    key = (found.st_dev, found.st_ino)
    if found.st_dev != device or key in seen:
        return None
    if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
        seen.add(key)
    return found.st_blocks * 512, stat.S_ISDIR(found.st_mode)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)
