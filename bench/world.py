"""What the comparisons run in: a laptop with ssh and cloudrun set up for the same boxes, real sshds, a link with a delay."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from bench import pairs
from tests.support.cli import Laptop
from tests.support.programs import fake_nvidia_smi
from tests.support.sshd import SshBox, end_processes_of

ROOT = Path(__file__).resolve().parent.parent
CARDS = "".join(f"{index}, NVIDIA GeForce RTX 4090, 24564, 18321, 97, 71, 402.15, GPU-{index}\n" for index in range(8))


@dataclass
class World:
    """`laptop` is the user's machine; ssh's settings for a box and cloudrun's host entry have the same name."""

    #: Round trip of the link to a box that is far.
    FAR_MS: ClassVar[float] = 50
    FAR: ClassVar[str] = f"+{FAR_MS} ms"

    folder: Path
    laptop: Laptop
    boxes: list[SshBox] = field(default_factory=list)
    helpers: list[subprocess.Popen[str]] = field(default_factory=list)

    @classmethod
    def made(cls, folder: Path, agent: Path) -> World:
        home = folder / "laptop"
        project = home / "net"
        for made in (project, home / ".ssh", folder / "bin"):
            made.mkdir(parents=True)
        # OpenSSH reads the settings of the account, whatever HOME says: this `ssh` has those of the laptop here.
        _program(folder / "bin" / "ssh", f'exec {shutil.which("ssh")} -F {home}/.ssh/config "$@"')
        env = {"HOME": str(home), "CLOUDRUN_CONFIG_DIR": str(home / "config"), "XDG_CACHE_HOME": str(home / "cache"),
               "PATH": f"{folder}/bin:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
        # As where it was installed: compiled once, whatever the environment here says.
        env["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
        for name in ("PYTHONDONTWRITEBYTECODE", "SSH_AUTH_SOCK", "CLOUDRUN_HOST", "CLOUDRUN_LANG", "XDG_CONFIG_HOME"):
            os.environ.pop(name, None)
        return cls(folder, Laptop(project, agent, env))

    def box(self, name: str) -> SshBox:
        """An sshd of its own with the agent on it, known to both as `name`."""
        place = self.folder / name
        fake_nvidia_smi(place / "bin", CARDS)
        box = SshBox(place / "box", path=f"{place}/bin:/usr/bin:/bin").start()
        self.boxes.append(box)
        self._known(name, box, box.port)
        home = box.home / ".cloudrun" / "agent"
        home.mkdir(parents=True)
        shutil.copytree(self.laptop.agent, home / self.laptop.agent.name)
        return box

    def far(self, name: str, box: SshBox) -> None:
        """The same box under another name, behind a link with that round trip."""
        link = subprocess.Popen(
            [sys.executable, str(ROOT / "bench" / "delay.py"), str(box.port), str(self.FAR_MS)],
            stdout=subprocess.PIPE, text=True)
        self.helpers.append(link)
        assert link.stdout is not None
        port = int(link.stdout.readline())
        _check_delay(box.port, port, self.FAR_MS / 1000)
        self._known(name, box, port)

    def _known(self, name: str, box: SshBox, port: int) -> None:
        ssh = Path(self.laptop.env["HOME"]) / ".ssh"
        algorithm, key = box.host_key.with_suffix(".pub").read_text().split()[:2]
        with (ssh / "known_hosts").open("a") as known:
            known.write(f"[127.0.0.1]:{port} {algorithm} {key}\n")
        with (ssh / "config").open("a") as config:
            config.write(f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  User {box.user}\n  IdentityFile {box.key}\n"
                         f"  IdentitiesOnly yes\n  UserKnownHostsFile {ssh}/known_hosts\n")
        self.laptop.run("host", "add", name, f"ssh {name}", "--data-dir", str(box.data), "--no-connect")

    def env(self) -> dict[str, str]:
        return self.laptop.environment()

    def run(self, argv: Sequence[str]) -> pairs.Took:
        """A program on the laptop, from its start to its end."""
        return pairs.command(argv, self.env(), self.laptop.project)

    def output(self, argv: Sequence[str]) -> bytes:
        done = subprocess.run(argv, env=self.env(), cwd=self.laptop.project, capture_output=True, check=True, timeout=120)
        return done.stdout

    def cloudrun(self, *words: str) -> list[str]:
        return [str(Path(sys.executable).parent / "cloudrun"), *words]

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_error: object) -> None:
        for helper in self.helpers:
            helper.kill()
            helper.wait()
        for box in self.boxes:
            box.stop()
        end_processes_of(Path(self.laptop.env["HOME"]))


def _check_delay(near: int, far: int, round_trip_s: float) -> None:
    """The first word of a server comes two round trips after one began to connect. Raises AssertionError."""
    more_s = _first_word_s(far) - _first_word_s(near)
    assert 1.9 * round_trip_s < more_s < 2.5 * round_trip_s, more_s


def _first_word_s(port: int) -> float:
    """The shortest of ten tries."""
    took_s = []
    for _try in range(10):
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", port)) as caller:
            assert caller.recv(4) == b"SSH-"
        took_s.append(time.monotonic() - began)
    return min(took_s)


def _program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
