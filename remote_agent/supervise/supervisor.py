"""The supervisor: lives in the session, owns the attempt and its process tree, and keeps the record of both."""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import time
from dataclasses import dataclass
from typing import Iterator, List, Optional, Tuple

from remote_agent import atomic, clock, layout, processes, tree
from remote_agent.protocol import AgentError, Attempt, Desired, ProcessRef, Spec, State
from remote_agent.supervise import guard, oom, transitions, verdict, wakeup
from remote_agent.supervise.attempt import Outcome, Start, Step
from remote_agent.supervise.journal import Journal
from remote_agent.supervise.record import Record
from remote_agent.supervise.setup import Setup
from remote_agent.supervise.terminal import Terminal
from remote_agent.supervise.verdict import Verdict

EXIT_REFUSED = 3
#: A supervisor before us may be in its last act.
LOCK_WINDOW_S = 5.0
QUIET_S = 1.0
LEFTOVERS_GRACE_S = 3.0
#: How long run.sh may take to become the tee when it is to end at once.
COMMAND_WINDOW_S = 3.0
#: How long the last word is tried when somebody is waiting for us to go; else for as long as it takes.
LAST_WORD_S = 20.0
_FIRST_LOOKS_S = (0.02, 0.02, 0.05, 0.05, 0.1, 0.1, 0.25, 0.25)


@dataclass
class Post:
    """What a supervisor has to do with: one run, one launch of it, in one session."""

    run: layout.Run
    launch: int
    backend: str
    spec: Spec
    terminal: Terminal


