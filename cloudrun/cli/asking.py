"""Questions that a connection may have, on the user's terminal."""

from __future__ import annotations

import getpass
import sys

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.transport.base import Asker


class TerminalAsker:
    """Asks on stderr and reads the terminal; where there is none it refuses. What is typed as a secret is not shown.

    One for each connection. `memory` holds what was typed for connections before: it is tried first, once. `silent`: the
    terminal belongs to somebody else now, and nothing may be written on it.
    """

    def __init__(self, memory: dict[str, str], *, silent: bool = False) -> None:
        self._memory = memory
        self._silent = silent
        self._tried: set[str] = set()

    def accept_host_key(self, host: str, key_type: str, fingerprint: str, known: str = "") -> bool:
        if self._silent or not _has_terminal():
            code = "host-key-not-replaced" if known else "host-key-unknown"
            raise CloudrunError(code, host=host, kind=key_type, fingerprint=fingerprint, old=known)
        words = _("First contact with {host}. Its {kind} key is\n  {fingerprint}\nCompare it with the provider's page. Trust it?")
        if known:
            words = _("{host} shows another key than the known one.\n  known: {old}\n  now:   {fingerprint} ({type})\n"
                      "Right only if the instance was made anew, or a new one has taken over this address: compare with the\n"
                      "provider's page. Trust the new one?")
        question = words.format(
            host=host, kind=key_type.removeprefix("ssh-"), type=key_type, fingerprint=fingerprint, old=known)
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes", "是")

    def password(self, prompt: str) -> str:
        if prompt in self._memory and prompt not in self._tried:
            self._tried.add(prompt)
            return self._memory[prompt]
        if self._silent or not _has_terminal():
            raise CloudrunError("nobody-to-type", prompt=prompt.rstrip(": "))
        self._tried.add(prompt)
        self._memory[prompt] = getpass.getpass(prompt, stream=sys.stderr)
        return self._memory[prompt]


class Expecting:
    """Trusts the one host key whose fingerprint was given; asks `below` for all the rest."""

    def __init__(self, fingerprint: str, below: Asker) -> None:
        self._fingerprint = fingerprint.strip().removeprefix("SHA256:").rstrip("=")
        self._below = below

    def accept_host_key(self, host: str, key_type: str, fingerprint: str, known: str = "") -> bool:
        if fingerprint.removeprefix("SHA256:") == self._fingerprint:
            return True
        raise CloudrunError("host-key-not-expected", host=host, fingerprint=fingerprint, kind=key_type)

    def password(self, prompt: str) -> str:
        return self._below.password(prompt)


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
