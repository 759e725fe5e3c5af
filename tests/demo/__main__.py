"""`make demo`: the whole way on this machine, with a private sshd on loopback as the rented box.

Everything lives in one temporary folder (keys, home, data disk, laptop's settings) and is gone afterwards.
"""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyte

from tests.support.sshd import PartMissing, SshBox, end_processes_of

RUN = "exp_resnet50"
PROJECT = Path(__file__).parent / "project"
WIDTH, HEIGHT = 100, 24


class Demo:
    """The steps, one after another; each shows the command a user would type and what it says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "imagenet"
        self.env = {
            **os.environ, "CLOUDRUN_CONFIG_DIR": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache"),
            "COLUMNS": str(WIDTH), "TERM": os.environ.get("TERM", "xterm-256color"),
        }
        for name in ("CLOUDRUN_HOST", "SSH_AUTH_SOCK"):
            self.env.pop(name, None)
        self.box: SshBox | None = None

    # ------------------------------------------------------------------------------------------- the way

    def run(self) -> None:
        target, extra = self._box()
        self._make_project()
        self._cloudrun("host", "add", "box", target, *extra)
        self._cloudrun("doctor", allowed=(0, 20, 21))
        self._cloudrun("launch", RUN)
        self._first_epoch()
        self._follow(seconds=8, title="the log, live (Ctrl-C after a while)")
        if self.box is not None:
            self._drop()
        self._attach(target)
        self._cloudrun("gpu")
        self._cloudrun("ps")
        self._cloudrun("stop", RUN)
        self._cloudrun("ps")
        self._title("done: the run is stopped, nothing of it is left")

    def _box(self) -> tuple[str, list[str]]:
        """The rented box: a private sshd, or `local` where there is none."""
        data = self.folder / "box" / "data"
        try:
            self.box = SshBox(self.folder / "box").start()
        except (PartMissing, RuntimeError, OSError) as error:
            self._title(f"no sshd can be had here ({error}); this machine itself is the box: host `local`")
            data.mkdir(parents=True, exist_ok=True)
            self.env["HOME"] = str(self.folder / "box" / "home")
            Path(self.env["HOME"]).mkdir(parents=True, exist_ok=True)
            return "local", ["--data-dir", str(data)]
        self._title(f"the rented box: an sshd of our own on 127.0.0.1:{self.box.port}, data disk {data}")
        return self.box.login, ["--key", str(self.box.key), "--data-dir", str(data), "--accept-new"]

    def _make_project(self) -> None:
        shutil.copytree(PROJECT, self.project, ignore=shutil.ignore_patterns("__pycache__"))
        (self.project / "cloudrun.toml").write_text(
            f'[runs.{RUN}]\ncommand = "python train.py --epochs 100000"\nactivate = "{Path(sys.prefix)}"\n'
            'min_free = "200 MB"\noutputs = ["outputs"]\nenv = { OMP_NUM_THREADS = 1 }\n'
        )

    def _first_epoch(self) -> None:
        """Waits until torch is imported and an epoch is done; a small machine takes a while."""
        self._title("waiting for the first epoch (importing torch takes a while on a small machine)")
        until = time.monotonic() + 180
        while time.monotonic() < until:
            shown = subprocess.run(self._argv("logs", "-n", "50"), cwd=self.project, env=self.env, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, check=False)
            if b"loss" in shown.stdout:
                return
        raise SystemExit("the training wrote no line about an epoch within 180 s")

    def _drop(self) -> None:
        assert self.box is not None
        before = self._state()
        dropped = self.box.drop_connections

        def drop_once() -> None:
            print(f"\n>>> the connection is cut now ({dropped()} of them) <<<", flush=True)

        self._follow(seconds=10, title="the same, and the connection is dropped on purpose", after=(4, drop_once))
        after = self._state()
        same = before["launched_at"] == after["launched_at"] and before["attempt"] == after["attempt"]
        if after["state"] != "running" or not same:
            raise SystemExit(f"the run was hurt by a dropped connection: {after}")
        self._title(f"the run did not notice: {after['state']}, attempt {after['attempt']}, launched {after['launched_at']}")

    def _state(self) -> dict[str, object]:
        answer = subprocess.run(self._argv("ps", "--json"), cwd=self.project, env=self.env, capture_output=True, check=True)
        return dict(json.loads(answer.stdout)["runs"][0])

    # -------------------------------------------------------------------------------------------- showing

    def _argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "cloudrun", *words]

    def _title(self, text: str) -> None:
        print(f"\n\x1b[1m# {text}\x1b[0m" if sys.stdout.isatty() else f"\n# {text}", flush=True)

    def _prompt(self, words: tuple[str, ...]) -> None:
        shown = " ".join(f'"{word}"' if " " in word else word for word in words)
        print(f"\n\x1b[36m$ cloudrun {shown}\x1b[0m" if sys.stdout.isatty() else f"\n$ cloudrun {shown}", flush=True)

    def _cloudrun(self, *words: str, allowed: tuple[int, ...] = (0,)) -> None:
        self._prompt(words)
        code = subprocess.run(self._argv(*words), cwd=self.project, env=self.env, check=False).returncode
        if code not in allowed:
            raise SystemExit(f"`cloudrun {words[0]}` ended with {code}")

    def _follow(self, seconds: float, title: str, after: tuple[float, Callable[[], None]] | None = None) -> None:
        """`logs -f` for a while, then Ctrl-C, as a user would."""
        self._title(title)
        self._prompt(("logs", "-f"))
        process = subprocess.Popen(self._argv("logs", "-f"), cwd=self.project, env=self.env, start_new_session=True)
        try:
            if after is not None:
                time.sleep(after[0])
                after[1]()
                seconds -= after[0]
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)
            if process.wait(10) != 130:
                raise SystemExit(f"`cloudrun logs -f` ended with {process.returncode} instead of being followed")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _attach(self, target: str) -> None:
        """`attach` in a terminal of its own; a picture of what it shows, then Ctrl-a d."""
        self._title("inside the session (a picture of the terminal), then Ctrl-a d")
        self._prompt(("attach",))
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.project)
            os.execvpe(sys.executable, self._argv("attach"), {**self.env, "TERM": "xterm-256color"})
        screen = pyte.Screen(WIDTH, HEIGHT)
        stream = pyte.ByteStream(screen)
        _resize(fd)
        picture = ""
        try:
            _read_for(fd, stream, 30, lambda: any("epoch" in line for line in screen.display))
            _read_for(fd, stream, 2)
            picture = "\n".join(line.rstrip() for line in screen.display).strip("\n")
            os.write(fd, b"\x01d")
            _read_for(fd, stream, 15, lambda: any("Back:" in line for line in screen.display))
        finally:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
            os.close(fd)
        print("\n".join(f"  | {line}" for line in picture.splitlines()))
        print("\n".join(f"  {line.rstrip()}" for line in screen.display if line.strip())[-300:])


def _resize(fd: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))


def _read_for(fd: int, stream: pyte.ByteStream, seconds: float, enough: Callable[[], bool] = lambda: False) -> None:
    """Feeds what the terminal says into the picture, for so long, or until it is enough or ends."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not enough():
        if select.select([fd], [], [], left)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                return
            if not data:
                return
            stream.feed(data)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="cloudrun-demo-"))
    demo = Demo(folder)
    try:
        demo.run()
    finally:
        if demo.box is not None:
            demo.box.stop()
        end_processes_of(folder / "box" / "home")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
