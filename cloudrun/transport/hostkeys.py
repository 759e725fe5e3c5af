"""Host keys: which are known, and what to do with the one that a server shows.

Ours is a file of our own (`known_hosts` format); the user's `~/.ssh/known_hosts` is read and never written. For a name that
our file knows, ours decides; what the user's marks as revoked is refused whatever ours says.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cloudrun import durable
from cloudrun.errors import CloudrunError
from cloudrun.transport.base import Asker

#: What a key of that type may be offered as, best first.
ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


@dataclass(frozen=True)
class HostKey:
    """A server's public key. `blob` is its wire form."""

    kind: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` shows it: `SHA256:…`."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")


@dataclass(frozen=True)
class Line:
    """One entry of a known_hosts file. `marker` is "", "@revoked" or "@cert-authority"."""

    marker: str
    hosts: str
    key: HostKey


def known_name(hostname: str, port: int) -> str:
    """The name an address has in known_hosts: the host alone for port 22, `[host]:port` for any other."""
    name = hostname.lower()
    return name if port == 22 else f"[{name}]:{port}"


def parse_line(text: str) -> Line | None:
    """The entry on a line; None for a comment, an empty line, or anything odd."""
    words = text.strip().lstrip("\ufeff").split()
    if not words or words[0].startswith("#"):
        return None
    marker = words.pop(0) if words[0].startswith("@") else ""
    if len(words) < 3:
        return None
    try:
        blob = base64.b64decode(words[2], validate=True)
    except (binascii.Error, ValueError):
        return None
    kind = words[1].encode()
    if blob[:4] != len(kind).to_bytes(4, "big") or blob[4 : 4 + len(kind)] != kind:
        return None
    return Line(marker, words[0], HostKey(words[1], blob))


def parse(text: str) -> list[Line]:
    """All entries of a file; an odd line hides no other."""
    return [line for line in map(parse_line, text.splitlines()) if line]


def matches(hosts: str, name: str) -> bool:
    """Whether an entry's first field means `name`: plain, hashed, with wildcards, or negated."""
    found = False
    for pattern in hosts.split(","):
        negated = pattern.startswith("!")
        if _matches_one(pattern[negated:], name):
            if negated:
                return False
            found = True
    return found


def _matches_one(pattern: str, name: str) -> bool:
    if pattern.startswith("|1|"):
        try:
            salt, digest = (base64.b64decode(part) for part in pattern[3:].split("|"))
        except (binascii.Error, ValueError):
            return False
        return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
    if "*" in pattern or "?" in pattern:  # in known_hosts brackets are themselves, not a set
        return fnmatch.fnmatchcase(name, pattern.lower().replace("[", "[[]"))
    return pattern.lower() == name


class KnownHosts:
    """Our file and the user's, for one address."""

    def __init__(self, own: Path, users: Iterable[Path] = ()) -> None:
        self.path = own
        self._users = list(users)

    @classmethod
    def of_user(cls, own: Path) -> KnownHosts:
        """Our file and those that ssh reads: the user's, and the machine's."""
        folders = [Path.home() / ".ssh" / "known_hosts", Path("/etc/ssh/ssh_known_hosts")]
        return cls(own, [path for base in folders for path in (base, base.with_name(base.name + "2"))])

    def known(self, name: str) -> list[HostKey]:
        """Keys that are good for the name. Our own entries stand before the user's and, where there are any, alone."""
        own = [line.key for line in self._lines(self.path) if not line.marker and matches(line.hosts, name)]
        if own:
            return own
        theirs = [line for path in self._users for line in self._lines(path)]
        return [line.key for line in theirs if not line.marker and matches(line.hosts, name)]

    def where(self, name: str, key: HostKey) -> Path | None:
        """The file that knows this key by that name; None where none does."""
        for path in (self.path, *self._users):
            if any(not line.marker and line.key == key and matches(line.hosts, name) for line in self._lines(path)):
                return path
        return None

    def revoked(self, key: HostKey) -> bool:
        """Whether any file says that this key must never be trusted, under whatever name."""
        files = [self.path, *self._users]
        return any(line.marker == "@revoked" and line.key == key for path in files for line in self._lines(path))

    def replace(self, name: str, key: HostKey) -> None:
        """Makes the key the one that our file has for exactly this name; other names and ports stay. Raises CloudrunError."""
        try:
            durable.private_folder(self.path.parent)
            with durable.locked(self.path):
                lines = [text for text in self._text(self.path).splitlines() if not self._is_of(text, name)]
                lines.append(f"{name} {key.kind} {base64.b64encode(key.blob).decode()}")
                durable.write_private(self.path, "".join(line + "\n" for line in lines))
        except OSError as error:
            raise CloudrunError("known-hosts-unwritable", path=str(self.path), detail=str(error)) from error

    @staticmethod
    def _is_of(text: str, name: str) -> bool:
        line = parse_line(text)
        return line is not None and not line.marker and line.hosts == name

    def _lines(self, path: Path) -> list[Line]:
        return parse(self._text(path))

    @staticmethod
    def _text(path: Path) -> str:
        try:
            return path.read_bytes().decode("utf-8", "surrogateescape")
        except OSError:
            return ""


def preferred_algorithms(known: list[HostKey], offered: tuple[str, ...]) -> tuple[str, ...]:
    """`offered` with those first that the known keys can answer to: a server with several keys then shows the one we know."""
    wanted = [name for key in known for name in ALGORITHMS.get(key.kind, (key.kind,)) if name in offered]
    return tuple(dict.fromkeys([*wanted, *offered]))


@dataclass(frozen=True)
class Policy:
    """What to do with a key that is not known. `accept_new` is for first contact: a changed key is always asked.

    `known_as`: a name by which the same box was known before. The key known by that name proves that it is still that box.
    """

    asker: Asker
    accept_new: bool
    replace_key_of: str = ""
    known_as: str = ""

    def accepts(self, name: str, key: HostKey, known: str) -> bool:
        return (self.accept_new and not known) or self.asker.accept_host_key(name, key.kind, key.fingerprint, known)


def check(store: KnownHosts, name: str, key: HostKey, policy: Policy) -> None:
    """Returns when the key may be trusted; remembers it at first contact. Raises CloudrunError before anything is sent."""
    if store.revoked(key):
        raise CloudrunError("host-key-revoked", host=name, fingerprint=key.fingerprint)
    known = store.known(name)
    if key in known:
        return
    old = ", ".join(f"{one.fingerprint} ({one.kind})" for one in known)
    if known and name != policy.replace_key_of:
        raise CloudrunError("host-key-changed", host=name, old=old, new=f"{key.fingerprint} ({key.kind})", path=str(store.path))
    moved = bool(policy.known_as) and not known and key in store.known(policy.known_as)
    if not moved and not policy.accepts(name, key, old):
        raise CloudrunError("host-key-refused", host=name, fingerprint=key.fingerprint)
    store.replace(name, key)
