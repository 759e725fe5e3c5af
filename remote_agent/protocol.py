"""The words that cross the wire and the words that lie on the disk: one set of dataclasses for both sides.

A supervisor started last week must be understood by today's laptop, so: fields are only ever added, with
defaults; unknown keys are ignored; recorded samples in `tests/frozen/` hold this still.

Wire
----
The agent's first words are ``CLOUDRUN/1 <nonce> {hello}`` anywhere in the first 4 MiB of its output; what the
box's shell prints around them is skipped. After that *rpc* speaks one JSON object per line, and *follow* speaks
frames: a JSON header line, then exactly ``length`` raw bytes. The stream of code (`code.receive`) is frames too.
"""

from __future__ import annotations

import json
import re
import sys
import typing
from dataclasses import MISSING, field, fields, is_dataclass
from typing import Any, BinaryIO, Dict, FrozenSet, List, Optional, Tuple, Type, TypeVar

from remote_agent.records import dataclass

VERSION = 1
#: Some boxes greet at length. What never ends is no greeting.
HELLO_WINDOW_BYTES = 4 << 20
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
DEFAULT_MIN_FREE_BYTES = 5 * 10**9
DEFAULT_LOG_LIMIT_BYTES = 2 * 10**9
DEFAULT_GRACE_S = 30.0
DEFAULT_SETTLE_S = 5.0

T = TypeVar("T")


class AgentError(Exception):
    """A refusal that crosses the wire as a code and parameters; its words are made where it is shown.

    The code is a key of the laptop's error catalogue (`cloudrun.errors`); parameters are JSON values.
    """

    def __init__(self, code: str, **params: Any) -> None:
        super().__init__(code, params)
        self.code = code
        self.params = params

    def __str__(self) -> str:
        return "%s %r" % (self.code, self.params)


# ---------------------------------------------------------------------------------------------- hello


@dataclass
class Hello:
    """What the agent says first. `python` is the interpreter it runs under."""

    version: int
    agent: str
    python: str
    python_version: str
    box_id: str
    home: str
    user: str
    #: The folder the agent runs from: what follows `python -I`, and what stands on the run's PYTHONPATH.
    agent_dir: str = ""
    #: True where the home takes no writes and the agent lies under TMPDIR.
    home_read_only: bool = False


# ---------------------------------------------------------------------------------- runs, as files say

#: States that `state.json` may hold. `lost` is never stored: readers derive it.
STATES = ("pending", "running", "stalled", "waiting", "stopping", "succeeded", "failed", "stopped")
LIVE_STATES = ("pending", "running", "stalled", "waiting", "stopping")
ENDED_STATES = ("succeeded", "failed", "stopped")
#: Causes a state may carry.
CAUSES = (
    "exception", "cuda-oom", "oom-killed", "signal", "disk-full", "hang", "never-started",
    "box-restarted", "session-killed", "supervisor-killed", "setup-failed", "user",
    "disk-hangs",  # a reader's word alone: the run's own files do not answer
)


@dataclass
class ProcessRef:
    """A process that cannot be mistaken for a later one of the same pid: pid and start time in clock ticks since boot."""

    pid: int
    start_ticks: int


@dataclass
class Attempt:
    """One start of the run's command, as the supervisor's record of it says."""

    number: int
    launch: int
    started_at: Optional[str] = None
    ended_at: Optional[str] = None
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    cause: Optional[str] = None


@dataclass
class State:
    """`state.json`: written by the supervisor, atomically. Times are UTC, ISO 8601."""

    state: str
    launch: int
    attempt: int
    backend: str
    session: Optional[str]
    box_id: str
    cause: Optional[str] = None
    #: "setup" while the launch's set-up runs, "command" afterwards.
    phase: Optional[str] = None
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    launched_at: Optional[str] = None
    started_at: Optional[str] = None
    ended_at: Optional[str] = None
    supervisor: Optional[ProcessRef] = None
    command: Optional[ProcessRef] = None
    attempts: List[Attempt] = field(default_factory=list)
    log_bytes_lost: int = 0
    schema: int = 1


