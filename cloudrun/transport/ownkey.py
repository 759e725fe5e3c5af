"""cloudrun's own key: made once on this laptop, never with a passphrase, for boxes that hand out a password."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from cloudrun import durable
from cloudrun.errors import CloudrunError
from cloudrun.transport import keys


def public_file(private: Path) -> Path:
    return private.with_name(private.name + ".pub")


def ensured(private: Path) -> str:
    """The key's line for `authorized_keys`; the key (ed25519, 0600, its folder 0700) is made where it is missing.

    A file that is there is never written over. Raises CloudrunError.
    """
    try:
        durable.private_folder(private.parent)
        with durable.locked(private):
            if not private.exists():
                durable.write_private(private, _made())
    except OSError as error:
        raise CloudrunError("own-key-unwritable", path=str(private), detail=error.strerror or str(error)) from error
    line = _line(private)
    if not public_file(private).exists():
        try:
            durable.write_private(public_file(private), line + "\n")
        except OSError:
            pass  # it is for the user's eyes only
    return line


def _made() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    made = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    return made.decode("ascii")


def _line(private: Path) -> str:
    """`ssh-ed25519 BLOB cloudrun@LAPTOP`: who finds the line on a box sees where it is from."""
    key = keys.load(private, _Nobody())
    name = re.sub(r"[^A-Za-z0-9._-]", "", socket.gethostname())[:60]
    return f"{key.get_name()} {key.get_base64()} cloudrun@{name or 'laptop'}"


class _Nobody:
    """Our key has no passphrase; one that the user gave it is theirs to take away."""

    def accept_host_key(self, host: str, key_type: str, fingerprint: str, known: str = "") -> bool:
        return False

    def password(self, prompt: str) -> str:
        raise CloudrunError("nobody-to-type", prompt=prompt.rstrip(": "))
