"""A control group of the test's own with little memory, version 1 or 2, under the one that the suite runs in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.sshd import PartMissing

_ROOT = Path("/sys/fs/cgroup")


@contextmanager
def little_memory(limit_bytes: int) -> Iterator[Path]:
    """The group's `cgroup.procs`: a pid written there counts against the limit. Raises PartMissing."""
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    group: Path | None = None
    for _, controllers, path in groups:
        version_1 = "memory" in controllers.split(",")
        if version_1 or not controllers:
            parent = (_ROOT / "memory" if version_1 else _ROOT) / path.lstrip("/")
            limit = "memory.limit_in_bytes" if version_1 else "memory.max"
            group = group or _made(parent / f"cloudrun-test-{os.getpid()}", limit, limit_bytes)
    if group is None:
        raise PartMissing("the suite needs a memory control group (root, a writable /sys/fs/cgroup) for a real OOM kill")
    try:
        yield group / "cgroup.procs"
    finally:
        group.rmdir()


def _made(group: Path, limit: str, limit_bytes: int) -> Path | None:
    """None where this hierarchy cannot be had."""
    try:
        group.mkdir()
    except OSError:
        return None
    try:
        (group / limit).write_text(str(limit_bytes))
        swap = group / "memory.swap.max"
        if swap.exists():
            swap.write_text("0")
        return group
    except OSError:
        group.rmdir()
        return None
