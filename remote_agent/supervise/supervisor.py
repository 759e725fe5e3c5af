"""The supervisor's process: the only one of its run, in the session from its start to its end, which is its last act."""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import time
import traceback
from typing import List, Optional

from remote_agent import layout
from remote_agent.protocol import AgentError, Spec, State
from remote_agent.supervise import guard, wakeup
from remote_agent.supervise.journal import Journal
from remote_agent.supervise.life import Life, Post
from remote_agent.supervise.record import Record
from remote_agent.supervise.terminal import Terminal
from remote_agent.words import _

EXIT_REFUSED = 3
#: The supervisor of the attempt before may be in its last act.
LOCK_WINDOW_S = 15.0


def main(arguments: List[str]) -> int:
    """`supervise RUN_DIR LAUNCH --backend NAME`. 3: not ours to run (another supervisor, no pending launch)."""
    options = _parse(arguments)
    run = layout.Run(os.path.abspath(options.run_dir))
    terminal = Terminal() if options.backend != "detached" else Terminal(-1)
    guard.stand_before(terminal, (0, EXIT_REFUSED))
    os.chdir("/")
    signals = wakeup.Wakeup()
    lock = _lock(run, signals)
    state = layout.read_record(State, run.state)
    spec = layout.read_record(Spec, run.launch(options.launch).spec)
    if lock is None or state is None or spec is None or state.state != "pending" or state.launch != options.launch:
        sys.stderr.write("cloudrun: %s\n" % _("no launch of {path} waits for a supervisor").format(path=run.path))
        return EXIT_REFUSED
    journal = Journal(run.events)
    life = Life(Post(run, options.launch, options.backend, spec, terminal), Record(run, state, journal), journal, signals)
    try:
        life.supervise()
    except Exception:
        journal.say("supervisor-crashed", traceback=traceback.format_exc(limit=8))
        raise
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
            state = layout.read_record(State, run.state)
            if state is None or state.state != "pending" or state.supervisor is not None or time.monotonic() > deadline:
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
