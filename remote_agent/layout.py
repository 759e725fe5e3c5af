"""Every path on the box, and nobody else joins one by hand."""

from __future__ import annotations

import json
import os
import re
from typing import List, Optional, Type, TypeVar

from remote_agent import protocol
from remote_agent.records import dataclass

T = TypeVar("T")
_LOG = re.compile(r"attempt-(\d{3,})\.log(?:\.(\d+))?\Z")


@dataclass(frozen=True)
class Part:
    """One file of an attempt's log: its bytes stand at `offset` of the attempt's output."""

    offset: int
    path: str


@dataclass(frozen=True)
class Data:
    """The data disk's folder of ours: `<data>/cloudrun`."""

    data_dir: str

    @property
    def root(self) -> str:
        return os.path.join(self.data_dir, "cloudrun")

    @property
    def runs(self) -> str:
        return os.path.join(self.root, "runs")

    @property
    def archive(self) -> str:
        return os.path.join(self.runs, ".archive")

    @property
    def locks(self) -> str:
        return os.path.join(self.runs, ".locks")

    @property
    def caches(self) -> str:
        return os.path.join(self.root, "cache")

    def run(self, name: str) -> "Run":
        return Run(os.path.join(self.runs, name))


@dataclass(frozen=True)
class Run:
    """A run's folder: its identity and the only truth about it."""

    path: str

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def identity(self) -> str:
        return os.path.join(self.path, "run.json")

    @property
    def desired(self) -> str:
        return os.path.join(self.path, "desired.json")

    @property
    def state(self) -> str:
        return os.path.join(self.path, "state.json")

    @property
    def heartbeat(self) -> str:
        return os.path.join(self.path, "heartbeat.json")

    @property
    def events(self) -> str:
        return os.path.join(self.path, "events.jsonl")

    @property
    def control(self) -> str:
        return os.path.join(self.path, "control")

    @property
    def outputs(self) -> str:
        return os.path.join(self.path, "outputs")

    @property
    def logs(self) -> str:
        return os.path.join(self.path, "logs")

    @property
    def checkpoints(self) -> str:
        return os.path.join(self.path, "ckpt")

    @property
    def supervisor_lock(self) -> str:
        return os.path.join(self.path, ".supervisor.lock")

    def launch(self, number: int) -> "Launch":
        return Launch(os.path.join(self.path, "launches", "%03d" % number))

    def launches(self) -> List[int]:
        """Numbers of the launches there are, ascending."""
        return sorted(int(name) for name in _listdir(os.path.join(self.path, "launches")) if name.isdigit())

    def log(self, attempt: int) -> str:
        """The first part of an attempt's log."""
        return os.path.join(self.logs, "attempt-%03d.log" % attempt)

    def log_parts(self, attempt: int) -> List[Part]:
        """The parts there are, by offset. Between two there may be a gap: rotation keeps the first and the newest."""
        return log_parts(self.log(attempt))

    def log_tail(self, attempt: int, max_bytes: int) -> str:
        """The end of an attempt's newest part; bytes that are no UTF-8 are replaced. "" where there is none."""
        parts = self.log_parts(attempt)
        try:
            with open(parts[-1].path if parts else self.log(attempt), "rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, size - max_bytes))
                return stream.read(max_bytes).decode("utf-8", "replace")
        except OSError:
            return ""

    def logged_attempts(self) -> List[int]:
        """Attempts that have a log, ascending."""
        return sorted({int(m.group(1)) for m in map(_LOG.match, _listdir(self.logs)) if m})

    def exit_record(self, attempt: int) -> str:
        """Written by the tee when the command ended: {"exit_code", "signal", "ended_at"}; survives the supervisor."""
        return os.path.join(self.logs, "attempt-%03d.exit.json" % attempt)

    def setup_exit_record(self, attempt: int) -> str:
        """The same of the attempt's set-up: never taken for the command's."""
        return os.path.join(self.logs, "attempt-%03d.setup.json" % attempt)

    @property
    def current_log(self) -> str:
        """A link to the newest attempt's log."""
        return os.path.join(self.logs, "current")


@dataclass(frozen=True)
class Launch:
    """What one `cloudrun launch` wrote, once."""

    path: str

    @property
    def spec(self) -> str:
        return os.path.join(self.path, "spec.json")

    @property
    def run_sh(self) -> str:
        return os.path.join(self.path, "run.sh")

    @property
    def code_diff(self) -> str:
        return os.path.join(self.path, "code.diff")

    @property
    def screenrc(self) -> str:
        return os.path.join(self.path, "screenrc")

    @property
    def tmux_conf(self) -> str:
        return os.path.join(self.path, "tmux.conf")


@dataclass(frozen=True)
class Trees:
    """A project's folder on the box, `~/cloudrun/<project>`: a tree per run, and bookkeeping that begins with a dot."""

    path: str

    @property
    def identity(self) -> str:
        """{"id"}: which project this is."""
        return os.path.join(self.path, ".project.json")

    @property
    def lock(self) -> str:
        return os.path.join(self.path, ".lock")

    @property
    def records(self) -> str:
        return os.path.join(self.path, ".trees")

    @property
    def stagings(self) -> str:
        return os.path.join(self.path, ".staging")

    @property
    def distrusted(self) -> str:
        """Files whose content was not what their record says, although nothing about them looked changed."""
        return os.path.join(self.records, ".distrusted.json")

    def tree(self, run: str) -> str:
        return os.path.join(self.path, run)

    def index(self, run: str) -> str:
        """What was brought into the run's tree."""
        return os.path.join(self.records, "%s.json" % run)

    def journal(self, run: str) -> str:
        """There while a tree is being changed: what is left to do."""
        return os.path.join(self.records, "%s.journal" % run)

    def aside(self, run: str, stamp: str) -> str:
        """Where files go that stood in the way and were not ours."""
        return os.path.join(self.path, ".replaced", run, stamp)


@dataclass(frozen=True)
class Home:
    """`~/.cloudrun` (0700) and `~/cloudrun`. `home` is the user's home folder."""

    home: str

    @classmethod
    def of_user(cls) -> "Home":
        return cls(os.environ.get("HOME") or os.path.expanduser("~"))

    @property
    def root(self) -> str:
        return os.path.join(self.home, ".cloudrun")

    @property
    def agents(self) -> str:
        return os.path.join(self.root, "agent")

    @property
    def secrets(self) -> str:
        return os.path.join(self.root, "secrets")

    @property
    def wishes(self) -> str:
        """What is wanted of runs whose own disk took no file."""
        return os.path.join(self.root, "wishes")

    def wish(self, run_dir: str) -> str:
        return os.path.join(self.wishes, "%s.json" % name_of(run_dir))

    @property
    def screen_sockets(self) -> str:
        return os.path.join(self.root, "screen")

    @property
    def tmux_sockets(self) -> str:
        return os.path.join(self.root, "tmux")

    @property
    def detached(self) -> str:
        """Records of the processes of runs without a multiplexer."""
        return os.path.join(self.root, "detached")

    def secret_file(self, run_dir: str, launch: int) -> str:
        """Shell text (`export K='v'`), 0600, sourced by run.sh."""
        return os.path.join(self.secrets, "%s-%03d.env" % (name_of(run_dir), launch))

    def project(self, project: str) -> str:
        """Trees of a project; the bookkeeping beside them starts with a dot, which no run's name does."""
        return os.path.join(self.home, "cloudrun", project)

    def trees(self, project: str) -> Trees:
        return Trees(self.project(project))

    def tree(self, project: str, run: str) -> str:
        return os.path.join(self.project(project), run)

    def setup_done(self, project: str, digest: str) -> str:
        """There when the set-up of this content has succeeded on this box: {"run", "attempt", "at"}."""
        return os.path.join(self.project(project), ".setup", "%s.json" % digest)

    def setup_lock(self, project: str) -> str:
        return os.path.join(self.project(project), ".setup", "lock")


def log_part(first: str, offset: int) -> Part:
    """The part of a log that begins at `offset`; `first` is the log's first part."""
    return Part(offset, first if offset == 0 else "%s.%d" % (first, offset))


def log_parts(first: str) -> List[Part]:
    """The parts there are of one log, by offset."""
    folder, name = os.path.split(first)
    parts = []
    for found in _listdir(folder):
        if found == name:
            parts.append(Part(0, first))
        elif found.startswith(name + ".") and found[len(name) + 1:].isdigit():
            parts.append(Part(int(found[len(name) + 1:]), os.path.join(folder, found)))
    return sorted(parts, key=lambda part: part.offset)


def name_of(run_dir: str) -> str:
    """A name for what the home keeps of a run: another data disk may have a run of that name too."""
    import hashlib  # few commands need it

    return "%s-%s" % (os.path.basename(run_dir), hashlib.sha256(os.fsencode(run_dir)).hexdigest()[:8])


def private_folder(path: str) -> str:
    """The folder, made with mode 0700 where it was missing; its mode is mended where it is ours. Raises OSError."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.stat(path).st_mode & 0o077:
        os.chmod(path, 0o700)
    return path


def read_record(kind: Type[T], path: str) -> Optional[T]:
    """A record of ours from its file; None where there is none or what is there is no such record."""
    try:
        with open(path, "rb") as stream:
            return protocol.decode(kind, json.loads(stream.read().decode("utf-8", "surrogateescape")))
    except (OSError, ValueError, RecursionError):
        return None


def _listdir(path: str) -> List[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
