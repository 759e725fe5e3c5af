"""A run's life, one attempt of it: from "pending" through set-up and command to an end that is written down."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional, Tuple

from remote_agent import clock, layout, processes, verdict
from remote_agent.protocol import Attempt, Spec, State
from remote_agent.supervise import oom, transitions, wakeup
from remote_agent.supervise.attempt import Start, Step
from remote_agent.supervise.attemptlog import AttemptLog
from remote_agent.supervise.journal import Journal
from remote_agent.supervise.orders import Orders
from remote_agent.supervise.record import Record
from remote_agent.supervise.terminal import Terminal
from remote_agent.supervise.watch import QUIET_S, Surroundings, Watch
from remote_agent.verdict import Outcome, Verdict
from remote_agent.words import N_, _

if TYPE_CHECKING:
    from remote_agent.supervise.setup import Setup

#: How long the last word is tried when somebody is waiting for us to go; else for as long as it takes.
LAST_WORD_S = 20.0

#: How a run ends, for people.
_STATES = {"succeeded": N_("succeeded"), "failed": N_("failed"), "stopped": N_("stopped")}

Ending = Tuple[Verdict, Optional[Outcome]]


@dataclass
class Post:
    """What a supervisor has to do with: one run, one launch of it, in one session."""

    run: layout.Run
    launch: int
    backend: str
    spec: Spec
    terminal: Terminal


class Life:
    """Sees one attempt through. Only `supervise` is called from outside."""

    def __init__(self, post: Post, record: Record, journal: Journal, signals: wakeup.Wakeup) -> None:
        self._post = post
        self._run = post.run
        self._record = record
        self._state = record.state
        self._journal = journal
        self._signals = signals
        self._orders = Orders(post.run, signals)
        self._log = AttemptLog(post.run, record.state.attempt)
        self._around = Surroundings(post.run, journal, signals, self._orders, self._pause,
                                    began=self._say_command, stopping=self._say_stopping)

    def supervise(self) -> None:
        """Takes the run over, sees the attempt through, and says how it ended. The session still stands afterwards."""
        self._take_over()
        outcome: Optional[Outcome] = None
        try:
            found, outcome = self._live()
        except OSError as error:
            self._journal.say("attempt-failed", reason=str(error))
            self._log.say(str(error))
            found = Verdict("failed", "setup-failed" if self._state.phase == "setup" else "never-started")
        self._say_end(found, outcome)

    def _take_over(self) -> None:
        self._state.supervisor = processes.ref(os.getpid())
        self._state.box_id = processes.box_id()
        self._journal.say("supervisor-started", pid=os.getpid(), launch=self._post.launch, attempt=self._state.attempt,
                          subreaper=wakeup.become_subreaper())
        self._record.publish()
        show = self._post.terminal.show
        show("[cloudrun] " + _("{run}, attempt {number}; log: {log}").format(
            run=self._run.name, number=self._state.attempt, log=self._log.path))
        show("[cloudrun] " + _("leave with {keys}; the run goes on").format(keys=_leave_keys(self._post)))

    def _live(self) -> Ending:
        os.makedirs(self._run.logs, exist_ok=True)
        self._orders.heed()
        if self._orders.to_end is not None:
            return self._stopped(), None
        if self._post.spec.setup:
            ended = self._set_up()
            if ended is not None:
                return ended
        return self._command()

    # ------------------------------------------------------------------------------------------ the set-up

    def _set_up(self) -> Optional[Ending]:
        """None when the set-up is done; else how it ended."""
        from remote_agent.supervise.setup import Setup  # not kept in memory for days by runs that have none

        setup = Setup(self._post.spec, layout.Home.of_user())
        if setup.done():
            self._journal.say("setup-known")
            return None
        self._enter("setup")
        self._record.publish()
        try:
            if not self._await_lock(setup):
                return self._stopped(), None
            if setup.done():
                return None
            outcome, _ = self._see_through("setup", self._run.setup_exit_record(self._state.attempt))
            if self._state.state == "stopping":
                return self._stopped(), outcome
            if outcome.exit_code != 0:
                return verdict.of_setup(outcome, self._log.tail()), outcome
            self._remember(setup)
        finally:
            setup.release()
        return None

    def _await_lock(self, setup: "Setup") -> bool:
        """False when the run is to end before it is our turn."""
        said = False
        while not setup.try_lock():
            if not said:
                self._log.say(_("waiting for another run's setup"))
                self._journal.say("setup-waits")
                said = True
            self._pause(QUIET_S)
            if self._orders.to_end is not None:
                return False
        return True

    def _remember(self, setup: "Setup") -> None:
        try:
            setup.succeeded(self._run.name, self._state.attempt)
        except OSError as error:
            self._journal.say("setup-not-remembered", reason=error.strerror or str(error))
        self._journal.say("setup-done")

    # ----------------------------------------------------------------------------------------- the command

    def _command(self) -> Ending:
        if self._orders.to_end is not None:  # it came while the set-up ended by itself
            return self._stopped(), None
        self._enter("command")
        before = oom.kills()
        outcome, ran = self._see_through("command", self._run.exit_record(self._state.attempt))
        if self._state.state == "stopping":
            return self._stopped(), outcome
        if outcome.exit_code and not ran:
            return Verdict("failed", "never-started"), outcome
        after = oom.kills()
        rose = before is not None and after is not None and after > before
        return verdict.of_command(outcome, self._log.tail(), rose), outcome

    def _enter(self, phase: str) -> None:
        """The attempt is on its way: "running", with what it is busy with."""
        if self._state.state == "pending":
            transitions.step(self._state, "running")
            self._state.started_at = clock.now_utc()
            mine = Attempt(self._state.attempt, self._post.launch, started_at=self._state.started_at)
            self._state.attempts = [a for a in self._state.attempts if a.number != mine.number] + [mine]
        self._state.phase = phase

    def _see_through(self, what: str, exit_record: str) -> Tuple[Outcome, bool]:
        """Starts run.sh for the set-up or the command; gives how that ended, and whether it came to run at all."""
        self._signals.statuses.clear()
        step = Step(self._start(what, exit_record), self._post.terminal)
        self._journal.say("started", step=what, pid=step.pid)
        self._record.publish()
        try:
            outcome = Watch(step, self._around).see_through()
            self._journal.say("ended", step=what, exit_code=outcome.exit_code, signal=outcome.signal)
            if not step.began:
                self._log.say(step.complaint().decode("utf-8", "replace"))
            return outcome, step.began
        finally:
            step.close()
            self._post.terminal.restore()

    def _start(self, what: str, exit_record: str) -> Start:
        env = dict(os.environ)
        env.update({
            "CLOUDRUN_SUPERVISED": "1", "CLOUDRUN_STEP": what, "CLOUDRUN_ATTEMPT": str(self._state.attempt),
            processes.MARK: self._run.path, "CLOUDRUN_LOG": self._log.path, "CLOUDRUN_EXIT_RECORD": exit_record,
        })
        return Start(self._run.launch(self._post.launch).run_sh, exit_record, env)

    def _say_command(self, step: Step) -> None:
        if self._state.phase == "command":
            self._state.command = step.command
            self._record.publish()

    def _pause(self, timeout_s: float) -> None:
        """Sleeps until the time is over or something happened, and heeds what did."""
        self._signals.wait(timeout_s)
        self._record.tend()
        self._orders.heed()

    # ------------------------------------------------------------------------------------------ last words

    def _say_stopping(self) -> None:
        transitions.step(self._state, "stopping", self._orders.to_end)
        self._record.publish()
        self._journal.say("stopping", cause=self._orders.to_end, grace_s=self._orders.grace_s,
                          signal=self._signals.asked_by)

    def _stopped(self) -> Verdict:
        return verdict.of_order(self._orders.to_end)

    def _say_end(self, found: Verdict, outcome: Optional[Outcome]) -> None:
        state = self._state
        transitions.step(state, found.state, found.cause)
        state.ended_at = (outcome.ended_at if outcome is not None else None) or clock.now_utc()
        if outcome is not None:
            state.exit_code, state.signal = outcome.exit_code, outcome.signal
            state.log_bytes_lost = outcome.log_bytes_lost
        for attempt in state.attempts:
            if attempt.number == state.attempt:
                attempt.ended_at, attempt.cause = state.ended_at, state.cause
                attempt.exit_code, attempt.signal = state.exit_code, state.signal
        self._log.make_current(self._journal)
        self._record.publish()
        self._post.terminal.show("[cloudrun] %s: %s" % (self._run.name, _in_words(state)))
        self._await_written()
        self._journal.say("run-ended", state=state.state, cause=state.cause, exit_code=state.exit_code,
                          signal=state.signal)

    def _await_written(self) -> None:
        """We are the only one who knows how it ended: a full disk is waited for, unless somebody waits for us."""
        if not self._record.written:
            self._post.terminal.show("[cloudrun] " + _("the data disk takes no file now; waiting to write down how it ended"))
        deadline: Optional[float] = None
        while not self._record.written:
            if self._orders.to_end is not None:
                deadline = deadline or time.monotonic() + LAST_WORD_S
                if time.monotonic() > deadline:
                    return
            self._pause(QUIET_S)


def _leave_keys(post: Post) -> str:
    if post.backend == "detached":
        return "Ctrl-C"
    escape = post.spec.screen_escape
    letter = escape[1].lower() if escape else {"screen": "a", "tmux": "b"}[post.backend]
    return "Ctrl-%s d" % letter


def _in_words(state: State) -> str:
    shown = _(_STATES.get(state.state, state.state))
    words = shown if state.cause is None else "%s (%s)" % (shown, state.cause)
    if state.signal is not None:
        return _("{state}, signal {number}").format(state=words, number=state.signal)
    return words if state.exit_code is None else _("{state}, exit code {code}").format(state=words, code=state.exit_code)
