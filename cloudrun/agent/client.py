"""Requests and answers with the agent, on one exec."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cloudrun.agent.reading import ChannelReader, ended_early
from cloudrun.agent.ship import Session, start_agent
from cloudrun.errors import CloudrunError
from cloudrun.transport.base import Channel, Transport
from remote_agent import protocol

OnEvent = Callable[[dict[str, Any]], None]
#: Operations that change nothing: when the connection ends first there is no outcome to wonder about.
_READ_ONLY = frozenset(("ps", "gpu", "doctor", "prepare", "attach"))
#: Number of the request that came with the start; the others begin at 1.
_ID_AHEAD = 0


@dataclass(frozen=True)
class Question:
    """A request that changes nothing and holds nothing secret: it may travel in the command that starts the agent."""

    op: str
    params: dict[str, Any]


@dataclass(frozen=True)
class _Asked:
    """One request under way."""

    number: int
    op: str
    on_event: OnEvent | None
    timeout_s: float


class AgentClient:
    """An agent that answers requests. One at a time; several may follow one another."""

    def __init__(self, session: Session, host: str, ahead: Question | None = None) -> None:
        self.hello = session.hello
        self._ahead = ahead
        self._host = host
        self._channel: Channel = session.channel
        self._reader: ChannelReader = session.reader
        self._number = 0

    @classmethod
    def open(
        cls, transport: Transport, host_python: str | None, progress: Callable[[int], None] | None = None,
        ahead: Question | None = None,
    ) -> AgentClient:
        """Starts the agent; ships it first where it is not there. `host_python`: as the host's settings name it.

        `ahead` is asked with the start, which spares a round trip; a first `call` of just that waits for its answer.
        """
        asked = () if ahead is None else ("--ask", json.dumps(dict(ahead.params, id=_ID_AHEAD, op=ahead.op)))
        return cls(start_agent(transport, host_python, "rpc", asked, progress), transport.address.shown, ahead)

    def call(
        self, op: str, params: dict[str, Any], on_event: OnEvent | None = None, timeout_s: float = 60.0
    ) -> Any:
        """The result of one operation. `timeout_s`: the longest silence; an event begins it anew.

        Raises CloudrunError: the agent's own; where the connection ended first "outcome-unknown", or "connection-lost" for an
        operation that only reads; where the box was silent "agent-silent", or "box-silent" for such a one.
        """
        return self.call_with_stream(op, params, (), on_event, timeout_s)

    def call_with_stream(
        self, op: str, params: dict[str, Any], chunks: Iterable[bytes], on_event: OnEvent | None = None,
        timeout_s: float = 60.0,
    ) -> Any:
        """`call`, with raw bytes after the request. An answer that comes before they are all sent ends the sending."""
        ahead, self._ahead = self._ahead, None
        if ahead == Question(op, params):
            asked, request = _Asked(_ID_AHEAD, op, on_event, timeout_s), b""
        else:
            self._number += 1
            asked = _Asked(self._number, op, on_event, timeout_s)
            request = protocol.dump_line(dict(params, id=asked.number, op=op))
        try:
            early = self._send(asked, request, chunks)
            return early[0] if early is not None else self._answer(asked)
        except EOFError as error:
            raise self._ended(op) from error
        except TimeoutError as error:
            code = "box-silent" if op in _READ_ONLY else "agent-silent"
            raise CloudrunError(code, host=self._host, op=op, timeout_s=round(timeout_s)) from error
        except ValueError as error:
            raise CloudrunError("agent-protocol", detail=str(error)) from error
        except CloudrunError as error:
            if error.code == "connection-lost" and op not in _READ_ONLY:
                raise CloudrunError("outcome-unknown", op=op, said="", stderr="") from error
            raise

    def close(self) -> None:
        """Ends the agent by ending its input. What it has begun it finishes."""
        try:
            self._channel.send_eof()
        except (OSError, CloudrunError):
            pass
        self._channel.close()

    def _ended(self, op: str) -> CloudrunError:
        """The error for a stream that ended before the answer. Of an operation that only reads a crash is told apart."""
        if op not in _READ_ONLY:
            return ended_early(self._reader, "outcome-unknown", op=op)
        try:
            crashed = bool(self._channel.exit_status(2.0))
        except TimeoutError:
            crashed = False
        if crashed:
            return ended_early(self._reader, "agent-crashed")
        return CloudrunError("connection-lost", host=self._host)

    def _send(self, asked: _Asked, request: bytes, chunks: Iterable[bytes]) -> tuple[Any] | None:
        """Sends all there is to send; an answer that came meanwhile, if one did."""
        try:
            self._channel.send(request, asked.timeout_s)
            for chunk in chunks:
                early = self._heard(asked, self._reader.waiting_message())
                if early is not None:
                    return early
                self._channel.send(chunk, asked.timeout_s)
        except BrokenPipeError:  # it reads no more; why, it may have said
            return None
        except TimeoutError:
            if self._heard(asked, self._reader.waiting_message()) is None:
                raise
        return None

    def _answer(self, asked: _Asked) -> Any:
        while True:
            heard = self._heard(asked, self._reader.message(asked.timeout_s))
            if heard is not None:
                return heard[0]

    def _heard(self, asked: _Asked, message: dict[str, Any] | None) -> tuple[Any] | None:
        """The result, in a tuple since it may be None; None for what is no end of this request."""
        if message is None or message.get("id") != asked.number:
            return None
        if "result" in message:
            return (message["result"],)
        error = message.get("error")
        if isinstance(error, dict):
            params = error.get("params")
            raise CloudrunError(str(error.get("code")), **(params if isinstance(params, dict) else {}))
        if "event" in message and asked.on_event:
            asked.on_event(message)
        return None
