"""Connections of a test to its box, all closed in the end."""

from __future__ import annotations

from pathlib import Path

from cloudrun.transport import connect
from cloudrun.transport.base import Address, Options, Transport
from tests.support.sshd import SshBox


class Nobody:
    """Accepts the box's key, knows no password."""

    def accept_host_key(self, host: str, key_type: str, fingerprint: str, known: str = "") -> bool:
        return True

    def password(self, prompt: str) -> str:
        raise AssertionError(f"asked for {prompt}")


class Dialler:
    """Connects to boxes. `opened`: every connection it made."""

    def __init__(self, folder: Path) -> None:
        self._known_hosts = folder / "known_hosts"
        self.opened: list[Transport] = []

    def __call__(self, box: SshBox) -> Transport:
        address = Address("127.0.0.1", box.port, box.user, keys=(box.key,))
        options = Options(asker=Nobody(), known_hosts=self._known_hosts, accept_new=True)
        self.opened.append(connect(address, options))
        return self.opened[-1]

    def close(self) -> None:
        for transport in self.opened:
            transport.close()
