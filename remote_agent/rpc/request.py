"""What operations share: a request's body as its record, and the data disk that it means."""

from __future__ import annotations

import os
from typing import Any, Optional, Type, TypeVar

from remote_agent import protocol
from remote_agent.protocol import RUN_NAME, AgentError

T = TypeVar("T")


def request_of(kind: Type[T], body: Any) -> T:
    """The request's body as the record it is to be. Raises AgentError("bad-request") that names the field."""
    try:
        return protocol.decode(kind, body)
    except ValueError as error:
        raise AgentError("bad-request", detail=str(error)) from error


def data_dir_of(configured: Optional[str]) -> str:
    """The folder on the data disk that `cloudrun/` stands in, without links: it is a run's identity."""
    from remote_agent import disk
    return os.path.realpath(disk.data_disk(configured).path)


def check_name(name: str) -> str:
    """The name, where it may be a run's. Raises AgentError("bad-run-name") that says which character is wrong."""
    if RUN_NAME.match(name):
        return name
    wrong = [c for i, c in enumerate(name) if not (c.isascii() and (c.isalnum() or (i and c in "_-")))]
    raise AgentError("bad-run-name", run=name, character=wrong[0] if wrong else "", length=len(name))
