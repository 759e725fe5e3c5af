"""What the agent says first, in every mode that speaks with the laptop."""

from __future__ import annotations

import os
import pwd
import sys
from typing import Any, BinaryIO, Dict, List

from remote_agent import processes
from remote_agent.layout import Home
from remote_agent.protocol import VERSION, Hello, encode, hello_line


def hello_for(agent: str) -> Dict[str, Any]:
    """The hello's JSON. `agent`: short hash of the agent's content, as the client named it."""
    home, folder = Home.of_user(), agent_dir()
    hello: Dict[str, Any] = encode(Hello(
        version=VERSION, agent=agent, python=sys.executable, python_version="%d.%d.%d" % sys.version_info[:3],
        box_id=processes.box_id(), home=home.home, user=user_name(), agent_dir=folder,
        home_read_only=os.path.basename(folder) == agent and not folder.startswith(home.root + os.sep),
    ))
    return hello


def say_hello(out: BinaryIO, nonce: str, agent: str) -> None:
    """Writes the first words, found by their nonce wherever the shell's own output puts them."""
    out.write(hello_line(nonce, hello_for(agent)))
    out.flush()


def option(arguments: List[str], name: str) -> str:
    """The word after `name`; "" where there is none. argparse takes longer to load than most requests to answer."""
    at = arguments.index(name) + 1 if name in arguments else len(arguments)
    return arguments[at] if at < len(arguments) else ""


def agent_dir() -> str:
    """The folder this agent runs from: what stands on a run's PYTHONPATH and after `python -I`."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def user_name() -> str:
    """The account's name; its number where the container's passwd does not know it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
