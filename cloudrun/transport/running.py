"""One command from start to end: both streams drained at once, everything under one deadline."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field

from cloudrun.i18n import _
from cloudrun.transport.base import Transport

KEPT_BYTES = 64 * 1024 * 1024
#: What may still come after the exit code; a child in the background may hold the stream open for ever.
AFTER_EXIT_S = 0.3


@dataclass(frozen=True)
class Finished:
    """How a command ended. `exit_code` None: unknown. `output`: stdout, `KEPT_BYTES` at most; `errors`: its tail."""

    exit_code: int | None
    output: bytes = field(repr=False)
    errors: bytes = field(repr=False)


def run(transport: Transport, command: str, given: bytes = b"", timeout_s: float = 60.0) -> Finished:
    """Runs it with `given` on its stdin. Raises TimeoutError; CloudrunError("connection-lost", …)."""
    deadline = time.monotonic() + timeout_s
    channel = transport.exec(command)
    try:
        with contextlib.suppress(BrokenPipeError):
            channel.send(given, timeout_s)
        channel.send_eof()
        output = bytearray()
        code: int | None = None
        ended_at: float | None = None
        while True:
            try:
                data = channel.receive(1 << 20, 0.05)
            except TimeoutError:
                if ended_at is None:
                    with contextlib.suppress(TimeoutError):
                        code = channel.exit_status(0)
                        ended_at = time.monotonic()
                elif time.monotonic() - ended_at > AFTER_EXIT_S:
                    break
                if time.monotonic() > deadline:
                    raise TimeoutError(_("the command did not end within {seconds:.0f} s").format(seconds=timeout_s)) from None
                continue
            if not data:
                break
            output += data[: KEPT_BYTES - len(output)]
        if ended_at is None:
            code = channel.exit_status(max(0.1, deadline - time.monotonic()))
        return Finished(code, bytes(output), channel.stderr_tail())
    finally:
        channel.close()