@dataclass
class Identity:
    """`run.json`: which project a run's folder belongs to."""

    name: str
    project: str
    project_id: str
    created_at: str
    schema: int = 1


@dataclass
class Desired:
    """`desired.json`: what the user wants of the run; survives the supervisor."""

    want: str  # "run" | "stop" | "keep"
    grace_s: float = DEFAULT_GRACE_S
    at: Optional[str] = None
    schema: int = 1


@dataclass
class Progress:
    """`heartbeat.json` as the training wrote it; what it did not say is None."""

    step: Optional[int] = None
    epoch: Optional[int] = None
    loss: Optional[float] = None
    rate: Optional[float] = None
    phase: Optional[str] = None


@dataclass
class Spec:
    """`spec.json`: one launch, written once. `command` is bash text. Secrets' values never stand here, only their names."""

    run: str
    project: str
    project_id: str
    command: str
    workdir: str
    resume_command: Optional[str] = None
    env: Dict[str, str] = field(default_factory=dict)
    secret_names: List[str] = field(default_factory=list)
    gpus: Optional[List[int]] = None
    backend: str = "auto"
    min_free_bytes: int = DEFAULT_MIN_FREE_BYTES
    log_limit_bytes: int = DEFAULT_LOG_LIMIT_BYTES
    conda_env: Optional[str] = None
    activate: Optional[str] = None
    setup: Optional[str] = None
    links: Dict[str, str] = field(default_factory=dict)
    outputs: List[str] = field(default_factory=list)
    network_turbo: bool = False
    screen_escape: Optional[str] = None
    #: sha256 over the sorted manifest of the code; None with --no-sync.
    code_digest: Optional[str] = None
    git_commit: Optional[str] = None
    git_dirty: Optional[bool] = None
    host: Optional[str] = None
    cloudrun_version: Optional[str] = None
    launched_at: Optional[str] = None
    #: The agent that the run keeps (short hash) and the Python it runs under.
    agent: Optional[str] = None
    agent_python: Optional[str] = None
    #: Made up by the laptop for one `cloudrun launch`: a request that comes again after a lost connection is known by it.
    launch_id: str = ""
    #: What the session's own lines are said in: "en", "zh_CN".
    language: str = "en"
    schema: int = 1

    #: What does not make two launches different.
    INCIDENTAL = ("git_commit", "git_dirty", "host", "cloudrun_version", "launched_at", "agent", "agent_python", "launch_id",
                  "language", "schema")
    #: Fields that people know by another name.
    SET_AS = {"code_digest": "code", "secret_names": "secrets", "min_free_bytes": "min_free", "log_limit_bytes": "log_limit"}

    def differing(self, other: "Spec") -> List[str]:
        """Names of the fields in which the launches differ, as people set them; never values."""
        mine, theirs = encode(self), encode(other)
        fields_ = [key for key in mine if key not in self.INCIDENTAL and mine[key] != theirs.get(key)]
        return [self.SET_AS.get(key, key) for key in fields_]


# --------------------------------------------------------------------------------- runs, as the box answers


@dataclass
class RunInfo:
    """One run, reconciled by the agent with what is really alive. `state` may be "lost"; ages are the box's."""

    name: str
    project: str
    project_id: str
    state: str
    run_dir: str
    log: Optional[str] = None
    cause: Optional[str] = None
    phase: Optional[str] = None
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    attempt: int = 0
    launch: int = 0
    launched_at: Optional[str] = None
    ended_at: Optional[str] = None
    age_s: Optional[float] = None
    backend: Optional[str] = None
    session: Optional[str] = None
    progress: Optional[Progress] = None
    progress_age_s: Optional[float] = None
    gpus: Optional[List[int]] = None
    archived: bool = False


@dataclass
class Ref:
    """Which run is meant. `name` None: the project's newest live run, else its newest."""

    data_dir: Optional[str] = None
    name: Optional[str] = None
    project_id: Optional[str] = None


