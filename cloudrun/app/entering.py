"""The first try of a host: it opens by a key that is there, or by its password once, and by cloudrun's own key from then on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cloudrun.agent import authorize
from cloudrun.config.hosts import Host
from cloudrun.errors import CloudrunError
from cloudrun.transport import ownkey
from cloudrun.transport.base import Transport


@dataclass(frozen=True)
class Trial:
    """How a host is tried. `connect` lets the user in by whatever opens the box; `prove` by that one key and nothing else."""

    connect: Callable[[Host], Transport]
    prove: Callable[[Host, Path], Transport]
    own_key: Path
    #: The password has done its work.
    forget: Callable[[], None]


@dataclass(frozen=True)
class Entered:
    """`key`: our own key, where the box takes it now; None where another opened the box."""

    key: Path | None = None
    added: bool = False


def enter(host: Host, trial: Trial) -> Entered:
    """Tries the host; where something had to be typed, our key is installed and proven. Raises CloudrunError."""
    try:
        transport = trial.connect(host)
        try:
            if transport.address.is_local or not transport.met.typed:
                return Entered()
            installed = authorize.install(transport, ownkey.ensured(trial.own_key))
        finally:
            transport.close()
        _prove(host, trial, installed)
        return Entered(trial.own_key, installed.added)
    finally:
        trial.forget()


def _prove(host: Host, trial: Trial, installed: authorize.Installed) -> None:
    try:
        trial.prove(host, trial.own_key).close()
    except CloudrunError as error:
        if error.code != "login-refused":
            raise
        code = "key-not-taken-modes" if installed.open_to_others else "key-not-taken"
        raise CloudrunError(code, **error.params, modes=" ".join(installed.modes)) from error
