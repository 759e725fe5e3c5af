"""A host: a name for a box and how to get there."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from cloudrun.config import paths, target
from cloudrun.config.store import Backend, Entry, HostsFile
from cloudrun.errors import CloudrunError
from cloudrun.transport import sshconfig
from cloudrun.transport.base import Address

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
BACKENDS: tuple[str, ...] = get_args(Backend)


@dataclass(frozen=True)
class Host:
    """One entry of hosts.toml. `target` as it was typed, in one line and without any password."""

    name: str
    target: str
    key: str | None = None
    data_dir: str | None = None
    backend: Backend = "auto"
    python: str | None = None

    @property
    def address(self) -> Address:
        """Where the box is now: the ssh configuration is asked where the target is a name in it. Raises CloudrunError."""
        return address_of(self)

    @property
    def is_local(self) -> bool:
        """Whether it is this machine; nothing is asked for it."""
        return target.parse(self.target).address().is_local

    @property
    def shown(self) -> str:
        """What the user gave, for lists: no file is read and nothing is asked for it."""
        return self.target

    @classmethod
    def of(cls, name: str, entry: Entry) -> Host:
        return cls(name, entry.target, entry.key, entry.data_dir, entry.backend, entry.python)


def address_of(host: Host, say: Callable[[str], None] | None = None) -> Address:
    """The target's address; `key` of the host stands before all other keys. Raises CloudrunError."""
    found = _located(target.parse(host.target), say)
    if not host.key or found.is_local:
        return found
    named = Path(host.key).expanduser()
    return replace(found, keys=(named, *(key for key in found.keys if key != named)))


def _located(meant: target.Target, say: Callable[[str], None] | None) -> Address:
    plain = meant.address()
    if plain.is_local:
        return plain
    jumps = tuple(hop for jump in meant.jumps for hop in _hops(jump, say))
    if not meant.lookup:
        return replace(plain, jumps=jumps, proxy_command=_expanded(meant, plain))
    found = sshconfig.resolve(sshconfig.Asked(meant.hostname, meant.user, meant.port), say)
    return replace(
        found,
        keys=(*meant.keys, *found.keys),
        identities_only=meant.identities_only or found.identities_only,
        jumps=jumps or (() if meant.proxy_command or meant.direct else found.jumps),
        proxy_command=_expanded(meant, found) or (None if jumps or meant.direct else found.proxy_command),
    )


def _expanded(meant: target.Target, found: Address) -> str | None:
    """The ProxyCommand that was given, with ssh's %-tokens filled in."""
    if meant.proxy_command is None:
        return None
    return sshconfig.expanded(meant.proxy_command, meant.hostname, found)


def _hops(jump: str, say: Callable[[str], None] | None) -> tuple[Address, ...]:
    found = _located(target.parse(jump), say)
    return (*found.jumps, replace(found, jumps=()))


def check_name(name: str) -> str:
    """The name, if it may be one. Raises CloudrunError that names the character that is wrong."""
    if _NAME.match(name):
        return name
    if not name or len(name) > 63:
        raise CloudrunError("host-name-length", name=name)
    wrong = next((letter for letter in name if not re.match(r"[A-Za-z0-9_-]", letter)), name[0])
    raise CloudrunError("host-name-wrong", name=name, character=wrong)


def check_backend(backend: str) -> str:
    if backend not in BACKENDS:
        raise CloudrunError("host-backend", backend=backend, known=", ".join(BACKENDS))
    return backend


def load_hosts() -> list[Host]:
    """All hosts, in the file's order. Raises CloudrunError where hosts.toml is not right."""
    return [Host.of(name, entry) for name, entry in HostsFile(paths.hosts_file()).read().hosts.items()]


def known_hosts_path() -> Path:
    return paths.known_hosts_file()