# ------------------------------------------------------------------------------------------ disks and GPUs


@dataclass
class DataDisk:
    """Where runs live. `source`: configured | known | mounted | home. Sizes from statvfs of the nearest existing ancestor."""

    path: str
    source: str
    mount: str
    free_bytes: int
    total_bytes: int
    free_inodes: Optional[int]
    total_inodes: Optional[int]
    #: Code of a warning of the catalogue (for example "data-disk-is-home"), or None.
    warning: Optional[str] = None


@dataclass
class SpaceTaken:
    """Something that takes space on a disk. Not `complete`: at least so much, the time for counting was over."""

    path: str
    size_bytes: int
    complete: bool = True


@dataclass
class Gpu:
    """One card. A cell that nvidia-smi could not tell is None, never 0."""

    index: Optional[int]
    name: Optional[str]
    utilization_percent: Optional[float] = None
    memory_used_bytes: Optional[int] = None
    memory_total_bytes: Optional[int] = None
    temperature_c: Optional[float] = None
    power_w: Optional[float] = None
    uuid: Optional[str] = None
    runs: List[str] = field(default_factory=list)


#: ok | not-installed | no-device | driver-mismatch | driver-unreachable | device-unknown | gpu-lost | timeout | error
GPU_STATES = (
    "ok", "not-installed", "no-device", "driver-mismatch", "driver-unreachable", "device-unknown",
    "gpu-lost", "timeout", "error",
)


@dataclass
class GpuReport:
    """What nvidia-smi said: the cards, and a state that tells a broken driver from a box without cards."""

    state: str
    gpus: List[Gpu] = field(default_factory=list)
    #: First line of what the program said, where the state is not ok.
    detail: Optional[str] = None
    #: True where compute processes were listed that are none of ours (in containers their pids are not ours to judge).
    foreign_processes: bool = False
    #: {"code", "params"}: why the cards' runs are not known (a data disk that does not answer); None where they are.
    runs_unknown: Optional[Dict[str, Any]] = None


@dataclass
class Check:
    """One line of the doctor. `found` and `hint` are codes with parameters; their words are made on the laptop."""

    name: str
    status: str  # ok | warning | failure
    found: str
    params: Dict[str, Any] = field(default_factory=dict)
    hint: Optional[str] = None


# ------------------------------------------------------------------------------------------------ launching


@dataclass
class BoxFacts:
    """What run.sh needs to know of the box; absolute paths."""

    home: str
    python: str
    agent_dir: str
    data_dir: str
    run_dir: str
    tree: str
    utf8_locale: Optional[str] = None
    #: Where the next launch's secrets would lie (0600).
    secret_file: Optional[str] = None


@dataclass
class PrepareRequest:
    """Preflight: looks at everything, changes nothing."""

    run: str
    project: str
    project_id: str
    data_dir: Optional[str] = None
    min_free_bytes: int = DEFAULT_MIN_FREE_BYTES
    gpus: Optional[List[int]] = None
    backend: str = "auto"
    install: bool = True
    fresh: bool = False


@dataclass
class Prepared:
    """The answer: facts, and what stands where the launch wants to go."""

    facts: BoxFacts
    data_disk: DataDisk
    #: Backend that will serve as things stand now; None: has to be installed first.
    backend: Optional[str]
    #: Program that the launch would install ("screen"), or None.
    will_install: Optional[str]
    gpu: GpuReport
    #: The run of that name that exists, reconciled, and the spec of its newest launch.
    existing: Optional[RunInfo] = None
    existing_spec: Optional[Spec] = None
    next_attempt: int = 1
    next_launch: int = 1


@dataclass
class FileEntry:
    """One entry of the code manifest. `path` is relative, "/"-separated. For a symlink `link` is its target, sha256 ''."""

    path: str
    mode: int
    size_bytes: int = 0
    sha256: str = ""
    link: Optional[str] = None