class Supervisor:
    """One attempt, from "pending" to its end."""

    def __init__(self, post: Post, record: Record, journal: Journal, signals: wakeup.Wakeup) -> None:
        self._post = post
        self._run = post.run
        self._record = record
        self._journal = journal
        self._signals = signals
        self._state = record.state
        self._desired_seen: Optional[Tuple[int, int, int]] = None
        self._stop: Optional[Desired] = None
        self._ending: Optional[tree.Ending] = None

    def supervise(self) -> None:
        """Takes the run over, sees the attempt through, and says how it ended. The session still stands afterwards."""
        self._take_over()
        outcome: Optional[Outcome] = None
        try:
            found, outcome = self._live()
        except OSError as error:
            self._journal.say("attempt-failed", reason=str(error))
            found = Verdict("failed", "setup-failed" if self._state.phase == "setup" else "never-started")
        self._say_end(found, outcome)

    # ------------------------------------------------------------------------------------------ the attempt

    def _take_over(self) -> None:
        self._state.supervisor = processes.ref(os.getpid())
        self._state.box_id = processes.box_id()
        self._journal.say("supervisor-started", pid=os.getpid(), launch=self._post.launch, attempt=self._state.attempt,
                          subreaper=wakeup.become_subreaper())
        self._record.publish()
        os.makedirs(self._run.logs, exist_ok=True)
        show = self._post.terminal.show
        show("[cloudrun] %s, attempt %d; log: %s" % (self._run.name, self._state.attempt, self._log))
        show("[cloudrun] leave with %s; the run goes on" % _leave_keys(self._post))

    def _live(self) -> Tuple[Verdict, Optional[Outcome]]:
        self._heed()
        if self._ordered is not None:
            return self._stopped(), None
        if self._post.spec.setup:
            ended = self._set_up()
            if ended is not None:
                return ended
        return self._command()

    def _set_up(self) -> Optional[Tuple[Verdict, Optional[Outcome]]]:
        """None when the set-up is done; else how it ended."""
        setup = Setup(self._post.spec, layout.Home.of_user())
        if setup.done():
            self._journal.say("setup-known")
            return None
        self._enter("setup")
        try:
            if not self._await_lock(setup):
                return self._stopped(), None
            if setup.done():
                return None
            outcome = self._see_through("setup", self._run.setup_exit_record(self._state.attempt))
            if self._ordered is not None:
                return self._stopped(), outcome
            if outcome.exit_code != 0:
                return verdict.of_setup(outcome, self._tail()), outcome
            self._remember(setup)
        finally:
            setup.release()
        return None

    def _await_lock(self, setup: Setup) -> bool:
        """False when the run is to end before it is our turn."""
        said = False
        while not setup.try_lock():
            if not said:
                self._log_line("waiting for another run's setup")
                self._journal.say("setup-waits")
                said = True
            self._pause(QUIET_S)
            if self._ordered is not None:
                return False
        return True

    def _remember(self, setup: Setup) -> None:
        try:
            setup.succeeded(self._run.name, self._state.attempt)
        except OSError as error:
            self._journal.say("setup-not-remembered", reason=error.strerror or str(error))
        self._journal.say("setup-done")

    def _command(self) -> Tuple[Verdict, Optional[Outcome]]:
        self._enter("command")
        before = oom.kills()
        outcome = self._see_through("command", self._run.exit_record(self._state.attempt))
        if self._ordered is not None and self._state.state == "stopping":
            return self._stopped(), outcome
        after = oom.kills()
        rose = before is not None and after is not None and after > before
        if outcome.exit_code and not self._began:
            return Verdict("failed", "never-started"), outcome
        return verdict.of_command(outcome, self._tail(), rose), outcome

    def _enter(self, phase: str) -> None:
        """The attempt is on its way: "running", with what it is busy with."""
        if self._state.state == "pending":
            transitions.step(self._state, "running")
            self._state.started_at = clock.now_utc()
            mine = Attempt(self._state.attempt, self._post.launch, started_at=self._state.started_at)
            self._state.attempts = [a for a in self._state.attempts if a.number != mine.number] + [mine]
        self._state.phase = phase

    def _see_through(self, what: str, exit_record: str) -> Outcome:
        """Starts run.sh for the set-up or the command; returns when that has ended and nothing of it is left."""
        self._signals.statuses.clear()
        step = Step(self._start(what, exit_record), self._post.terminal)
        self._journal.say("started", step=what, pid=step.pid)
        self._record.publish()
        try:
            outcome = self._watch(step)
            self._began = step.began
            if not step.began:
                self._log_line(step.complaint().decode("utf-8", "replace"))
        finally:
            step.close()
            self._post.terminal.restore()
        self._state.log_bytes_lost = max(self._state.log_bytes_lost, outcome.log_bytes_lost)
        self._journal.say("ended", step=what, exit_code=outcome.exit_code, signal=outcome.signal)
        return outcome

    def _watch(self, step: Step) -> Outcome:
        alone = False
        for quiet_s in _looks():
            if step.look() and self._state.phase == "command":
                self._state.command = step.command
                self._record.publish()
            outcome = step.outcome(self._signals.statuses)
            if outcome is not None:
                self._end_tree(step, [], LEFTOVERS_GRACE_S)
                return outcome
            if self._ordered is not None:
                return self._end_attempt(step)
            if step.pid in self._signals.statuses and not alone:
                alone = True
                self._journal.say("tee-died", status=self._signals.statuses[step.pid])
            self._pause(quiet_s)
        raise AssertionError("the looks never end")

    def _end_attempt(self, step: Step) -> Outcome:
        """The orderly stop: said first, then asked, waited for, killed, verified."""
        transitions.step(self._state, "stopping", self._ordered)
        self._record.publish()
        self._journal.say("stopping", cause=self._ordered, grace_s=self._grace_s, signal=self._signals.asked_by)
        self._await_command(step)
        self._end_tree(step, [step.command or step.tee], self._grace_s)
        self._signals.reap()
        return step.outcome(self._signals.statuses) or Outcome(None, None, clock.now_utc())

    def _await_command(self, step: Step) -> None:
        """While run.sh is still on its way to the command nobody there would hear us: the tee is deaf on purpose."""
        deadline = time.monotonic() + COMMAND_WINDOW_S
        while step.command is None and not step.look() and time.monotonic() < deadline:
            if step.outcome(self._signals.statuses) is not None:
                return
            self._pause(0.02)

    def _end_tree(self, step: Step, roots: List[Optional[ProcessRef]], grace_s: float) -> None:
        alive = [ref for ref in roots if ref is not None]
        self._ending = tree.Ending(
            self._run.path, alive, grace_s, reaper=os.getpid(), pause=self._pause,
            last=[step.tee] if step.tee is not None and step.tee not in alive else [])
        ended = tree.end(self._ending)
        self._ending = None
        if ended.asked or ended.killed or ended.left:
            self._journal.say("tree-ended", asked=len(ended.asked), killed=ended.killed,
                              left=[ref.pid for ref in ended.left])

    def _start(self, what: str, exit_record: str) -> Start:
        env = dict(os.environ)
        env.update({
            "CLOUDRUN_SUPERVISED": "1", "CLOUDRUN_STEP": what, "CLOUDRUN_ATTEMPT": str(self._state.attempt),
            processes.MARK: self._run.path, "CLOUDRUN_LOG": self._log, "CLOUDRUN_EXIT_RECORD": exit_record,
        })
        return Start(self._run.launch(self._post.launch).run_sh, exit_record, env)

    # -------------------------------------------------------------------------------- what is wanted of us

    @property
    def _ordered(self) -> Optional[str]:
        """Why the run is to end, as a cause; None while it is not. The user's word counts before a signal."""
        if self._stop is not None:
            return "user"
        return "session-killed" if self._signals.asked_by is not None else None

    @property
    def _grace_s(self) -> float:
        return self._stop.grace_s if self._stop is not None else Desired("stop").grace_s

    def _stopped(self) -> Verdict:
        return Verdict("stopped", "user") if self._stop is not None else Verdict("failed", self._ordered)

    def _pause(self, timeout_s: float) -> None:
        """Sleeps until the time is over or something happened, and heeds what did."""
        self._signals.wait(timeout_s)
        self._record.tend()
        self._heed()

    def _heed(self) -> None:
        """Reads desired.json where it changed; a later stop may have another grace."""
        try:
            found = os.stat(self._run.desired)
        except OSError:
            return
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        if seen == self._desired_seen:
            return
        self._desired_seen = seen
        desired = layout.read_record(Desired, self._run.desired)
        if desired is not None and desired.want == "stop":
            self._stop = desired
            if self._ending is not None and self._state.state == "stopping":
                self._ending.grace_s = desired.grace_s

    # ------------------------------------------------------------------------------------------ last words

    def _say_end(self, found: Verdict, outcome: Optional[Outcome]) -> None:
        state = self._state
        transitions.step(state, found.state, found.cause)
        state.ended_at = outcome.ended_at if outcome is not None else clock.now_utc()
        if outcome is not None:
            state.exit_code, state.signal = outcome.exit_code, outcome.signal
        for attempt in state.attempts:
            if attempt.number == state.attempt:
                attempt.ended_at, attempt.cause = state.ended_at, state.cause
                attempt.exit_code, attempt.signal = state.exit_code, state.signal
        self._point_at_log()
        self._record.publish()
        self._post.terminal.show("[cloudrun] %s: %s" % (self._run.name, _in_words(state)))
        self._await_written()
        self._journal.say("run-ended", state=state.state, cause=state.cause, exit_code=state.exit_code,
                          signal=state.signal)

    def _await_written(self) -> None:
        """We are the only one who knows how it ended: a full disk is waited for, unless somebody waits for us."""
        if not self._record.written:
            self._post.terminal.show("[cloudrun] the data disk takes no file now; waiting to write down how it ended")
        deadline: Optional[float] = None
        while not self._record.written:
            if self._ordered is not None:
                deadline = deadline or time.monotonic() + LAST_WORD_S
                if time.monotonic() > deadline:
                    return
            self._pause(QUIET_S)

    def _point_at_log(self) -> None:
        parts = self._run.log_parts(self._state.attempt)
        if parts:
            try:
                atomic.replace_link(os.path.basename(parts[-1].path), self._run.current_log)
            except OSError as error:
                self._journal.say("link-not-written", reason=error.strerror or str(error))

    @property
    def _log(self) -> str:
        return self._run.log(self._state.attempt)

    def _log_line(self, text: str) -> None:
        """A line of our own in the attempt's log, while no tee is writing there."""
        parts = self._run.log_parts(self._state.attempt)
        try:
            fd = os.open(parts[-1].path if parts else self._log,
                         os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            return
        try:
            os.write(fd, b"".join(b"[cloudrun] " + line + b"\n" for line in text.encode("utf-8").splitlines()))
        except OSError:
            pass
        finally:
            os.close(fd)

    def _tail(self) -> str:
        parts = self._run.log_parts(self._state.attempt)
        try:
            with open(parts[-1].path, "rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, size - verdict.TAIL_BYTES))
                return stream.read(verdict.TAIL_BYTES).decode("utf-8", "replace")
        except (OSError, IndexError):
            return ""


def main(arguments: List[str]) -> int:
    """`supervise RUN_DIR LAUNCH --backend NAME`. 3: not ours to run (another supervisor, no pending launch)."""
    options = _parse(arguments)
    run = layout.Run(os.path.abspath(options.run_dir))
    terminal = Terminal() if options.backend != "detached" else Terminal(-1)
    guard.stand_before(terminal)
    os.chdir("/")
    signals = wakeup.Wakeup()
    lock = _lock(run, signals)
    state = layout.read_record(State, run.state)
    spec = layout.read_record(Spec, run.launch(options.launch).spec)
    if lock is None or state is None or spec is None or state.state != "pending" or state.launch != options.launch:
        sys.stderr.write("cloudrun: no launch of %s waits for a supervisor\n" % run.path)
        return EXIT_REFUSED
    journal = Journal(run.events)
    supervisor = Supervisor(Post(run, options.launch, options.backend, spec, terminal),
                            Record(run, state, journal), journal, signals)
    supervisor.supervise()
    signals.deafen()
    _end_session(options.backend, run, journal)
    return 0


def _parse(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="supervise", allow_abbrev=False)
    parser.add_argument("run_dir")
    parser.add_argument("launch", type=int)
    parser.add_argument("--backend", required=True, choices=("screen", "tmux", "detached"))
    return parser.parse_args(arguments)


def _lock(run: layout.Run, signals: wakeup.Wakeup) -> Optional[int]:
    """The lock that makes us the only supervisor of the run, ours until we end; None where there is another.

    A record lock: no child inherits it. Nothing else in this process opens the file, or closing it would let go.
    """
    try:
        fd = os.open(run.supervisor_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        return None
    deadline = time.monotonic() + LOCK_WINDOW_S
    while True:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except OSError:
            if time.monotonic() > deadline:
                os.close(fd)
                return None
        signals.wait(0.1)


def _end_session(backend: str, run: layout.Run, journal: Journal) -> None:
    """The windows go with the run. What they said is in the logs."""
    try:
        from remote_agent import sessions

        sessions.backend(backend).end(run.name)
    except AgentError as error:
        journal.say("session-not-ended", code=error.code, params=error.params)
    except Exception as error:  # the run is over and written down: nothing here may turn that into a crash
        journal.say("session-not-ended", code=type(error).__name__, params={"reason": str(error)})


def _looks() -> Iterator[float]:
    """Often at first, to see the command begin; then rarely."""
    for quiet_s in _FIRST_LOOKS_S:
        yield quiet_s
    while True:
        yield QUIET_S


def _leave_keys(post: Post) -> str:
    if post.backend == "detached":
        return "Ctrl-C"
    escape = post.spec.screen_escape
    letter = escape[1].lower() if escape else {"screen": "a", "tmux": "b"}[post.backend]
    return "Ctrl-%s d" % letter


def _in_words(state: State) -> str:
    words = state.state if state.cause is None else "%s (%s)" % (state.state, state.cause)
    if state.signal is not None:
        return "%s, signal %d" % (words, state.signal)
    return words if state.exit_code is None else "%s, exit code %d" % (words, state.exit_code)
