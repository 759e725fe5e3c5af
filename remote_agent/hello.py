"""The agent's first words on an exec, the same for every mode that speaks with the laptop."""

from __future__ import annotations

import os
import pwd
import sys
from typing import BinaryIO, List

from remote_agent import layout, processes, protocol


def option(arguments: List[str], name: str, default: str = "") -> str:
    """The value after `name` among the arguments."""
    at = arguments.index(name) + 1 if name in arguments else len(arguments)
    return arguments[at] if at < len(arguments) else default


def agent_dir() -> str:
    """The folder (or the zip) this agent runs from: what stands on PYTHONPATH and after `python -I`."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def say(arguments: List[str], out: BinaryIO) -> None:
    """Writes the hello for `… --nonce N --agent SHA12`."""
    home = layout.Home.of_user()
    words = protocol.Hello(
        version=protocol.VERSION,
        agent=option(arguments, "--agent"),
        python=sys.executable,
        python_version="%d.%d.%d" % sys.version_info[:3],
        box_id=processes.box_id(),
        home=home.home,
        user=_user(),
        agent_dir=agent_dir(),
        home_read_only=not os.access(home.home, os.W_OK),
    )
    out.write(protocol.hello_line(option(arguments, "--nonce"), protocol.encode(words)))
    out.flush()


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # containers run under ids that no passwd names
        return str(os.geteuid())
