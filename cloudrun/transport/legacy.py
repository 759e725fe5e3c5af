"""Servers from before 2016 take RSA keys with SHA-1 signatures only; paramiko no longer makes those.

They are made here for the login alone, and only to a server that lists nothing better: the key stays as it is, and a
signature over a fresh session is of no use to anybody else.
"""

from __future__ import annotations

from typing import Any

import paramiko
from cryptography.hazmat.primitives import hashes

SHA1_NAME = "ssh-rsa"


class LegacyRsaKey(paramiko.RSAKey):
    """An RSA key that can sign in the old way too."""

    HASHES = {**paramiko.RSAKey.HASHES, SHA1_NAME: hashes.SHA1}  # type: ignore[misc]


def signature_names(usual: tuple[str, ...], extensions: dict[str, Any], *, force_sha1: bool) -> tuple[str, ...]:
    """The signature algorithms to choose from, given what the server says it takes (`server-sig-algs`; old ones say nothing)."""
    listed = extensions.get("server-sig-algs", b"")
    names = (listed.decode("ascii", "replace") if isinstance(listed, bytes) else str(listed)).split(",")
    only_old = SHA1_NAME in names and not any(name.startswith("rsa-sha2-") for name in names)
    if not (force_sha1 or only_old):
        return usual
    return (*(name for name in usual if "rsa" not in name), SHA1_NAME)
