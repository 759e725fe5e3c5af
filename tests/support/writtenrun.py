"""A run whose log a real process writes through the tee's own log file, rotation and all, as the test tells it to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from remote_agent import atomic, layout, processes
from remote_agent.protocol import Attempt, Identity, State, decode, encode

REPOSITORY = Path(__file__).parents[2]


class WrittenRun:
    """One run beneath `<data_dir>/cloudrun/runs`. `truth[k]` is all that attempt k was told to write."""

    def __init__(self, data_dir: Path, name: str = "exp_resnet50", *, limit_bytes: int = 1 << 30) -> None:
        self.name = name
        self.run = layout.Data(str(data_dir)).run(name)
        self.data_dir = data_dir
        self.truth: dict[int, bytearray] = {}
        os.makedirs(self.run.logs)
        atomic.write_json(self.run.identity, encode(Identity(name, "proj", "p-1", "2026-12-01T00:00:00Z")))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.writtenrun", self.run.path, str(limit_bytes)], cwd=REPOSITORY,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
        self._tell({"do": "attempt"})
        self.attempt = 1

    def write(self, data: bytes) -> None:
        """Returns when it is in the log."""
        self.truth.setdefault(self.attempt, bytearray()).extend(data)
        self._tell({"do": "write", "data": data.decode("latin-1")})

    def next_attempt(self) -> None:
        self.attempt += 1
        self._tell({"do": "attempt"})

    def end(self, state: str = "succeeded", exit_code: int | None = 0, cause: str | None = None) -> None:
        self._tell({"do": "end", "state": state, "exit_code": exit_code, "cause": cause})
        self._process.wait(10)

    def kill(self) -> None:
        """The writer and supervisor is gone without a word."""
        self._process.kill()
        self._process.wait(10)

    def close(self) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def on_disk(self, attempt: int = 1) -> bytes:
        return b"".join(Path(part.path).read_bytes() for part in self.run.log_parts(attempt))

    def _tell(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == b"done\n"


class _Writer:
    """The process: it is the run's supervisor as far as `state.json` says."""

    def __init__(self, path: str, limit_bytes: int) -> None:
        self.run = layout.Run(path)
        self.limit_bytes = limit_bytes
        self.log: Any = None
        self.state = State(state="running", launch=1, attempt=0, backend="detached", session=None, box_id=processes.box_id(),
                           launched_at="2026-12-01T00:00:00Z", supervisor=processes.ref(os.getpid()))

    def do(self, order: dict[str, Any]) -> None:
        from remote_agent.supervise.logfile import LogFile

        if order["do"] == "write":
            if self.log is None:
                self.log = LogFile(self.run.log(self.state.attempt), self.limit_bytes)
            self.log.write(memoryview(order["data"].encode("latin-1")))
            return
        if self.log is not None:
            self.log.close()
            self.log = None
        if order["do"] == "attempt":
            if self.state.attempts:
                self.state.attempts[-1].exit_code, self.state.attempts[-1].cause = 1, "exception"
            self.state.attempt += 1
            self.state.attempts.append(Attempt(self.state.attempt, 1))
        else:
            self.state.state, self.state.exit_code, self.state.cause = order["state"], order["exit_code"], order["cause"]
        atomic.write_json(self.run.state, encode(decode(State, encode(self.state))))


def main() -> None:
    writer = _Writer(sys.argv[1], int(sys.argv[2]))
    for line in sys.stdin.buffer:
        order = json.loads(line)
        writer.do(order)
        print("done", flush=True)
        if order["do"] == "end":
            return


if __name__ == "__main__":
    main()
