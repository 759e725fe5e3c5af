"""One SSH connection: paramiko's transport with what it lacks, an ear for dead links above all."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Any

import paramiko

from cloudrun.transport import legacy
from cloudrun.transport.hostkeys import HostKey
from cloudrun.transport.tcp import OUR_VERSION
from cloudrun.transport.wire import WatchedSocket

#: One channel's window: what may be under way at once; over a link of 200 ms it allows 40 MB/s.
WINDOW_BYTES = 8 * 1024 * 1024
PACKET_BYTES = 64 * 1024
#: Fastest first, as measured in pure Python: one AES-GCM call does what CTR and a separate checksum do in two.
FAST_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")

# What paramiko's threads have to say goes to its logger; without a handler Python would print it over the user's screen.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class Link(paramiko.Transport):
    """A connection that notices within `dead_after_s` that nobody is there any more, and then ends every wait on it."""

    def __init__(self, socket: WatchedSocket, dead_after_s: float) -> None:
        super().__init__(
            socket,  # type: ignore[arg-type]  # the stubs know plain sockets only; any object with a socket's few methods will do
            default_window_size=WINDOW_BYTES,
            default_max_packet_size=PACKET_BYTES,
        )
        self.local_version = OUR_VERSION
        self.watched = socket
        self.force_sha1 = False
        self._ask_every_s = dead_after_s / 3
        self._ended = threading.Event()
        options = self.get_security_options()
        options.ciphers = tuple(dict.fromkeys([*FAST_CIPHERS, *options.ciphers]))

    @property
    def preferred_pubkeys(self) -> tuple[str, ...]:
        """Asked by paramiko when it signs, which is after the server has said what it takes."""
        usual: tuple[str, ...] = self._filter_algorithm("pubkeys")  # type: ignore[attr-defined]
        return legacy.signature_names(usual, self._extensions, force_sha1=self.force_sha1)

    @property
    def says_signatures(self) -> bool:
        """Whether the server told which signatures it takes; very old ones do not."""
        return "server-sig-algs" in self._extensions

    @property
    def used_sha1(self) -> bool:
        """Whether the login's signature had to be of the old kind."""
        return getattr(self, "_agreed_pubkey_algorithm", "") == legacy.SHA1_NAME

    @property
    def _extensions(self) -> dict[str, Any]:
        return dict(self.server_extensions)  # type: ignore[attr-defined]

    def server_key(self) -> HostKey:
        key = self.get_remote_server_key()
        return HostKey(key.get_name(), key.asbytes())

    def prefer_host_keys(self, algorithms: tuple[str, ...]) -> None:
        self.get_security_options().key_types = algorithms

    def offered_host_keys(self) -> tuple[str, ...]:
        return tuple(self.get_security_options().key_types)

    def run(self) -> None:
        """The reader thread. Whatever happens in it ends this connection and never reaches the user's screen as a traceback."""
        try:
            super().run()
        except Exception as error:
            self.saved_exception = error
            logging.getLogger("paramiko.transport").debug("reader thread ended", exc_info=True)
        finally:
            self._ended.set()

    def keep_asking(self) -> None:
        """Begins to ask the server whether it is there (after the login; before it no such question is allowed)."""
        threading.Thread(target=self._ask, name="ssh-alive", daemon=True).start()

    def _ask(self) -> None:
        while not self._ended.wait(self._ask_every_s):
            self.watched.asked()
            # A refusal is an answer too; only silence counts, and the socket counts it.
            with contextlib.suppress(Exception):
                self.global_request("keepalive@openssh.com", wait=True)

    def close(self) -> None:
        """Ends the connection, at once where the other end is dead."""
        if self.watched.dead:
            self.active = False
        self._ended.set()
        super().close()

    def failure(self) -> Exception | None:
        """Why the connection ended, as far as is known. (Reading it from paramiko forgets it.)"""
        error: Any = self.get_exception()
        return error if isinstance(error, Exception) else None
