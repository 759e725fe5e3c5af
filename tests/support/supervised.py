"""A launched run and its real supervisor, on a terminal of the test's own or on none; run.sh is the real one."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloudrun.project import runscript
from remote_agent import atomic, layout, processes
from remote_agent.protocol import BoxFacts, Desired, Spec, State, encode
from tests.support.waiting import wait_for


@dataclass
class Setting:
    """What a run of a test is made of. `terminal`: on a pty as in screen, else as the detached backend has it."""

    command: str
    setup: str | None = None
    terminal: bool = True
    python: str = sys.executable
    name: str = "exp_resnet50"
    env: dict[str, str] = field(default_factory=dict)
    #: argv put before the supervisor's, and a file that its pid is written to before it begins (`cgroup.procs`).
    before: list[str] = field(default_factory=list)
    joins: Path | None = None


class Supervised:
    """One run beneath `folder`; `start` starts its supervisor. `agent`: an unpacked agent."""

    def __init__(self, folder: Path, agent: Path, setting: Setting) -> None:
        self.setting = setting
        self.home = folder / "home"
        self.workdir = folder / "work"
        for made in (self.home, self.workdir):
            made.mkdir(parents=True, exist_ok=True)
        self.run = layout.Data(str(folder / "data")).run(setting.name)
        self.agent = agent
        self.master: int | None = None
        self.shown = b""
        self.processes: list[subprocess.Popen[bytes]] = []
        self._write_launch()

    def _write_launch(self) -> None:
        launch = self.run.launch(1)
        os.makedirs(launch.path)
        os.makedirs(self.run.logs)
        spec = Spec(run=self.setting.name, project="proj", project_id="p-1", command=textwrap.dedent(self.setting.command),
                    workdir=str(self.workdir), setup=self.setting.setup)
        facts = BoxFacts(home=str(self.home), python=self.setting.python, agent_dir=str(self.agent),
                         data_dir=str(self.workdir), run_dir=self.run.path, tree=str(self.workdir))
        atomic.write_json(launch.spec, encode(spec))
        Path(launch.run_sh).write_text(runscript.render(spec, facts, 1, None))
        atomic.write_json(self.run.desired, encode(Desired("run")))
        atomic.write_json(self.run.state, encode(State(
            state="pending", launch=1, attempt=1, backend=self.backend, session=None, box_id=processes.box_id(),
            launched_at="2026-12-01T00:00:00Z")))

    @property
    def backend(self) -> str:
        return "screen" if self.setting.terminal else "detached"

    def start(self) -> Supervised:
        argv = [*self.setting.before, self.setting.python, "-I", str(self.agent),
                "supervise", self.run.path, "1", "--backend", self.backend]
        env = {**os.environ, "HOME": str(self.home), **self.setting.env}
        if not self.setting.terminal:
            self._popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL, preexec_fn=self._join)
            return self
        self.master, slave = pty.openpty()
        os.set_blocking(self.master, False)

        def own_terminal() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            self._join()

        self._popen(argv, env=env, stdin=slave, stdout=slave, stderr=slave, preexec_fn=own_terminal)
        os.close(slave)
        return self

    def _join(self) -> None:
        if self.setting.joins is not None:
            self.setting.joins.write_text("0")

    def _popen(self, argv: list[str], **how: Any) -> None:
        self.processes.append(subprocess.Popen(argv, start_new_session=True, **how))

    def type(self, keys: bytes) -> None:
        assert self.master is not None
        os.write(self.master, keys)

    def window(self) -> bytes:
        """All that the window has shown so far."""
        assert self.master is not None
        try:
            while piece := os.read(self.master, 65536):
                self.shown += piece
        except OSError:
            pass
        return self.shown

    def hang_up(self) -> None:
        if self.master is not None:
            os.close(self.master)
            self.master = None

    def state(self) -> State:
        state = layout.read_record(State, self.run.state)
        assert state is not None
        return state

    def log(self) -> str:
        return b"".join(Path(part.path).read_bytes() for part in self.run.log_parts(1)).decode()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in Path(self.run.events).read_text().splitlines()]

    def told(self, event: str) -> bool:
        return os.path.exists(self.run.events) and any(line["event"] == event for line in self.events())

    def says(self, text: str, timeout_s: float = 15.0) -> None:
        """Waits until the log holds that text."""
        wait_for(lambda: text in self.log(), timeout_s, f"{text!r} in the log")

    def wants_stop(self, grace_s: float) -> None:
        atomic.write_json(self.run.desired, encode(Desired("stop", grace_s)))

    def ended(self, timeout_s: float = 20.0) -> State:
        """Waits until the supervisor is gone; the state that it left. Nothing of the run may live then."""
        for process in self.processes:
            wait_for(lambda p=process: p.poll() is not None, timeout_s, f"the supervisor's end: {self.state()}")
        assert processes.marked(self.run.path) == set()
        return self.state()

    def close(self) -> None:
        """Kills what is left, also after a test that failed."""
        self.hang_up()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        for pid in processes.marked(self.run.path):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in self.processes:
            process.wait(10)
