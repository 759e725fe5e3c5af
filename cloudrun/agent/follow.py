"""The stream of a run's log: frames from the agent's `follow`, on one exec."""

from __future__ import annotations

import json
from typing import Any

from cloudrun.agent.reading import ended_early
from cloudrun.agent.ship import Session, start_agent
from cloudrun.errors import CloudrunError
from cloudrun.transport.base import Transport
from remote_agent import protocol

#: The agent speaks every five seconds; a stream that says nothing this long is dead.
SILENCE_S = 20.0
#: Resolving a run and finding its last lines on a slow disk.
FIRST_FRAME_S = 60.0


class FollowStream:
    """Frames, one by one. Raises CloudrunError("connection-lost") where the stream ends before its end."""

    def __init__(self, session: Session, host: str) -> None:
        self.hello = session.hello
        self._session = session
        self._host = host
        self._timeout_s = FIRST_FRAME_S

    def next(self) -> tuple[dict[str, Any], bytes]:
        """The next frame that says something. An `error` frame is raised as the error it is."""
        while True:
            header, payload = self._read()
            self._timeout_s = SILENCE_S
            if header["kind"] == "error":
                params = header.get("params")
                raise CloudrunError(str(header.get("code")), **(params if isinstance(params, dict) else {}))
            if header["kind"] != "alive":
                return header, payload

    def close(self) -> None:
        self._session.channel.close()

    def _read(self) -> tuple[dict[str, Any], bytes]:
        reader = self._session.reader
        try:
            return reader.frame(self._timeout_s)
        except TimeoutError as error:
            raise CloudrunError("connection-lost", host=self._host) from error
        except ValueError as error:
            raise CloudrunError("agent-protocol", detail=str(error)) from error
        except EOFError as error:
            # A crash of the agent's is no lost connection: asking again would find it again.
            if self._exit_status():
                raise ended_early(reader, "agent-crashed") from error
            raise CloudrunError("connection-lost", host=self._host) from error

    def _exit_status(self) -> int | None:
        try:
            return self._session.channel.exit_status(2.0)
        except TimeoutError:
            return None


def open_follow(transport: Transport, host_python: str | None, request: protocol.FollowRequest) -> FollowStream:
    """Starts the stream that the request asks for. Raises CloudrunError."""
    asked = ("--ask", json.dumps(protocol.encode(request)))  # with the start: a round trip is spared
    return FollowStream(start_agent(transport, host_python, "follow", asked), transport.address.shown)
