"""A box spoken with over a pipe: the real agent in mode `rpc`, a home and a data disk of its own, real sessions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloudrun.project import runscript
from cloudrun.project.templates import template_text
from remote_agent import layout, protocol
from tests.support.sshd import end_processes_of
from tests.support.waiting import wait_for

PROJECT, PROJECT_ID = "proj", "p-1"


class Refused(Exception):
    """The agent's error answer."""

    def __init__(self, code: str, params: dict[str, Any]) -> None:
        super().__init__(code, params)
        self.code = code
        self.params = params


@dataclass
class Wanted:
    """What a test launches."""

    command: str = "echo started; exec sleep 300"
    name: str = "exp_resnet50"
    backend: str = "screen"
    fresh: bool = False
    secrets: dict[str, str] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    project_id: str = PROJECT_ID


class Talk:
    """One rpc process. `events` is what came before the newest answer."""

    def __init__(self, box: RpcBox, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [box.python, "-I", str(box.agent), "rpc", "--nonce", "n0", "--agent", "0" * 12], cwd=box.home,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**box.env, **(env or {})}, start_new_session=True,
        )
        self.events: list[dict[str, Any]] = []
        self.hello = self._hello()

    def _hello(self) -> dict[str, Any]:
        seen = b""
        assert self.process.stdout is not None
        while True:
            line = self.process.stdout.readline()
            assert line, f"no hello in {seen!r}"
            seen += line
            found = protocol.find_hello(seen, "n0")
            if found:
                return found[0]

    def send(self, op: str, body: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(protocol.dump_line({**body, "id": 7, "op": op}))
        self.process.stdin.flush()

    def answer(self) -> Any:
        """The result. Raises Refused for an error, AssertionError when the agent ends without an answer."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            assert message["id"] == 7
            if "event" in message:
                self.events.append(message)
            elif "error" in message:
                raise Refused(message["error"]["code"], message["error"]["params"])
            else:
                return message["result"]
        raise AssertionError("the agent ended without an answer")

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except BrokenPipeError:
                pass
        self.process.wait(10)


class RpcBox:
    """Made beneath `folder`. `close` ends everything that was started on it."""

    def __init__(self, folder: Path, agent: Path, python: str = sys.executable) -> None:
        self.home, self.data, self.work = folder / "home", folder / "data", folder / "work"
        for made in (self.home, self.data, self.work):
            made.mkdir(parents=True)
        self.agent = agent
        self.python = python
        self.env = {name: value for name, value in os.environ.items() if name not in ("TMUX", "STY", "PYENV_VERSION")}
        self.env["HOME"] = str(self.home)
        self.talk: Talk | None = None

    def run(self, name: str = "exp_resnet50") -> layout.Run:
        return layout.Data(os.path.realpath(self.data)).run(name)

    def call(self, op: str, /, **body: Any) -> Any:
        """One request; all of a box's come to the same agent, one after another."""
        if self.talk is None:
            self.talk = Talk(self)
        self.talk.send(op, {"data_dir": str(self.data), **body})
        return self.talk.answer()

    def request(self, wanted: Wanted) -> dict[str, Any]:
        """The launch's body, made as the laptop makes it: preflight, spec, run.sh."""
        prepared = protocol.decode(protocol.Prepared, self.call(
            "prepare", run=wanted.name, project=PROJECT, project_id=wanted.project_id, fresh=wanted.fresh,
            backend=wanted.backend, min_free_bytes=1000))
        spec = protocol.Spec(
            run=wanted.name, project=PROJECT, project_id=wanted.project_id, command=textwrap.dedent(wanted.command),
            workdir=str(self.work), backend=wanted.backend, min_free_bytes=1000,
            secret_names=sorted(wanted.secrets), **wanted.spec)
        secret_file = prepared.facts.secret_file if wanted.secrets else None
        request: dict[str, Any] = protocol.encode(protocol.LaunchRequest(
            spec=spec, run_sh=runscript.render(spec, prepared.facts, prepared.next_launch, secret_file),
            screenrc=template_text("screenrc"), tmux_conf=template_text("tmux.conf"), data_dir=str(self.data),
            secrets=wanted.secrets, fresh=wanted.fresh, launch=prepared.next_launch,
            settle_s=1.0,
        ))
        return request

    def launch(self, wanted: Wanted | None = None) -> protocol.Launched:
        return protocol.decode(protocol.Launched, self.call("launch", **self.request(wanted or Wanted())))

    def ps(self, **body: Any) -> list[protocol.RunInfo]:
        return [protocol.decode(protocol.RunInfo, run) for run in self.call("ps", **body)["runs"]]

    def state(self, name: str = "exp_resnet50") -> protocol.State:
        state = layout.read_record(protocol.State, self.run(name).state)
        assert state is not None
        return state

    def log(self, name: str = "exp_resnet50", attempt: int = 1) -> str:
        return b"".join(Path(part.path).read_bytes() for part in self.run(name).log_parts(attempt)).decode()

    def await_state(self, state: str, name: str = "exp_resnet50") -> protocol.RunInfo:
        """Waits until `ps` says so."""
        return wait_for(lambda: next((run for run in self.ps() if run.name == name and run.state == state), None),
                        20, f"{name} is {state}: {self.ps()}")

    def close(self) -> None:
        try:
            if self.talk is not None:
                self.talk.close()
        finally:
            end_processes_of(self.home)
