"""What a session stands on: terminals, a folder for its socket, and a locale that keeps people's letters."""

from __future__ import annotations

import os
import shutil
from typing import List, Optional

from remote_agent import layout, mounts, programs
from remote_agent.checks.probe import Asked
from remote_agent.protocol import AgentError, Check
from remote_agent.sessions import environment, places, terminal

_BASH_S = 3.0
#: Two letters of three bytes each: a shell that knows UTF-8 counts two.
_COUNT = r"""word=$'\xe8\xae\xad\xe7\xbb\x83'; echo ${#word}"""
#: As long as a run's name may be.
_LONGEST_NAME = "n" * 63
_BACKENDS = ("screen", "tmux")


def check_pty(asked: Asked) -> List[Check]:
    """By really opening one, which must have a name: screen and tmux look for it."""
    try:
        name = _opened()
    except OSError as error:
        params = {"detail": "%s: %s" % (error.filename, error.strerror) if error.filename else str(error.strerror or error)}
        return [Check("pty", "failure", "pty-refused", params, hint="pty-refused")]
    return [Check("pty", "ok", "pty", {"path": name})]


def _opened() -> str:
    """Path of the terminal that was opened. Raises OSError."""
    try:
        master, slave = os.openpty()
    except OSError as error:
        raise OSError(error.errno, error.strerror, "/dev/ptmx") from error
    try:
        return os.ttyname(slave)
    except OSError as error:  # made, and not to be found: another /dev/pts than the one it was made in
        raise OSError(error.errno, error.strerror, "/dev/pts") from error
    finally:
        os.close(master)
        os.close(slave)


def check_sockets(asked: Asked) -> List[Check]:
    """Where sessions of the longest name have their sockets: a real one is made there and taken away."""
    kind = next((name for name in _BACKENDS if environment.program(name)), "detached")
    try:
        folder = places.make(kind, _LONGEST_NAME)
    except AgentError as error:
        return [Check("sockets", "failure", "sockets-refused", error.params, hint="sockets-refused")]
    places.tidy(kind)
    in_home = mounts.beneath(folder, os.path.realpath(layout.Home.of_user().root))
    return [Check("sockets", "ok", "sockets" if in_home else "sockets-elsewhere", {"path": folder})]


def check_locale(asked: Asked) -> List[Check]:
    """What a run gets, tried by the shell that reads the user's command: it counts letters, not bytes."""
    name = terminal.utf8_locale()
    if name is None:
        return [Check("locale", "warning", "locale-none", {"own": _own()}, hint="locale-none")]
    if _letters(name) != 2:
        return [Check("locale", "warning", "locale-wrong", {"locale": name}, hint="locale-none")]
    return [Check("locale", "ok", "locale" if _own() == name else "locale-set", {"locale": name, "own": _own()})]


def _own() -> str:
    """What the login came with, before any of ours; "" where it says nothing. (Python itself may set LC_CTYPE.)"""
    return next((os.environ[name] for name in ("LC_ALL", "LANG") if os.environ.get(name)), "")


def _letters(name: str) -> Optional[int]:
    bash = shutil.which("bash") or "/bin/bash"
    try:
        said = programs.run([bash, "-c", _COUNT], _BASH_S, dict(environment.clean({}), LC_ALL=name, LANG=name)).stdout.strip()
    except OSError:
        return None
    return int(said) if said.isdigit() else None
