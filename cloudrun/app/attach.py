"""`cloudrun attach`: which session holds the run, and a pty channel into it."""

from __future__ import annotations

from dataclasses import dataclass

from cloudrun import i18n
from cloudrun.agent.bootstrap import attach_command
from cloudrun.agent.client import AgentClient
from cloudrun.transport.base import Channel, TerminalSize, Transport


@dataclass(frozen=True)
class Target:
    """A session that can be attached to. `clients`: how many are on it now. `leave`: the keys that leave it."""

    run: str
    backend: str
    clients: int
    leave: str


@dataclass(frozen=True)
class Screen:
    """What this side's terminal is."""

    size: TerminalSize
    term: str


def find_target(client: AgentClient, data_dir: str | None, name: str | None, project_id: str | None) -> Target:
    """The live run that is meant. Raises CloudrunError: no such run, it has ended, its backend can only be watched."""
    answer = client.call("attach", {"data_dir": data_dir, "name": name, "project_id": project_id})
    return Target(answer["run"], answer["backend"], int(answer["clients"]), answer["leave"])


def open_session(
    transport: Transport, client: AgentClient, target: Target, mode: str, screen: Screen
) -> Channel:
    """The session in a pty of that size. `mode`: plain, take (others are sent away) or shared. Closes the client's exec
    first: a box may allow one session only."""
    command = attach_command(client.hello, target.run, mode, i18n.spoken())
    client.close()
    return transport.exec(command, terminal=screen.size, term=screen.term)


def mode_after_loss(mode: str) -> str:
    """How to come back when the link died: our own dead client may still count as attached on the box, so it is taken over,
    unless the session was shared."""
    return "shared" if mode == "shared" else "take"
