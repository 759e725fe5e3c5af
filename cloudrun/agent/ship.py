"""Gets the agent going on the box: one exec where it is there, two and a file where it is not."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cloudrun import i18n
from cloudrun.agent import archive, bootstrap
from cloudrun.agent.reading import ChannelReader, ended_early
from cloudrun.errors import CloudrunError
from cloudrun.transport.base import Channel, Transport
from remote_agent import protocol

#: A box under load, with a slow home, that looks for a Python.
HELLO_TIMEOUT_S = 60.0
#: The same and the unpacking, behind another laptop's.
INSTALL_TIMEOUT_S = 180.0


@dataclass(frozen=True)
class Session:
    """An agent that said hello; the next words are ours."""

    channel: Channel
    reader: ChannelReader
    hello: protocol.Hello


@dataclass(frozen=True)
class _Place:
    """Where the archive goes, and the Python that unpacks it."""

    root: str
    python: str
    has_zlib: bool


class Shipper:
    """One start of the agent. `progress` is told the bytes of the archive as they go."""

    def __init__(
        self, transport: Transport, start: bootstrap.Start, progress: Callable[[int], None] | None = None
    ) -> None:
        self._transport = transport
        self._start = start
        self._progress = progress

    def run(self) -> Session:
        """Raises CloudrunError."""
        answer = self._ask(reprobe=False)
        if isinstance(answer, CloudrunError) or "too_old" in _asdict(answer):
            # The Python that was recorded is gone or another one by now: look for one again.
            answer = self._ask(reprobe=True)
        if isinstance(answer, CloudrunError):
            raise answer
        for _attempt in range(2):
            if isinstance(answer, Session):
                return answer
            if "damaged" not in answer:
                place = self._place(answer)
            answer = self._install(place)
        if isinstance(answer, Session):
            return answer
        what = str(answer.get("broken", f"{answer.get('damaged')} bytes"))
        raise CloudrunError("agent-damaged", host=self._transport.address.shown, what=what)

    def _ask(self, *, reprobe: bool) -> Session | dict[str, Any] | CloudrunError:
        """A session, or what the box said in the hello's place, or how it ended without a word of ours."""
        command = bootstrap.start_command(self._start, reprobe=reprobe)
        try:
            return self._exec(command, HELLO_TIMEOUT_S, through_shell=True)
        except CloudrunError as error:
            if error.code != "agent-start-failed" or reprobe:
                raise
            return error

    def _install(self, place: _Place) -> Session | dict[str, Any]:
        packed = archive.installed().zipped(compressed=place.has_zlib)
        part = f"{place.root}/.part-{self._start.nonce}"
        self._transport.put(packed, part, 0o600, self._progress)
        command = bootstrap.install_command(self._start, place.python, part, hashlib.sha256(packed).hexdigest())
        answer = self._exec(command, INSTALL_TIMEOUT_S)
        if isinstance(answer, dict) and "failed" in answer:
            code = "agent-no-space" if answer.get("full") else "agent-install-failed"
            raise CloudrunError(code, root=place.root, reason=str(answer["failed"]))
        return answer

    def _place(self, missing: dict[str, Any]) -> _Place:
        root, python = missing.get("root"), missing.get("python")
        if not isinstance(python, str) or not python:
            raise CloudrunError("agent-no-python", tried=_tried(str(missing.get("tried", ""))))
        if not isinstance(root, str) or not root:
            raise CloudrunError("agent-no-folder", home=str(missing.get("home", "?")))
        return _Place(root, python, has_zlib=not missing.get("plain"))

    def _exec(self, command: str, timeout_s: float, *, through_shell: bool = False) -> Session | dict[str, Any]:
        """`through_shell`: whether the login shell comes to our command is not known yet."""
        channel = self._transport.exec(command)
        reader = ChannelReader(channel)
        try:
            hello = self._hello(reader, timeout_s, bootstrap.reached(self._start.nonce) if through_shell else b"")
        except BaseException:
            channel.close()
            raise
        if "version" in hello and "agent" in hello:
            return Session(channel, reader, protocol.decode(protocol.Hello, hello))
        channel.close()  # before the next one is opened: some boxes allow a single session
        return hello

    def _hello(self, reader: ChannelReader, timeout_s: float, first: bytes) -> dict[str, Any]:
        """`first`: what stands before anything of the agent's; the login shell is to blame where it does not come."""
        host = self._transport.address.shown
        try:
            return reader.hello(self._start.nonce, timeout_s)
        except EOFError as error:
            code = "agent-start-failed" if first in reader.heard else "shell-ended"
            raise ended_early(reader, code, first, host=host) from error
        except TimeoutError as error:
            code = "agent-start-timeout" if first in reader.heard else "shell-waits"
            raise ended_early(reader, code, first, host=host, timeout_s=round(timeout_s)) from error
        except ValueError as error:
            if str(error).startswith("protocol "):
                raise CloudrunError("agent-version", host=host, theirs=str(error).split()[1], ours=protocol.VERSION) from error
            code = "agent-start-failed" if first in reader.heard else "shell-talks"
            raise ended_early(reader, code, first, host=host, size_mb=len(reader.heard) >> 20) from error


def start_agent(
    transport: Transport, host_python: str | None, mode: str, arguments: tuple[str, ...] = (),
    progress: Callable[[int], None] | None = None,
) -> Session:
    """The agent in this mode, shipped first where the box has not got it. Raises CloudrunError."""
    spoken = i18n.spoken()
    if spoken != "en":
        arguments = (*arguments, "--lang", spoken)
    start = bootstrap.Start(archive.installed().sha12, secrets.token_hex(8), mode, host_python or "", arguments)
    return Shipper(transport, start, progress).run()


def _asdict(answer: Session | dict[str, Any]) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else {}


def _tried(text: str) -> str:
    """`python3:3006|python:|` as people read it."""
    shown = []
    for entry in filter(None, text.split("|")):
        name, _, number = entry.rpartition(":")
        if number.isdigit():
            shown.append(f"{name} ({int(number) // 1000}.{int(number) % 1000})")
        else:
            shown.append(name)
    return ", ".join(shown)
