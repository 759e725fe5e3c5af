"""A link that fails: a TCP proxy on loopback that cuts, or falls silent, where it is told to."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable

_CHUNK = 4096


class Cutting:
    """Stands before a port. `up` and `down` count the bytes of the connection that is under way; each connection has a plan.

    A plan is asked before a piece is passed on, with the bytes passed so far in each direction; it says how many bytes may
    still pass in that direction before the cut: None, no end.
    """

    def __init__(self, port: int) -> None:
        self._goal = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        #: Plans for connections to come, in order; later ones pass unharmed.
        self.plans: list[Callable[[str, dict[str, int]], int | None]] = []
        #: How a cut looks: "reset", "end" (FIN) or "silent" (nothing passes, nothing is said).
        self.manner = "reset"
        self.cuts = 0
        self.connections = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._closed = threading.Event()
        threading.Thread(target=self._serve, name="cutting", daemon=True).start()

    def cut_after(self, direction: str, count: int) -> None:
        """The next connection that has none yet is cut when that many bytes have passed "up" or "down"."""
        self.plans.append(lambda way, passed: max(0, count - passed[way]) if way == direction else None)

    def cut_now(self) -> None:
        """Ends all that is under way."""
        for caller, box in list(self._pairs):
            self._end(caller, box)

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.manner = "reset"
        self.cut_now()

    def __enter__(self) -> Cutting:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                caller, _address = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            plan = self.plans.pop(0) if self.plans else None
            threading.Thread(target=self._pass, args=(caller, plan), name="cutting-link", daemon=True).start()

    def _pass(self, caller: socket.socket, plan: Callable[[str, dict[str, int]], int | None] | None) -> None:
        try:
            box = socket.create_connection(("127.0.0.1", self._goal), timeout=10)
        except OSError:
            caller.close()
            return
        self._pairs.append((caller, box))
        passed = {"up": 0, "down": 0}
        try:
            while not self._closed.is_set():
                ready, _w, _x = select.select([caller, box], [], [], 1.0)
                for source in ready:
                    way, goal = ("up", box) if source is caller else ("down", caller)
                    data = source.recv(_CHUNK)
                    if not data:
                        return
                    allowed = plan(way, passed) if plan is not None else None
                    goal.sendall(data if allowed is None else data[:allowed])
                    passed[way] += len(data) if allowed is None else min(allowed, len(data))
                    if allowed is not None and allowed <= len(data):
                        self.cuts += 1
                        if self.manner == "silent":
                            self._closed.wait()
                        return
        except (OSError, ValueError):
            return
        finally:
            self._end(caller, box)

    def _end(self, caller: socket.socket, box: socket.socket) -> None:
        for one in (caller, box):
            with contextlib.suppress(OSError):
                if self.manner == "reset":
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    one.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError):
                one.close()
        with contextlib.suppress(ValueError):
            self._pairs.remove((caller, box))
