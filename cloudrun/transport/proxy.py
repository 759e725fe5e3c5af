"""ProxyCommand: a program of the user's whose stdin and stdout are the way to the box."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from typing import IO

_CHUNK = 64 * 1024


class ProxyProgram:
    """The running program. `socket` is our end of it: a real socket, so that time-outs work on it on every system.

    The command is text for the user's shell, as ssh documents it: it is the user's own, from their own ssh configuration.
    """

    def __init__(self, command: str) -> None:
        text = f"exec {command}" if os.name == "posix" else command
        self._process = subprocess.Popen(
            text, shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
        )
        self.socket, self._inner = socket.socketpair()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        threading.Thread(target=self._outward, args=(self._process.stdin,), name="proxy-out", daemon=True).start()
        threading.Thread(target=self._inward, args=(self._process.stdout,), name="proxy-in", daemon=True).start()

    def _outward(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := self._inner.recv(_CHUNK):
                stream.write(data)
        self._stop()

    def _inward(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(stream.fileno(), _CHUNK):
                self._inner.sendall(data)
        with contextlib.suppress(OSError):
            self._inner.shutdown(socket.SHUT_WR)
        self._stop()

    def _stop(self) -> None:
        """Ends the program and waits for it; called by both directions, the second finds it done."""
        with contextlib.suppress(OSError):
            self._process.terminate()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(2)
