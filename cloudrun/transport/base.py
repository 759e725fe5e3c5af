"""What a transport is: connect, run, put. Nothing above this package knows SSH."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Address:
    """Where and as whom. `hostname` "local" is this machine without a connection.

    `keys`: identity files to try, in order. `jumps`: hops to pass first, outermost first.
    """

    hostname: str
    port: int = 22
    user: str = ""
    keys: tuple[Path, ...] = ()
    identities_only: bool = False
    jumps: tuple[Address, ...] = ()
    proxy_command: str | None = None
    #: ConnectTimeout and ServerAliveInterval × ServerAliveCountMax of the ssh configuration, in seconds, where it sets them.
    connect_timeout_s: float | None = None
    alive_s: float | None = None

    @property
    def shown(self) -> str:
        """`user@host:port`, for people and messages."""
        if self.is_local:
            return "local"
        name = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{self.user}@{name}:{self.port}" if self.user else f"{name}:{self.port}"

    @property
    def is_local(self) -> bool:
        return self.hostname == "local"


@dataclass(frozen=True)
class TerminalSize:
    columns: int
    rows: int


class Asker(Protocol):
    """What a connection may have to ask the user. The CLI gives one that asks on the terminal; scripts give one that refuses.

    Each method raises CloudrunError where there is nobody to ask.
    """

    def accept_host_key(self, host: str, key_type: str, fingerprint: str, known: str = "") -> bool:
        """Whether the key may be trusted. `known`: fingerprints of the keys it would replace; "" at first contact."""

    def password(self, prompt: str) -> str: ...


#: Three questions, five seconds apart.
DEAD_AFTER_S = 15.0


class Secret:
    """A password in memory. Nothing that shows or prints an object shows it; `forget` ends its use."""

    def __init__(self, text: str) -> None:
        self._text: str | None = text

    def reveal(self) -> str | None:
        """The text; None once it was forgotten."""
        return self._text

    def forget(self) -> None:
        self._text = None


@dataclass(frozen=True)
class Options:
    """How to connect. Time-outs in seconds."""

    asker: Asker
    known_hosts: Path
    #: cloudrun's own key file: tried where it is there, after all others.
    own_key: Path | None = None
    #: The password of the box itself (never of a jump host): sent once where keys do not open it, and nobody is asked for it.
    password: Secret | None = None
    #: Keys or nothing: the box itself may ask for nothing to be typed.
    keys_only: bool = False
    #: The known_hosts name that the box had before its address changed: the key known by it is believed at the new one.
    known_as: str = ""
    accept_new: bool = False
    connect_timeout_s: float = 20.0
    #: A link on which nothing answered this long is dead (keepalives with answers run beneath).
    dead_after_s: float = field(default_factory=lambda: DEAD_AFTER_S)
    #: The known_hosts name (`[host]:port`) whose changed key the user wants replaced; asked all the same.
    replace_key_of: str = ""
    #: Takes a quiet line of talk ("waiting for …"); None drops it.
    say: Callable[[str], None] | None = None
    #: What there is to do while the network is waited for (modules to load); done when the connection stands.
    meanwhile: Callable[[], None] | None = None


class Channel(Protocol):
    """One running command on the box. Every wait has a deadline; a lost connection raises CloudrunError("connection-lost")."""

    def send(self, data: bytes, timeout_s: float = 60.0) -> None:
        """Sends all of it. Raises TimeoutError; BrokenPipeError when the command reads no more."""

    def send_eof(self) -> None: ...

    def receive(self, max_bytes: int = 65536, timeout_s: float | None = None) -> bytes:
        """What stdout has, at least one byte; b"" at its end. Raises TimeoutError when nothing came in time (0: look only)."""

    def stderr_tail(self) -> bytes:
        """The last 16 KiB of what came on stderr; it is drained all the time, so that it can never block stdout."""

    def exit_status(self, timeout_s: float) -> int | None:
        """The command's exit code; None when it was killed by a signal or the connection ended: outcome unknown.

        Raises TimeoutError. It does not wait for the end of stdout, which a child in the background may hold open.
        """

    def resize(self, size: TerminalSize) -> None: ...

    def fileno(self) -> int | None:
        """Something `select` can watch for readability (POSIX), or None."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Met:
    """How a connection came about; empty where there is none (this machine). `known_in`: the file that knows the host key."""

    login: str = ""
    key_type: str = ""
    fingerprint: str = ""
    known_in: str = ""
    #: What opened it had to be typed: a key would spare that.
    typed: bool = False


@dataclass
class Counts:
    """How much of the connection was used; a test holds them to the promises."""

    connections: int = 0
    execs: int = 0
    sftp_sessions: int = 0
    commands: list[str] = field(default_factory=list)


class Transport(Protocol):
    """A connection to a box. Opened once for a command and shared by all it does; counts are kept for the tests."""

    address: Address
    counts: Counts

    @property
    def met(self) -> Met:
        """What opened the box and which key the box showed, for the doctor."""

    def exec(self, command: str, terminal: TerminalSize | None = None, term: str = "xterm-256color") -> Channel:
        """Runs `command` by the user's login shell, with a pty of that size where `terminal` is given."""

    def put(self, data: bytes, path: str, mode: int = 0o600, progress: Callable[[int], None] | None = None) -> None:
        """Writes a file at an absolute path on the box, whole or not at all (temporary name, then rename)."""

    def close(self) -> None: ...
