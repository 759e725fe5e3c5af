"""Requests and answers on one exec: one JSON object per line, several may follow one another."""

from __future__ import annotations

import json
from typing import Any, BinaryIO, Callable, Dict, Optional

from remote_agent.protocol import AgentError, dump_line, encode

MAX_REQUEST_BYTES = 64 << 20


class Call:
    """One request in work: its body, and the means to say how far it is. `stream` is read by operations that take raw frames."""

    def __init__(self, body: Dict[str, Any], stream: BinaryIO, out: BinaryIO) -> None:
        self.body = body
        self.stream = stream
        self._out = out
        #: The client no longer listens: there is nobody left to wait for.
        self.gone = False

    def event(self, kind: str, **params: Any) -> None:
        """An intermediate word: {"id", "event": kind, …}. A client that has left stops no work in hand."""
        if self.gone:
            return
        try:
            self._send(dict(params, event=kind))
        except BrokenPipeError:
            self.gone = True

    def result(self, value: Any) -> None:
        self._send({"result": encode(value)})

    def error(self, error: AgentError) -> None:
        self._send({"error": {"code": error.code, "params": error.params}})

    def _send(self, message: Dict[str, Any]) -> None:
        self._out.write(dump_line(dict(message, id=self.body.get("id"))))
        self._out.flush()


Operation = Callable[[Call], Any]


def serve(operations: Dict[str, Operation], stream: BinaryIO, out: BinaryIO, first: bytes = b"") -> None:
    """Answers `first`, where there is one, and then requests until the stream ends.

    An operation returns its result or raises AgentError.
    """
    while True:
        line, first = first or stream.readline(MAX_REQUEST_BYTES), b""
        if not line:
            return
        call = Call(_parse(line), stream, out)
        operation: Optional[Operation] = operations.get(str(call.body.get("op")))
        try:
            if operation is None:
                raise AgentError("unknown-operation", op=str(call.body.get("op")))
            call.result(operation(call))
        except AgentError as error:
            call.error(error)
        except BrokenPipeError:
            return
        except OSError as error:
            call.error(AgentError("box-os-error", errno=error.errno, reason=error.strerror or str(error),
                                  path=str(error.filename or "")))
        except Exception as error:
            import traceback
            call.error(AgentError("agent-defect", detail=repr(error), traceback=traceback.format_exc(limit=8)))


def _parse(line: bytes) -> Dict[str, Any]:
    try:
        body = json.loads(line.decode("utf-8"))
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
