"""The socket beneath SSH, with an ear on it: it knows when something was heard last, and when the other end is dead.

A frozen or vanished box leaves a connection that looks alive for ever. So questions with an answer wanted are asked
(see `Link`), and this socket counts how long it has waited in vain since one was asked. It counts the waits
themselves and not the clock: a laptop that slept, or a program that was stopped, has not waited.
"""

from __future__ import annotations

import errno
from typing import Protocol

from cloudrun.i18n import _

FIRST_BYTES = 1024
_CHUNK = 256 * 1024


class Pipe(Protocol):
    """What SSH needs of a socket; a channel through a jump host is one too."""

    def recv(self, size: int, /) -> bytes: ...

    def send(self, data: bytes, /) -> int: ...

    def settimeout(self, timeout: float | None, /) -> None: ...

    def close(self) -> None: ...


class WatchedSocket:
    """Passes bytes; raises ConnectionAbortedError once the other end has been silent for `dead_after_s` although asked."""

    def __init__(self, below: Pipe, dead_after_s: float, said: bytes = b"") -> None:
        self._below = below
        #: What was sent on it before, and is sent by whoever uses it now as if it were the first word.
        self._said = said
        self._dead_after_s = dead_after_s
        self._poll_s = 0.1
        self._held = memoryview(b"")
        self._asked = False
        self._silent_s = 0.0
        self._stuck_s = 0.0
        #: The first bytes that came, to show when they turn out not to be SSH.
        self.first = b""
        self.dead = False
        self._closed = False

    def asked(self) -> None:
        """A question is under way: from now on silence counts."""
        if not self._asked:
            self._silent_s = 0.0
        self._asked = True

    def recv(self, size: int) -> bytes:
        if not self._held:
            self._held = memoryview(self._hear())
        taken = bytes(self._held[:size])
        self._held = self._held[size:]
        return taken

    def _hear(self) -> bytes:
        try:
            data = self._below.recv(_CHUNK)
        except TimeoutError:
            if self._asked:
                self._silent_s += self._poll_s
                self._judge(self._silent_s)
            raise
        self._asked = False
        self._stuck_s = 0.0
        if len(self.first) < FIRST_BYTES:
            self.first += data[: FIRST_BYTES - len(self.first)]
        return data

    def send(self, data: bytes) -> int:
        if self._said and data == self._said:
            self._said = b""
            return len(data)
        try:
            sent = self._below.send(data)
        except TimeoutError:
            self._stuck_s += self._poll_s
            self._judge(self._stuck_s)
            raise
        self._stuck_s = 0.0
        return sent

    def _judge(self, waited_s: float) -> None:
        if waited_s >= self._dead_after_s:
            self.dead = True
            raise ConnectionAbortedError(errno.ECONNABORTED, _("the other end no longer answers"))

    def settimeout(self, timeout: float | None) -> None:
        self._poll_s = timeout or self._poll_s
        self._below.settimeout(timeout)

    def close(self) -> None:
        self._closed = True  # paramiko looks at a socket's own mark
        self._below.close()
