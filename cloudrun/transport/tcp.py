"""The TCP connection to a box, and one begun while the SSH library is still being loaded: each takes a tenth of a second."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from typing import cast

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.transport.base import Address
from cloudrun.transport.wire import Pipe

#: How we present ourselves; in SSH each side says so without waiting for the other.
OUR_VERSION = "SSH-2.0-cloudrun"
GREETING = OUR_VERSION.encode() + b"\r\n"


class NotReady(Exception):
    """The box may only be starting up: worth another try. Carries what to say when it stays so."""


def tcp(address: Address, deadline: float) -> Pipe:
    """A TCP connection. Raises NotReady, CloudrunError."""
    rest_s = max(0.5, deadline - time.monotonic())
    try:
        connected = socket.create_connection((address.hostname, address.port), timeout=rest_s)
    except socket.gaierror as error:
        raise CloudrunError("host-name-unknown", host=address.hostname, detail=error.strerror) from error
    except (ConnectionRefusedError, ConnectionResetError, ConnectionAbortedError) as error:
        raise NotReady(_("the connection is refused ({detail})").format(detail=error.strerror)) from error
    except OSError as error:
        if error.errno == errno.EHOSTUNREACH:  # said of a box whose network comes up, too
            raise NotReady(_("it is not on the network ({detail})").format(detail=error.strerror)) from error
        if not isinstance(error, TimeoutError):
            raise CloudrunError("unreachable", host=address.shown, detail=error.strerror or str(error)) from error
        detail = _("no answer within {seconds:.0f} s").format(seconds=rest_s)
        raise CloudrunError("unreachable", host=address.shown, detail=detail) from error
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return cast(Pipe, connected)


class Ahead:
    """A connection on which our greeting has been sent, or why there is none. It is taken once."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._connected: Pipe | None = None
        self._failure: Exception | None = None
        self._dropped = False
        self._dialling = threading.Thread(target=self._dial, args=(address, timeout_s), name="tcp-ahead", daemon=True)
        self._dialling.start()

    def take(self) -> Pipe:
        """Waits for it. Raises as `tcp` does."""
        while self._dialling.is_alive():
            self._dialling.join(0.25)
        if self._failure is not None:
            raise self._failure
        connected, self._connected = self._connected, None
        assert connected is not None, "taken twice"
        return connected

    def drop(self) -> None:
        """Closes it, now or when it comes; one that was taken is its taker's."""
        self._dropped = True
        if self._connected is not None:
            self._connected.close()

    def _dial(self, address: Address, timeout_s: float) -> None:
        try:
            connected = tcp(address, time.monotonic() + timeout_s)
        except Exception as error:
            self._failure = error
            return
        with contextlib.suppress(OSError):  # who hung up already is met again when it is listened to
            connected.send(GREETING)
        self._connected = connected
        if self._dropped:
            connected.close()
