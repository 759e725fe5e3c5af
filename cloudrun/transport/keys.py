"""Private keys from files: what kind of file it is decides what is said, before any server is asked."""

from __future__ import annotations

import base64
import binascii
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.transport.base import Asker

if TYPE_CHECKING:
    import paramiko

USUAL = ("id_ed25519", "id_ecdsa", "id_rsa")
PASSPHRASE_TRIES = 3
_OPENSSH = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_MAGIC = b"openssh-key-v1\0"
_PUBLIC = (b"ssh-", b"ecdsa-", b"sk-", b"---- BEGIN SSH2 PUBLIC", b"-----BEGIN PUBLIC")


def usual_files(home: Path) -> list[Path]:
    """The files that ssh itself would try, those that are there."""
    return [path for path in (home / ".ssh" / name for name in USUAL) if path.is_file()]


def read(path: Path) -> bytes:
    """The file, if it is a private key's. Raises CloudrunError that says what it is instead."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CloudrunError("key-unreadable", file=str(path), detail=error.strerror or str(error)) from error
    start = data.lstrip()
    if not start:
        raise CloudrunError("key-empty", file=str(path))
    if start.startswith(_PUBLIC):
        raise CloudrunError("key-is-public", file=str(path), private=str(path).removesuffix(".pub"))
    if start.startswith(b"PuTTY-User-Key-File"):
        raise CloudrunError("key-putty", file=str(path))
    if b"PRIVATE KEY-----" not in start:
        raise CloudrunError("key-not-a-key", file=str(path))
    return data


def is_locked(data: bytes) -> bool:
    """Whether the key needs a passphrase."""
    head = _openssh_head(data)
    return head[0] != b"none" if head else b"ENCRYPTED" in data


def public_blob(data: bytes) -> bytes | None:
    """The public half (wire form), which an OpenSSH key file shows without its passphrase; None for other formats."""
    head = _openssh_head(data)
    return head[1] if head else None


def _openssh_head(data: bytes) -> tuple[bytes, bytes] | None:
    """(cipher, public blob) of an OpenSSH key file: magic, cipher, kdf, kdf options, number of keys, public key."""
    if _OPENSSH not in data:
        return None
    body = data.split(_OPENSSH, 1)[1].split(b"-----END", 1)[0]
    try:
        packed = base64.b64decode(b"".join(body.split()), validate=True)
        if not packed.startswith(_MAGIC):
            return None
        cipher, rest = _string(packed[len(_MAGIC) :])
        _kdf, rest = _string(rest)
        _options, rest = _string(rest)
        blob, _rest = _string(rest[4:])
    except (binascii.Error, IndexError):
        return None
    return cipher, blob


def _string(data: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(data[:4], "big")
    if len(data) < 4 + size:
        raise IndexError("cut short")
    return data[4 : 4 + size], data[4 + size :]


def load(path: Path, asker: Asker) -> paramiko.PKey:
    """The key; its passphrase is asked for where it needs one. Raises CloudrunError."""
    data = read(path)
    if not is_locked(data):
        try:
            return _as_paramiko(_decrypt(data, None), path)
        except ValueError as error:
            raise CloudrunError("key-broken", file=str(path), detail=str(error)) from error
    for _try in range(PASSPHRASE_TRIES):
        try:
            passphrase = asker.password(_("passphrase of {path}: ").format(path=path))
        except CloudrunError as error:
            raise CloudrunError("key-locked", file=str(path)) from error
        try:
            return _as_paramiko(_decrypt(data, passphrase.encode()), path)
        except ValueError:
            continue
    raise CloudrunError("key-passphrase", file=str(path))


def _decrypt(data: bytes, passphrase: bytes | None) -> Any:
    """A key object of `cryptography`. Raises ValueError for a wrong passphrase and for a file that is broken."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    load = serialization.load_ssh_private_key if _OPENSSH in data else serialization.load_pem_private_key
    try:
        return load(data, passphrase)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(str(error)) from error


def _as_paramiko(key: Any, path: Path) -> paramiko.PKey:
    import paramiko
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    from cloudrun.transport.legacy import LegacyRsaKey

    classes: list[tuple[type, type[paramiko.PKey]]] = [
        (ed25519.Ed25519PrivateKey, paramiko.Ed25519Key),
        (ec.EllipticCurvePrivateKey, paramiko.ECDSAKey),
        (rsa.RSAPrivateKey, LegacyRsaKey),
    ]
    chosen = next((made for kind, made in classes if isinstance(key, kind)), None)
    if chosen is None:
        raise CloudrunError("key-kind", file=str(path), kind=type(key).__name__)
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    loaded = chosen.from_private_key(io.StringIO(plain.decode()))
    certificate = path.with_name(path.name + "-cert.pub")
    if certificate.is_file():
        loaded.load_certificate(str(certificate))
    return loaded