@dataclass
class CodeOffer:
    """Everything the tree is to hold. The answer says which contents no tree of this project holds yet."""

    run: str
    project: str
    project_id: str
    files: List[FileEntry] = field(default_factory=list)


@dataclass
class CodeWanted:
    """Contents to send, in this order, and the staging area they go to. `plain`: not compressed, for the box cannot undo it."""

    staging: str
    sha256: List[str] = field(default_factory=list)
    plain: bool = False


@dataclass
class LaunchRequest:
    """Starts the run: everything it needs in one request. `staging` None: --no-sync."""

    spec: Spec
    run_sh: str
    screenrc: str
    tmux_conf: str
    data_dir: Optional[str] = None
    staging: Optional[str] = None
    code_diff: Optional[str] = None
    secrets: Dict[str, str] = field(default_factory=dict)
    fresh: bool = False
    install: bool = True
    #: The launch number that run_sh was rendered for; another launch came between: AgentError("launch-again").
    launch: Optional[int] = None
    #: How long a command that writes nothing is watched before it counts as running.
    settle_s: float = DEFAULT_SETTLE_S


@dataclass
class Launched:
    """What `launch` came to. `outcome`: started | already-running | failed-at-once."""

    outcome: str
    run: RunInfo
    #: For failed-at-once: the last lines of the log.
    tail: Optional[str] = None
    #: Where --fresh put the old folder, or None.
    archived_to: Optional[str] = None
    #: True where the command lives and has written nothing yet: it may still be importing.
    silent: bool = False


# ---------------------------------------------------------------------------------------------- following


@dataclass
class FollowRequest:
    """Bytes of a run's log from (attempt, offset), or its last `tail_lines` lines; on and on with `follow`."""

    data_dir: Optional[str] = None
    name: Optional[str] = None
    project_id: Optional[str] = None
    attempt: Optional[int] = None
    offset: Optional[int] = None
    tail_lines: Optional[int] = None
    follow: bool = False
    #: Only this attempt; without it following crosses restarts.
    only_attempt: bool = False
    #: From the beginning of all that is there (where no offset is given), and a frame `now` where what was there when it was
    #: asked for has been sent.
    whole: bool = False


# ------------------------------------------------------------------------------------------ encoding


def encode(value: Any) -> Any:
    """The JSON value of a dataclass: fields by name, nested."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


_HINTS: Dict[type, Dict[str, Any]] = {}
#: By kind and field: types of values that stand as they are. Most do, and `ps` decodes many records.
_PLAIN: Dict[type, Dict[str, FrozenSet[type]]] = {}
_SCALARS = frozenset((str, int, float, bool, type(None)))


def _learn(kind: type) -> None:
    _HINTS[kind] = typing.get_type_hints(kind)
    _PLAIN[kind] = {name: _plain_types(hint) for name, hint in _HINTS[kind].items()}


def _plain_types(hint: Any) -> FrozenSet[type]:
    allowed = hint.__args__ if getattr(hint, "__origin__", None) is typing.Union else (hint,)
    return frozenset(arg for arg in allowed if isinstance(arg, type) and arg in _SCALARS)


def decode(kind: Type[T], value: Any, where: str = "$") -> T:
    """A dataclass from its JSON value. Unknown keys are ignored.

    Raises ValueError that names the field's path where a field is missing or of another type.
    """
    if not isinstance(value, dict):
        raise ValueError("%s: expected an object, got %s" % (where, type(value).__name__))
    if kind not in _HINTS:
        _learn(kind)
    hints, plain = _HINTS[kind], _PLAIN[kind]
    given = {}
    for f in fields(kind):  # type: ignore[arg-type]
        if f.name in value:
            if type(value[f.name]) in plain[f.name]:
                given[f.name] = value[f.name]
                continue
            given[f.name] = _decode_value(hints[f.name], value[f.name], "%s.%s" % (where, f.name))
        elif f.default is MISSING and f.default_factory is MISSING:
            raise ValueError("%s.%s: missing" % (where, f.name))
    return kind(**given)


def _decode_value(hint: Any, value: Any, where: str) -> Any:
    origin = getattr(hint, "__origin__", None)
    args: Tuple[Any, ...] = getattr(hint, "__args__", ())
    if hint is Any:
        return value
    if origin is typing.Union:
        if value is None:
            return None
        return _decode_value(next(arg for arg in args if arg is not type(None)), value, where)
    if origin is list:
        _expect(isinstance(value, list), "a list", value, where)
        return [_decode_value(args[0], item, "%s[%d]" % (where, i)) for i, item in enumerate(value)]
    if origin is dict:
        _expect(isinstance(value, dict), "an object", value, where)
        return {str(key): _decode_value(args[1], item, "%s.%s" % (where, key)) for key, item in value.items()}
    if isinstance(hint, type) and is_dataclass(hint):
        return decode(hint, value, where)
    if hint is float:
        _expect(isinstance(value, (int, float)) and not isinstance(value, bool), "a number", value, where)
        return float(value)
    if hint is int:
        _expect(isinstance(value, int) and not isinstance(value, bool), "an integer", value, where)
        return value
    _expect(isinstance(value, hint), "a %s" % hint.__name__, value, where)
    return value


def _expect(holds: bool, wanted: str, value: Any, where: str) -> None:
    if not holds:
        raise ValueError("%s: expected %s, got %s" % (where, wanted, type(value).__name__))


# --------------------------------------------------------------------------------------- lines and frames


def dump_line(message: Dict[str, Any]) -> bytes:
    """One message as one line: ASCII JSON, so that no locale and no terminal can break it."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def dump_frame(header: Dict[str, Any], payload: bytes = b"") -> bytes:
    """A frame: header line with the payload's length, then the payload."""
    return frame_header(header, payload) + payload


def frame_header(header: Dict[str, Any], payload: bytes) -> bytes:
    """The header line alone, for who writes a large payload behind it without a copy."""
    return dump_line(dict(header, length=len(payload)))


MAX_HEADER_BYTES = 1 << 20
MAX_PAYLOAD_BYTES = 1 << 24


def read_frame(stream: BinaryIO) -> Optional[Tuple[Dict[str, Any], bytes]]:
    """The next frame of a buffered stream; None at its end. Raises ValueError for what is no frame, EOFError inside one."""
    line = stream.readline(MAX_HEADER_BYTES)
    if not line:
        return None
    if not line.endswith(b"\n"):
        raise EOFError("stream ended inside a frame's header")
    header = json.loads(line.decode("ascii"))
    length = header.get("length", 0) if isinstance(header, dict) else None
    if not isinstance(length, int) or not 0 <= length <= MAX_PAYLOAD_BYTES:
        raise ValueError("not a frame: %r" % line[:80])
    payload = stream.read(length) if length else b""
    if len(payload) != length:
        raise EOFError("stream ended inside a frame's payload")
    return header, payload


def hello_line(nonce: str, hello: Dict[str, Any]) -> bytes:
    """The first words. A newline before them: the shell's prompt or banner may be glued to ours."""
    return b"\nCLOUDRUN/%d %s " % (VERSION, nonce.encode("ascii")) + dump_line(hello)


def find_hello(data: bytes, nonce: str) -> Optional[Tuple[Dict[str, Any], bytes]]:
    """The hello in what has come so far and the bytes after it; None while it is not whole.

    Raises ValueError when a hello of another version is there.
    """
    match = re.search(rb"CLOUDRUN/(\d+) %s (\{[^\n]*)\n" % re.escape(nonce.encode("ascii")), data)
    if not match:
        return None
    if int(match.group(1)) != VERSION:
        raise ValueError("protocol %s" % match.group(1).decode("ascii"))
    return json.loads(match.group(2).decode("ascii")), data[match.end():]


def wire_streams() -> Tuple[BinaryIO, BinaryIO]:
    """stdin and stdout as buffered bytes. Only a process entry point of the agent calls this."""
    return sys.stdin.buffer, sys.stdout.buffer
