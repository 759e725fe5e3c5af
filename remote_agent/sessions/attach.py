"""`attach` on the box: shows a run's session on the terminal this process was given.

What it prints goes straight to the user's terminal, and only where the laptop could not have said it before: the session
ended, or somebody came in, between its question and this. Its exit code says those two; that of the multiplexer says nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Dict, List, Optional, Tuple

from remote_agent import layout
from remote_agent.protocol import AgentError, Identity
from remote_agent.sessions import Backend, Found, find_any, relay, terminal
from remote_agent.sessions.base import MODES
from remote_agent.words import _, speak

EXIT_NO_TERMINAL = 2
EXIT_NO_SESSION = 41
EXIT_ELSEWHERE = 42
EXIT_CANNOT = 43


def main(arguments: List[str]) -> int:
    asked = _parse(arguments)
    speak(asked.lang)
    if not (os.isatty(0) and os.isatty(1)):
        return _say(_("attach needs a terminal, and there is none here"), EXIT_NO_TERMINAL)
    try:
        argv, env = _command(asked)
    except AgentError as error:
        return _say(*_refusal(error, asked.run))
    if relay.needed(0):
        return relay.run(argv, env)
    os.execve(argv[0], argv, env)
    return EXIT_CANNOT


def _parse(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="attach")
    parser.add_argument("--run", required=True)
    parser.add_argument("--mode", choices=MODES, default="plain")
    parser.add_argument("--lang", default="")
    parser.add_argument("--data-dir")
    parser.add_argument("--project-id")
    return parser.parse_args(arguments)


def _command(asked: argparse.Namespace) -> Tuple[List[str], Dict[str, str]]:
    """The multiplexer's command and environment for this terminal. Says so where the terminal is not known here."""
    _refuse_foreign(asked)
    holder, found = _holder(asked.run)
    if asked.mode == "plain" and found.clients:
        raise AgentError("session-attached-elsewhere", name=asked.run)
    theirs = os.environ.get("TERM", "")
    argv, env = holder.attach_argv(asked.run, asked.mode, theirs)
    env["TERM"] = terminal.usable_term(theirs, argv[0])
    if env["TERM"] != theirs:
        _say(_("the terminal {theirs!r} is not known on this box: {used} is used").format(theirs=theirs, used=env["TERM"]), 0)
    found_locale = terminal.utf8_locale()
    if found_locale is not None:
        env.pop("LC_ALL", None)
        env.update(LANG=found_locale, LC_CTYPE=found_locale)
    return argv, env


def _refuse_foreign(asked: argparse.Namespace) -> None:
    """A session is named after its run; the run's folder says whose that is."""
    if asked.data_dir is None or asked.project_id is None:
        return
    identity: Optional[Identity] = layout.read_record(Identity, layout.Data(asked.data_dir).run(asked.run).identity)
    if identity is not None and identity.project_id != asked.project_id:
        raise AgentError("session-not-running", name=asked.run)


def _holder(name: str) -> Tuple[Backend, Found]:
    holding = find_any(name)
    if holding is None:
        raise AgentError("session-not-running", name=name)
    return holding


def _refusal(error: AgentError, run: str) -> Tuple[str, int]:
    if error.code == "session-attached-elsewhere":
        return _("the session of {run} is attached elsewhere by now").format(run=run), EXIT_ELSEWHERE
    if error.code == "session-not-running":
        return _("the session of {run} is not there any more").format(run=run), EXIT_NO_SESSION
    if error.code == "detached-cannot-attach":
        return _("{run} runs without a terminal: it can be watched, not entered").format(run=run), EXIT_CANNOT
    return _("{run} cannot be attached to: {error}").format(run=run, error=error), EXIT_CANNOT


def _say(text: str, code: int) -> int:
    sys.stderr.buffer.write(("cloudrun: %s\r\n" % text).encode("utf-8", "replace"))  # whatever the locale here is
    sys.stderr.flush()
    return code
