"""Hosts: add, list, show, change, choose, forget; and trusting a new host key."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cloudrun.app.entering import Entered, Trial, enter
from cloudrun.config import paths, target
from cloudrun.config.hosts import Host, address_of, check_backend, check_name
from cloudrun.config.selection import find
from cloudrun.config.store import Content, HostsFile
from cloudrun.errors import CloudrunError, Exit
from cloudrun.transport.base import Address
from cloudrun.transport.hostkeys import KnownHosts, known_name

#: Trouble on the first try that a change of the entry or of the box mends: the host is kept, and it is said.
_KEPT = (Exit.UNREACHABLE, Exit.AUTHENTICATION, Exit.UNKNOWN_OUTCOME, Exit.BOX)


@dataclass(frozen=True)
class Wanted:
    """What the user gave. None: not given; an empty text takes a setting away."""

    target: str | None = None
    key: str | None = None
    data_dir: str | None = None
    backend: str | None = None
    python: str | None = None


@dataclass(frozen=True)
class Stored:
    """A stored host, remarks on what was given, and how the first try went: `problem` None after a good one or none."""

    host: Host
    notes: tuple[str, ...] = ()
    reached: bool | None = None
    problem: CloudrunError | None = None
    #: cloudrun's own key was put on the box, or was there, and opens it.
    own_key: Entered = field(default_factory=Entered)


def add_host(name: str, wanted: Wanted, trial: Trial | None) -> Stored:
    """Stores the host, then tries it (None: it is not tried): its host key is accepted now, and a key of ours put on it.

    A box that cannot be reached or refuses the login stays stored. Raises CloudrunError, for a host key not accepted too.
    """
    check_name(name)
    values, notes = _checked(replace(wanted, target=wanted.target or ""))
    with _file().changing() as change:
        present = change.before.hosts.get(name)
        if present is not None and present.target != values["target"]:
            raise CloudrunError("host-exists", name=name, target=present.target)
        change.put(name, values)
    return _tried(_found(name), notes, trial)


def set_host(name: str, wanted: Wanted, trial: Trial | None = None) -> Stored:
    """Changes what is given, nothing else; then tries the host like a new one. Raises CloudrunError."""
    values, notes = _checked(wanted)
    with _file().changing() as change:
        find(change.before, name)
        if not values and trial is None:
            raise CloudrunError("nothing-to-set", name=name)
        if name not in change.before.hosts:  # `local`, which needs no entry until it has settings
            values.setdefault("target", "local")
        change.put(name, values)
    return _tried(_found(name), notes, trial)


def known_as(name: str) -> str:
    """The known_hosts name of a stored host; "" where there is none, or where its configuration is wrong."""
    try:
        address = address_of(_found(name))
    except CloudrunError:
        return ""
    return "" if address.is_local else _name_of(address)


def list_hosts() -> tuple[list[Host], str | None]:
    """All hosts and the name of the one chosen by `host use`."""
    content = _file().read()
    return [Host.of(name, entry) for name, entry in content.hosts.items()], content.default


def show_host(host: Host, default: str | None) -> dict[str, Any]:
    """Everything there is to know about a host without speaking to it. Raises CloudrunError."""
    address = address_of(host)
    return {
        **document(host, default),
        "address": {
            "hostname": address.hostname, "port": address.port, "user": address.user or None,
            "keys": [str(key) for key in address.keys], "identities_only": address.identities_only,
            "jumps": [hop.shown for hop in address.jumps], "proxy_command": address.proxy_command,
        },
        "host_keys": [] if address.is_local else [
            {"type": key.kind, "fingerprint": key.fingerprint} for key in _known().known(_name_of(address))
        ],
    }


def use_host(name: str) -> Host:
    """Makes it the one that is meant where nothing else says. Raises CloudrunError."""
    with _file().changing() as change:
        host = find(change.before, name)
        change.use(name)
    return host


def remove_host(name: str) -> Host:
    """Forgets the host; nothing on the box is touched. Raises CloudrunError."""
    with _file().changing() as change:
        host = find(change.before, name)
        if name in change.before.hosts:
            change.remove(name)
    return host


def trusted(where: str) -> tuple[Host, str]:
    """The host to connect to, and the known_hosts name whose key is to be replaced. `where`: a host's name, or `[host]:port`.

    A jump host is found by its address. Raises CloudrunError.
    """
    content = _file().read()
    if where in content.hosts:
        host = Host.of(where, content.hosts[where])
        address = address_of(host)
        if address.is_local:
            raise CloudrunError("trust-local")
        return host, _name_of(address)
    for host, address in _addresses(content):
        if where in {_name_of(one) for one in (address, *address.jumps)}:
            return host, where
    raise CloudrunError("trust-unknown", where=where)


def document(host: Host, default: str | None) -> dict[str, Any]:
    """A host in JSON."""
    return {**asdict(host), "default": host.name == default}


# ------------------------------------------------------------------------------------------------- within


def _checked(wanted: Wanted) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """Values to store, as they hold from every working folder, and remarks. Raises CloudrunError."""
    values: dict[str, str | None] = {}
    notes: tuple[str, ...] = ()
    if wanted.target is not None:
        meant = target.parse(wanted.target).anchored(Path.cwd())
        for jump in meant.jumps:
            target.parse(jump)
        values["target"], notes = meant.text, meant.notes
    if wanted.key is not None:
        values["key"] = _key_file(wanted.key) if wanted.key else None
    if wanted.backend is not None:
        values["backend"] = check_backend(wanted.backend) if wanted.backend else None
    if wanted.data_dir is not None:
        if wanted.data_dir and not wanted.data_dir.startswith(("/", "~")):
            raise CloudrunError("data-dir-relative", path=wanted.data_dir)
        values["data_dir"] = wanted.data_dir or None
    if wanted.python is not None:
        values["python"] = wanted.python or None
    return values, notes


def _key_file(given: str) -> str:
    """Its absolute path. Raises CloudrunError where no file is there: logins with it would fail for another reason each time."""
    path = Path.cwd() / Path(given).expanduser()
    if not path.is_file():
        raise CloudrunError("key-missing", file=str(path))
    return str(path)


def _tried(host: Host, notes: tuple[str, ...], trial: Trial | None) -> Stored:
    if trial is None:
        return Stored(host, notes)
    try:
        entered = enter(host, trial)
    except CloudrunError as error:
        error.params.setdefault("host_name", host.name)
        if error.exit_code not in _KEPT:
            raise
        return Stored(host, notes, reached=False, problem=error)
    if entered.key is not None and host.key is None:  # from now on it is the first one tried
        with _file().changing() as change:
            change.put(host.name, {"key": str(entered.key)})
        host = _found(host.name)
    return Stored(host, notes, reached=True, own_key=entered)


def _addresses(content: Content) -> list[tuple[Host, Address]]:
    found = []
    for name, entry in content.hosts.items():
        host = Host.of(name, entry)
        try:
            found.append((host, address_of(host)))
        except CloudrunError:  # one host whose configuration is wrong hides no other
            continue
    return found


def _found(name: str) -> Host:
    return find(_file().read(), name)


def _file() -> HostsFile:
    return HostsFile(paths.hosts_file())


def _known() -> KnownHosts:
    return KnownHosts.of_user(paths.known_hosts_file())


def _name_of(address: Address) -> str:
    return known_name(address.hostname, address.port)

