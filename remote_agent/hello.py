"""What the agent says first, in every mode that speaks with the laptop."""

from __future__ import annotations

import os
import platform
import pwd
import sys
from typing import Any, BinaryIO, Dict

from remote_agent import processes
from remote_agent.layout import Home
from remote_agent.protocol import VERSION, Hello, encode, hello_line


def hello_for(agent: str) -> Dict[str, Any]:
    """The hello's JSON. `agent`: short hash of the agent's content, as the client named it."""
    hello: Dict[str, Any] = encode(Hello(
        version=VERSION, agent=agent, python=sys.executable, python_version=platform.python_version(),
        box_id=processes.box_id(), home=Home.of_user().home, user=user_name(),
    ))
    return hello


def say_hello(out: BinaryIO, nonce: str, agent: str) -> None:
    """Writes the first words, found by their nonce wherever the shell's own output puts them."""
    out.write(hello_line(nonce, hello_for(agent)))
    out.flush()


def user_name() -> str:
    """The account's name; its number where the container's passwd does not know it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
