"""The command as a user runs it, in a project's folder, against a box.

`run` and `json` go through the command's own entry within this process, which spares a second of imports each; `start` and
`argv` are for what needs a process of its own: signals, terminals, two at a time.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloudrun.app import hosts
from cloudrun.cli.main import run
from cloudrun.config.hosts import known_hosts_path
from tests.support.sshd import SshBox


@dataclass
class Done:
    code: int
    out: str
    err: str


@dataclass
class Laptop:
    """A laptop with one project folder and, after `add`, the host `box`."""

    project: Path
    #: The agent's folder as a box has it, to be laid on a box that is only a means.
    agent: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, code: int | None = 0, stdin: str = "") -> Done:
        """Runs `cloudrun words…` in this process, as a user without a terminal; asserts its exit code unless `code` is None."""
        out, err = _text(), _text()
        with redirect_stdout(out), redirect_stderr(err), _standing(self.project, self.env, stdin):
            ended = run(list(words))
        done = Done(ended, _read(out), _read(err))
        assert code is None or ended == code, f"cloudrun {' '.join(words)} -> {ended}\n{done.out}\n{done.err}"
        return done

    def json(self, *words: str, code: int | None = 0) -> Any:
        end = words.index("--") if "--" in words else len(words)
        return json.loads(self.run(*words[:end], "--json", *words[end:], code=code).out)

    def start(self, *words: str, **settings: Any) -> subprocess.Popen[bytes]:
        settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
        return subprocess.Popen(self.argv(*words), cwd=self.project, env=self.environment(), **settings)

    def add(self, box: SshBox, *options: str) -> None:
        """`host add`, as a user does it; the box has nothing of ours yet."""
        self.run("host", "add", "box", box.login, "--key", str(box.key), "--data-dir", str(box.data), "--accept-new", *options)

    def know(self, box: SshBox) -> None:
        """What `add` and a first command come to, without the time they take: the host is known, the agent is there."""
        wanted = hosts.Wanted(target=box.login, key=str(box.key), data_dir=str(box.data))
        hosts.add_host("box", wanted, None)
        algorithm, key = box.host_key.with_suffix(".pub").read_text().split()[:2]
        with known_hosts_path().open("a") as known:
            known.write(f"[127.0.0.1]:{box.port} {algorithm} {key}\n")
        home = box.home / ".cloudrun"
        home.mkdir(mode=0o700)
        shutil.copytree(self.agent, home / "agent" / self.agent.name)

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "cloudrun", *words]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **self.env}

    def state(self, run: str) -> dict[str, Any]:
        """The run as `ps --json` shows it."""
        return next(found for found in self.json("ps")["runs"] if found["name"] == run)


def _text() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace", write_through=True)


def _read(stream: io.TextIOWrapper) -> str:
    stream.flush()
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode("utf-8", "replace")


@contextmanager
def _standing(folder: Path, env: dict[str, str], stdin: str) -> Iterator[None]:
    """In that folder, with those variables, and that text on stdin."""
    before, variables, given = Path.cwd(), dict(os.environ), sys.stdin
    os.chdir(folder)
    os.environ.update(env)
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = given
        os.environ.clear()
        os.environ.update(variables)
        os.chdir(before)
