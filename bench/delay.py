"""A link with a delay: passes TCP on to a port of this machine, each byte later by half the round trip each way.

Run: python bench/delay.py PORT ROUND_TRIP_MS; prints the port it listens on. A process of its own, so that it takes no
time from what is measured. It limits no bandwidth: what is under way is held in memory, as a long line holds it. The
handshake of TCP costs a round trip too: the box is dialled, and our first bytes go out, when they would on such a line.
"""

from __future__ import annotations

import queue
import socket
import sys
import threading
import time

CHUNK_BYTES = 256 * 1024


class Line:
    """One direction of one connection."""

    def __init__(self, source: socket.socket, delay_s: float, not_before: float = 0.0) -> None:
        self._source = source
        self._delay_s, self._not_before = delay_s, not_before
        self._under_way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        threading.Thread(target=self._take, daemon=True).start()

    def lead_to(self, goal: socket.socket) -> None:
        threading.Thread(target=self._give, args=(goal,), daemon=True).start()

    def _take(self) -> None:
        data = b"."
        while data:
            try:
                data = self._source.recv(CHUNK_BYTES)
            except OSError:
                data = b""
            self._under_way.put((max(time.monotonic() + self._delay_s, self._not_before), data))

    def _give(self, goal: socket.socket) -> None:
        while True:
            due, data = self._under_way.get()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if not data:
                    goal.shutdown(socket.SHUT_WR)
                    return
                goal.sendall(data)
            except OSError:
                return


def serve(listener: socket.socket, port: int, round_trip_s: float) -> None:
    while True:
        caller, _ = listener.accept()
        threading.Thread(target=_join, args=(caller, port, round_trip_s), daemon=True).start()


def _join(caller: socket.socket, port: int, round_trip_s: float) -> None:
    """The caller believes itself connected now; on a line it would be in one round trip, and the box half of one later."""
    open_at = time.monotonic() + 1.5 * round_trip_s
    caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    up = Line(caller, round_trip_s / 2, not_before=open_at)
    time.sleep(1.5 * round_trip_s)
    box = socket.create_connection(("127.0.0.1", port))
    box.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    up.lead_to(box)
    Line(box, round_trip_s / 2).lead_to(caller)


def main() -> None:
    port, round_trip_s = int(sys.argv[1]), float(sys.argv[2]) / 1000
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        serve(listener, port, round_trip_s)


if __name__ == "__main__":
    main()
