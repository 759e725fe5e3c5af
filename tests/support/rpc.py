"""One request to an operation of the agent through its real server loop, in this process."""

from __future__ import annotations

import io
import json
from typing import Any

from remote_agent.protocol import AgentError
from remote_agent.rpc.server import Operation, serve


def ask(op: str, operation: Operation, **body: Any) -> Any:
    """The result as the laptop gets it. Raises AgentError where the operation did."""
    out = io.BytesIO()
    serve({op: operation}, io.BytesIO(json.dumps({"id": 1, "op": op, **body}).encode() + b"\n"), out)
    answer = json.loads(out.getvalue().splitlines()[-1])
    if "error" in answer:
        raise AgentError(answer["error"]["code"], **answer["error"]["params"])
    return answer["result"]
