"""The agent reaches a real box over a real sshd: how often it connects, and what it survives there."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cloudrun.agent import archive
from cloudrun.agent.client import AgentClient
from cloudrun.transport import connect
from cloudrun.transport.base import Address, Options, Transport
from tests.support.sshd import SshBox

Dial = Callable[[SshBox], Transport]


class Nobody:
    """Accepts the box's key, knows no password."""

    def accept_host_key(self, host: str, key_type: str, fingerprint: str) -> bool:
        return True

    def password(self, prompt: str) -> str:
        raise AssertionError(f"asked for {prompt}")


@pytest.fixture
def dial(laptop: Path) -> Iterator[Dial]:
    """Connects to a box; every connection is closed in the end."""
    opened: list[Transport] = []

    def dial(box: SshBox) -> Transport:
        address = Address("127.0.0.1", box.port, box.user, keys=(box.key,))
        options = Options(asker=Nobody(), known_hosts=laptop / "known_hosts", accept_new=True)
        opened.append(connect(address, options))
        return opened[-1]

    yield dial
    for transport in opened:
        transport.close()


def agent_folder(box: SshBox) -> Path:
    return box.home / ".cloudrun" / "agent" / archive.installed().sha12


def ask(transport: Transport, python: str | None = None) -> AgentClient:
    """An agent that answers."""
    client = AgentClient.open(transport, python)
    assert client.call("ps", {"data_dir": None, "archived": False}) == {"runs": []}
    return client


def test_a_fresh_box_costs_two_execs_and_a_file_and_the_next_command_one(box: SshBox, dial: Dial) -> None:
    first = dial(box)
    hello = ask(first).hello
    assert (first.counts.connections, first.counts.execs, first.counts.sftp_sessions) == (1, 2, 1)
    assert hello.agent_dir == str(agent_folder(box))
    assert not hello.home_read_only

    second = dial(box)
    ask(second)
    assert (second.counts.connections, second.counts.execs, second.counts.sftp_sessions) == (1, 1, 0)

    for folder in (box.home / ".cloudrun", agent_folder(box).parent, agent_folder(box)):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [entry.name for entry in agent_folder(box).parent.iterdir() if entry.name != ".lock"] == [hello.agent]
