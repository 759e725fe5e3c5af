"""Running a program with a deadline that really holds: what hangs is killed, and what cannot be killed is left behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from remote_agent.records import dataclass

#: How long a killed program may take to go before it counts as one that cannot be killed (a driver that hangs).
_REAP_S = 0.3
_STEP_S = 0.2

#: Programs we killed that would not die, by the path they were started from.
_undying: List[Tuple[str, "subprocess.Popen[bytes]"]] = []


@dataclass
class Finished:
    """What came of it. `returncode` is negative for a signal, None when the deadline passed. Both outputs are bounded."""

    returncode: Optional[int]
    stdout: bytes
    stderr: bytes

    @property
    def timed_out(self) -> bool:
        return self.returncode is None

    @property
    def text(self) -> str:
        """Both outputs, stdout first: programs disagree on where an error belongs."""
        return (self.stdout + b"\n" + self.stderr).decode("utf-8", "replace")


def run(argv: Sequence[str], deadline_s: float, env: Optional[Dict[str, str]] = None,
        tick: Optional[Callable[[bytes], None]] = None, keep_bytes: int = 1 << 20) -> Finished:
    """Runs a program with stdin closed and gives its end, or, at the deadline, what it had said until then.

    `tick` is called several times a second while it runs, with the last of what it said. Raises OSError where it cannot start.
    """
    ends = time.monotonic() + deadline_s
    process = _start(argv, env, ends)
    if process is None:
        return Finished(None, b"", b"")
    kept: Dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    try:
        _drain(process, kept, keep_bytes, ends, tick)
        code = _exit_code(process, ends)
    finally:
        _leave(argv[0], process)
    return Finished(code, bytes(kept["stdout"]), bytes(kept["stderr"]))


def undying(path: str) -> bool:
    """Whether an earlier start of this program was killed and still is not gone: another one would hang beside it."""
    _undying[:] = [(name, process) for name, process in _undying if process.poll() is None]
    return any(name == path for name, _ in _undying)


def _start(argv: Sequence[str], env: Optional[Dict[str, str]], ends: float) -> Optional["subprocess.Popen[bytes]"]:
    """The started process; None when even its start hangs (a program on a dead network mount). Raises OSError."""
    started: List[subprocess.Popen[bytes]] = []
    failed: List[OSError] = []
    abandoned = threading.Event()

    def start() -> None:
        try:
            process = subprocess.Popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                start_new_session=True, cwd="/",
            )
        except OSError as error:
            failed.append(error)
            return
        started.append(process)
        if abandoned.is_set():
            _leave(argv[0], process)

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join(max(0.0, ends - time.monotonic()))
    if failed:
        raise failed[0]
    if not started:
        abandoned.set()
        return None
    return started[0]


def _drain(process: "subprocess.Popen[bytes]", kept: Dict[str, bytearray], keep_bytes: int, ends: float,
           tick: Optional[Callable[[bytes], None]]) -> None:
    """Reads both outputs until they end. A child of the program's that keeps them open does not keep us."""
    with selectors.DefaultSelector() as selector:
        for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
            assert stream is not None
            selector.register(stream.fileno(), selectors.EVENT_READ, name)
        while selector.get_map():
            left = ends - time.monotonic()
            if left <= 0:
                return
            ready = selector.select(min(left, _STEP_S))
            if tick is not None:
                tick(bytes(kept["stdout"][-1024:] + b"\n" + kept["stderr"][-1024:]))
            if not ready and process.poll() is not None:
                return
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fd)
                    continue
                buffer = kept[key.data]
                buffer.extend(data)
                if len(buffer) > keep_bytes:  # the end of an output says more than its start
                    del buffer[:len(buffer) - keep_bytes]


def _exit_code(process: "subprocess.Popen[bytes]", ends: float) -> Optional[int]:
    try:
        return process.wait(max(0.0, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _leave(path: str, process: "subprocess.Popen[bytes]") -> None:
    """Lets go of the process whatever it does: kills what is still there with all it started, and waits a moment only."""
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    if process.poll() is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:  # already gone, or another user's (sudo)
        pass
    if _exit_code(process, time.monotonic() + _REAP_S) is None:
        _undying.append((path, process))
