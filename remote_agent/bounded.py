"""A question to the file system with a deadline: a dead network mount may hold whoever asks, so a child asks.

A thread would not do: one that hangs in the kernel keeps this process, and with it the connection, from ending.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
from typing import Any, Callable, List, Optional, Sequence

from remote_agent.records import dataclass
from remote_agent.words import _

#: Children that were killed and had not gone yet; a child that hangs in the kernel goes when its mount does.
_left: List[int] = []
#: Several may ask side by side; a child is reaped once.
_reaping = threading.Lock()


@dataclass
class _Child:
    """One that asks, and where its answer comes from. `failed`: it could not even begin."""

    pid: int = 0
    reader: int = -1
    failed: Optional[OSError] = None


def in_child(ask: Callable[[], Any], deadline_s: float) -> Any:
    """What `ask` returns (a JSON value), asked in a forked child. Raises TimeoutError, and OSError where `ask` did.

    `ask` calls the operating system and nothing else: the process may have other threads, which the child lacks.
    """
    (answer,) = in_each([ask], deadline_s)
    if isinstance(answer, OSError):
        raise answer
    return answer


def in_each(asks: Sequence[Callable[[], Any]], deadline_s: float) -> List[Any]:
    """`in_child` of each, side by side: what it returned, or the OSError (TimeoutError among them) in its place."""
    _reap()
    ends = time.monotonic() + deadline_s
    children = [_begin(ask) for ask in asks]
    return [_finish(child, ends, deadline_s) for child in children]


def _begin(ask: Callable[[], Any]) -> _Child:
    try:
        reader, writer = os.pipe()
    except OSError as error:
        return _Child(failed=error)
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        return _Child(failed=error)
    if pid == 0:
        _answer(ask, writer)
    os.close(writer)
    return _Child(pid, reader)


def _finish(child: _Child, ends: float, deadline_s: float) -> Any:
    if child.failed is not None:
        return child.failed
    try:
        answer = json.loads(_read(child.reader, ends, deadline_s).decode("ascii"))
    except OSError as error:
        return error
    finally:
        os.close(child.reader)
        try:
            os.kill(child.pid, signal.SIGKILL)
        except OSError:
            pass
        with _reaping:
            _left.append(child.pid)
        _reap()
    if "errno" in answer:
        return OSError(answer["errno"], os.strerror(answer["errno"]), answer["path"])
    return answer["value"]


def _answer(ask: Callable[[], Any], writer: int) -> None:
    """The child's life. It holds nothing of the parent's open, above all not the connection."""
    code = 1
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        writer = _keep_only(writer)
        try:
            answer = {"value": ask()}
        except OSError as error:
            answer = {"errno": error.errno or 5, "path": str(error.filename or "")}
        data = json.dumps(answer).encode("ascii")
        while data:
            data = data[os.write(writer, data):]
        code = 0
    finally:
        os._exit(code)


def _keep_only(fd: int) -> int:
    """Closes everything but the three standard descriptors and this one, which becomes the fourth."""
    if fd != 3:
        os.dup2(fd, 3)
    for name in os.listdir("/proc/self/fd"):  # the limit may be a million: closing by range takes longer than asking
        if int(name) > 3:
            try:
                os.close(int(name))
            except OSError:  # the listing's own
                pass
    return 3


def _read(reader: int, ends: float, deadline_s: float) -> bytes:
    data = b""
    while True:
        ready = select.select([reader], [], [], max(0.0, ends - time.monotonic()))[0]
        if not ready:
            raise TimeoutError(_("no answer within {seconds:g} s").format(seconds=deadline_s))
        piece = os.read(reader, 65536)
        if not piece:
            break
        data += piece
    if not data:
        raise OSError(5, _("the child that asked ended without an answer"))
    return data


def _reap() -> None:
    with _reaping:
        _left[:] = [pid for pid in _left if not _gone(pid)]


def _gone(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except OSError:
        return True
