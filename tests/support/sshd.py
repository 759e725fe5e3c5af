"""A real OpenSSH server on loopback that plays the rented box: its own keys, configuration, home and data folder."""

from __future__ import annotations

import getpass
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path


class PartMissing(RuntimeError):
    """A real part that the suite needs and cannot have here. It fails with its name; it does not skip."""


def program(name: str) -> str:
    """Path of a program the suite needs. Raises PartMissing."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin")
    if found is None:
        raise PartMissing(f"the suite needs the program {name!r}, and it is not on this machine (run `make parts`)")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class SshBox:
    """One sshd of our own. `home` and `data` are the box's; `key` opens it; `login` is what a provider's page would show.

    `mounts`: shell lines that change what the box sees of the machine, in a mount namespace of its own (`mount --bind …`).
    """

    def __init__(self, folder: Path, *, settings: str = "", path: str | None = None,
                 env: dict[str, str] | None = None, sftp: str = "internal-sftp", mounts: str = "") -> None:
        self.folder = folder
        self.mounts = mounts
        self.home = folder / "home"
        self.data = folder / "data"
        self.key = folder / "id_ed25519"
        self.host_key = folder / "host_ed25519"
        self.port = free_port()
        self.user = getpass.getuser()
        for made in (self.home, self.data):
            made.mkdir(parents=True, exist_ok=True)
        for key in (self.key, self.host_key):
            subprocess.run([program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        authorized = folder / "authorized_keys"
        authorized.write_text(self.key.with_suffix(".pub").read_text())
        variables = {"HOME": str(self.home), **({"PATH": path} if path else {}), **(env or {})}
        # sshd takes the first SetEnv line only: all pairs stand on it.
        pairs = " ".join(f'{name}="{value}"' for name, value in variables.items())
        config = folder / "sshd_config"
        config.write_text(
            f"MaxStartups 200\n{settings}\nPort {self.port}\nListenAddress 127.0.0.1\nHostKey {self.host_key}\n"
            f"AuthorizedKeysFile {authorized}\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
            f"PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            f"SetEnv {pairs}\n" + (f"Subsystem sftp {sftp}\n" if sftp else "")
        )
        self.config = config
        self.log = folder / "sshd.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def login(self) -> str:
        return f"ssh -p {self.port} {self.user}@127.0.0.1"

    def start(self) -> SshBox:
        """Starts the server and waits until it answers. Raises PartMissing where there is no sshd."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._within(), program("sshd"), "-D", "-e", "-f", str(self.config)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"sshd did not start: {self.log.read_text()}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0 and probe.recv(4) == b"SSH-":
                    return self
            time.sleep(0.02)
        raise RuntimeError(f"sshd did not answer on port {self.port}: {self.log.read_text()}")

    def _within(self) -> list[str]:
        if not self.mounts:
            return []
        lines = f'set -e\n{self.mounts}\nexec "$@"\n'
        return [program("unshare"), "--mount", "--propagation", "private", "bash", "-c", lines, "box"]

    def connections(self) -> list[int]:
        """Pids of the server processes that serve a connection now."""
        if self.process is None:
            return []
        return _children(self.process.pid)

    def drop_connections(self) -> int:
        """Cuts every connection there is, as a dead link would; gives how many. The listener goes on."""
        cut = self.connections()
        for pid in cut:
            for victim in [pid, *_children(pid)]:
                if _command(victim).startswith("sshd"):  # what the user started is not the link's to kill
                    _kill(victim, signal.SIGKILL)
        return len(cut)

    def stop(self) -> None:
        """Ends the server, its connections, and every process that carries this box's home in its environment."""
        if self.process is not None:
            self.drop_connections()
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)
            self.process = None
        end_processes_of(self.home)


def end_processes_of(home: Path) -> None:
    """Kills what was started on the box of this home and is still there: sessions, supervisors, trainings."""
    mark = f"HOME={home}".encode()
    _kill_marked(mark)
    # A test's home is too long for sockets: its sessions had theirs in a folder of its own under /tmp.
    short = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
    for shared in ("/tmp", "/var/tmp", "/dev/shm"):
        shutil.rmtree(f"{shared}/cloudrun-{os.getuid()}-{short}", ignore_errors=True)


def _kill_marked(mark: bytes) -> None:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                _kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue


def _children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass
