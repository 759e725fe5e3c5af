"""Mode `follow`: a run's log as frames on stdout, from an offset or from its last lines, for as long as it is wanted.

It only reads. Events are frames in the same stream, so that their place in it is exact:
`run`, `data`, `gap` (bytes that rotation or a truncation took), `attempt`, `now`, `alive`, `end`, `error`.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, List, Optional, Tuple

from remote_agent import layout, protocol, runs
from remote_agent.hello import option, say_hello
from remote_agent.logreader import LogReader, Position, end_of, start_of_tail
from remote_agent.protocol import LIVE_STATES, AgentError, FollowRequest, RunInfo, State
from remote_agent.records import dataclass
from remote_agent.words import speak

if TYPE_CHECKING:
    from remote_agent.watch import Watch

REQUEST_DEADLINE_S = 60.0
ALIVE_EVERY_S = 5.0
#: How often the run's state is looked at when its file says nothing new: a killed supervisor writes no last word.
LOOK_EVERY_S = 2.0
#: Bytes that came while a frame was sent go into the next one together.
GATHER_S = 0.01
CHUNK_BYTES = 128 * 1024


def main(arguments: List[str]) -> int:
    """`follow --nonce N --agent SHA12 [--ask REQUEST] [--lang LANGUAGE]`: hello, one request (else a line), frames until the
    run's end or the reader's."""
    speak(option(arguments, "--lang"))
    stream, out = protocol.wire_streams()
    try:
        say_hello(out, option(arguments, "--nonce"), option(arguments, "--agent"))
        _serve(option(arguments, "--ask").encode(), stream, out)
    except (BrokenPipeError, ConnectionResetError):
        # The laptop is gone. What is left in the buffer must not be complained about at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
    return 0


def _serve(asked: bytes, stream: BinaryIO, out: BinaryIO) -> None:
    """Everything after the hello. What goes wrong is the last frame; only a reader that is gone is raised."""
    try:
        request = _request(asked, stream)
        if request is not None:
            Following(request, stream, out).run()
    except AgentError as error:
        _send(out, {"kind": "error", "code": error.code, "params": error.params})
    except (BrokenPipeError, ConnectionResetError):
        raise
    except OSError as error:
        _send(out, {"kind": "error", "code": "box-os-error", "params": {
            "errno": error.errno, "reason": error.strerror or str(error), "path": str(error.filename or "")}})


class Following:
    """One request at work: where it stands in the log, and what it has told so far."""

    def __init__(self, request: FollowRequest, stream: BinaryIO, out: BinaryIO) -> None:
        self._request = request
        self._stream = stream
        self._out = out
        info = runs.resolve(_data_dir(request.data_dir), request.name, request.project_id)
        self._run = layout.Run(info.run_dir)
        self._info = info
        self._attempt = request.attempt or info.attempt or 1
        if request.only_attempt and self._attempt > max([info.attempt, *self._run.logged_attempts()]):
            raise AgentError("no-such-attempt", run=info.name, attempt=self._attempt, newest=info.attempt)
        last = self._attempt
        if request.whole and not request.only_attempt:
            last = max(self._run.logged_attempts(), default=last)
        #: Where a request that does not follow ends: what is written from now on is not waited for.
        self._enough = Position(last, end_of(self._run, last))
        self._tell_now = request.whole
        self._reader = LogReader(self._run, self._start())
        self._state_stamp: Optional[Tuple[int, int, int]] = None
        self._looked_at = self._spoke_at = time.monotonic()

    def run(self) -> None:
        """Sends frames until the run has ended and all its bytes are out, or the laptop is gone."""
        from remote_agent.watch import Watch
        at = self._reader.position
        self._send({"kind": "run", "run": protocol.encode(self._info), "attempt": at.attempt, "offset": at.offset})
        with Watch([self._run.logs, self._run.path]) as watch:
            here = True
            while here:
                over = self._is_over()  # asked before reading: what was written before the end is read after it
                moved = self._pump() or self._cross()
                watch.saw(moved)
                self._say_now()
                if over and not moved:
                    self._end()
                    return
                here = moved or self._wait(watch)

    def _start(self) -> Position:
        request = self._request
        if request.tail_lines is not None:
            return start_of_tail(self._run, self._enough, request.tail_lines, one=request.only_attempt)
        if request.whole and request.offset is None and not request.only_attempt:
            return Position(min([self._attempt, *self._run.logged_attempts()]), 0)
        return Position(self._attempt, request.offset or 0)

    # --------------------------------------------------------------------------------------- reading

    def _pump(self) -> bool:
        """Sends what the attempt's log holds now, one frame; whether there was anything."""
        at = self._reader.position
        wanted_bytes = self._wanted(at)
        if wanted_bytes <= 0:
            return False
        piece = self._reader.read(wanted_bytes)
        if piece is None:
            return False
        if piece.gap_to is not None:
            self._send({"kind": "gap", "attempt": at.attempt, "offset": at.offset, "to": piece.gap_to})
            return True
        self._send({"kind": "data", "attempt": at.attempt, "offset": at.offset}, piece.data)
        if len(piece.data) < CHUNK_BYTES and self._request.follow:
            time.sleep(GATHER_S)
        return True

    def _wanted(self, at: Position) -> int:
        """How many bytes the next frame may hold."""
        if self._request.follow or at.attempt < self._enough.attempt:
            return CHUNK_BYTES
        return min(CHUNK_BYTES, self._enough.offset - at.offset) if at.attempt == self._enough.attempt else 0

    def _cross(self) -> bool:
        """Goes on to the next attempt where there is one; the one before it has no writer any more."""
        following = None if self._request.only_attempt else self._next_attempt()
        if following is None or (not self._request.follow and following > self._enough.attempt):
            return False
        if self._pump():  # what came between the last read and the sight of the next attempt
            return True
        self._reader.move(Position(following, 0))
        self._send({"kind": "attempt", "attempt": following})
        return True

    def _next_attempt(self) -> Optional[int]:
        here = self._reader.position.attempt
        later = [number for number in self._run.logged_attempts() if number > here]
        return min(later) if later else None

    # ------------------------------------------------------------------------------------- the run's end

    def _is_over(self) -> bool:
        """Whether no byte can come any more that this request wants."""
        if not self._request.follow:
            return True
        self._look()
        if self._request.only_attempt and self._info.attempt > self._reader.position.attempt:
            return True
        # A training that outlived its supervisor still writes; how it ends will be in the exit record.
        outlived = self._info.state == "lost" and self._info.cause == "supervisor-killed"
        return self._info.state not in LIVE_STATES and not outlived

    def _look(self) -> None:
        """Looks at the run where its state was written anew or the last look is old. Raises AgentError when it is gone."""
        stamp, now = _stamp(self._run.state), time.monotonic()
        if stamp == self._state_stamp and now - self._looked_at < LOOK_EVERY_S:
            return
        self._state_stamp, self._looked_at = stamp, now
        info = runs.info(self._run)
        if info is None:
            raise AgentError("no-such-run", name=self._info.name, near=[])
        self._info = info

    def _end(self) -> None:
        ending = _Ending.of(self._run, self._info, self._reader.position.attempt, self._request.only_attempt)
        self._send({"kind": "end", "state": ending.state, "cause": ending.cause, "exit_code": ending.exit_code,
                    "signal": ending.signal, "attempt": ending.attempt})

    def _say_now(self) -> None:
        """Once, when what was there at the beginning is out."""
        at = self._reader.position
        if self._tell_now and (at.attempt, at.offset) >= (self._enough.attempt, self._enough.offset):
            self._tell_now = False
            self._send({"kind": "now"})

    # ------------------------------------------------------------------------------------------- waiting

    def _wait(self, watch: Watch) -> bool:
        """Until something may have changed; says `alive` when it is time. False when the laptop is gone."""
        now = time.monotonic()
        if now - self._spoke_at >= ALIVE_EVERY_S:
            self._send({"kind": "alive"})
            now = time.monotonic()
        until_s = min(ALIVE_EVERY_S - (now - self._spoke_at), LOOK_EVERY_S)
        if self._stream.fileno() in watch.wait(max(0.0, until_s), [self._stream.fileno()]):
            return bool(os.read(self._stream.fileno(), 4096))
        return True

    def _send(self, header: Dict[str, Any], payload: bytes = b"") -> None:
        _send(self._out, header, payload)
        self._spoke_at = time.monotonic()


