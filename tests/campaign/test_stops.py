"""A stop leaves nothing of a run's processes, however they left the tree. Looked for on the whole machine, by a mark in argv."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cli import Laptop
from tests.support.sshd import SshBox
from tests.support.waiting import wait_for

#: Ten processes beside bash itself: a child, a process group of its own, a session of its own, a grandchild chain, one deaf to
#: TERM, one that is stopped, two daemons (their parents gone), of which one has a clean environment and stands in /.
TREE = """\
m=$1
bash -c "exec -a $m-child sleep 900" &
bash -c "set -m; bash -c 'exec -a $m-group sleep 900' &"
setsid bash -c "exec -a $m-session sleep 900" &
bash -c "bash -c 'exec -a $m-grandchild sleep 900' & exec -a $m-parent sleep 900" &
bash -c "trap '' TERM HUP INT; exec -a $m-deaf sleep 900" &
bash -c "exec -a $m-stopped sleep 900" & stopped=$!
(setsid bash -c "exec -a $m-daemon sleep 900" </dev/null >/dev/null 2>&1 &)
(cd / && env -i /usr/bin/setsid /bin/bash -c "exec -a $m-clean sleep 900" </dev/null >/dev/null 2>&1 &)
sleep 0.4; kill -STOP $stopped
exec -a $m-main sleep 900
"""
NAMES = {"child", "group", "session", "grandchild", "parent", "deaf", "stopped", "daemon", "clean", "main"}


@pytest.fixture
def mark() -> Iterator[str]:
    """Stands in the argv of this test's processes and of no others; what is left of them in the end is killed."""
    mark = f"mark{secrets.token_hex(6)}"
    yield mark
    for pid in alive(mark).values():
        os.kill(pid, signal.SIGKILL)


def alive(mark: str) -> dict[str, int]:
    """Names and pids of the processes of the whole machine that carry the mark in their argv[0]."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            first = (entry / "cmdline").read_bytes().split(b"\0")[0].decode("utf-8", "replace")
        except OSError:
            continue
        if first.startswith(mark):
            found[first.removeprefix(mark + "-")] = int(entry.name)
    return found


@pytest.mark.parametrize("backend", ["screen", "tmux"])
@pytest.mark.parametrize("count", [1, pytest.param(100, marks=pytest.mark.campaign)])
def test_a_stop_leaves_none_of_ten(
    box: SshBox, cloudrun: Laptop, mark: str, figure: Callable[[str], None], backend: str, count: int
) -> None:
    cloudrun.know(box)
    (cloudrun.project / "tree.sh").write_text(TREE)
    for number in range(count):
        cloudrun.run("launch", "exp_tree", "--backend", backend, "--wait", "0.2", "--", "bash", "tree.sh", mark)
        wait_for(lambda: set(alive(mark)) == NAMES, what="ten processes")
        cloudrun.run("stop", "exp_tree", "--grace", "0.5")
        assert alive(mark) == {}, f"stop {number}"
        cloudrun.run("rm", "exp_tree", "--yes")
    figure(f"stops of a tree of ten, {backend}: processes left | {count} stops | 0")
