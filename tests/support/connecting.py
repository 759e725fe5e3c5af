"""Connecting in tests: askers that answer, and options for a box."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloudrun.errors import CloudrunError
from cloudrun.transport.base import Address, Options
from tests.support.sshd import SshBox


@dataclass
class Answering:
    """Answers with what it is given and keeps what it was asked. No answers left: there is nobody to ask."""

    passwords: list[str] = field(default_factory=list)
    accepts: bool = True
    keys_shown: list[tuple[str, str, str]] = field(default_factory=list)
    keys_replaced: list[str] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)

    def accept_host_key(self, host: str, key_type: str, fingerprint: str, known: str = "") -> bool:
        self.keys_shown.append((host, key_type, fingerprint))
        self.keys_replaced.append(known)
        return self.accepts

    def password(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if not self.passwords:
            raise CloudrunError("nobody-to-type", prompt=prompt)
        return self.passwords.pop(0)


def options(laptop: Path, asker: Answering | None = None, **rest: Any) -> Options:
    rest.setdefault("accept_new", asker is None)
    return Options(asker or Answering(), laptop / "config" / "known_hosts", **rest)


def address(box: SshBox, **rest: Any) -> Address:
    """The box with its key; other parts of the address by name."""
    return Address(**{"hostname": "127.0.0.1", "port": box.port, "user": box.user, "keys": (box.key,), **rest})