@dataclass(frozen=True)
class _Ending:
    """How the run, or the one attempt that was asked for, ended."""

    state: str
    cause: Optional[str]
    exit_code: Optional[int]
    signal: Optional[int]
    attempt: int

    @classmethod
    def of(cls, run: layout.Run, info: RunInfo, attempt: int, one: bool) -> "_Ending":
        if not one or attempt >= info.attempt:
            return cls(info.state, info.cause, info.exit_code, info.signal, attempt)
        state = layout.read_record(State, run.state)
        told = [known for known in (state.attempts if state else []) if known.number == attempt]
        ending = runs.read_ending(run, attempt) or {}
        code, signal = ending.get("exit_code"), ending.get("signal")
        if told:
            code, signal = told[0].exit_code, told[0].signal
        return cls("succeeded" if code == 0 else "failed", told[0].cause if told else None, code, signal, attempt)


def _send(out: BinaryIO, header: Dict[str, Any], payload: bytes = b"") -> None:
    out.write(protocol.frame_header(header, payload))
    out.write(payload)
    out.flush()


def _request(line: bytes, stream: BinaryIO) -> Optional[FollowRequest]:
    """The request that came with the start, or else as a line; None where the laptop went away before it. Raises AgentError."""
    deadline = time.monotonic() + REQUEST_DEADLINE_S
    asked = bool(line)
    # Unbuffered: what a buffer holds, select does not see.
    while not asked and not line.endswith(b"\n"):
        ready = select.select([stream.fileno()], [], [], max(0.0, deadline - time.monotonic()))[0]
        data = os.read(stream.fileno(), 65536) if ready else b""
        if not data:
            return None
        line += data
    try:
        return protocol.decode(FollowRequest, json.loads(line.decode("utf-8")))
    except ValueError as error:
        raise AgentError("bad-request", detail=str(error)) from error


def _data_dir(configured: Optional[str]) -> str:
    from remote_agent import disk
    return os.path.realpath(disk.data_disk(configured).path)


def _stamp(path: str) -> Optional[Tuple[int, int, int]]:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size)
