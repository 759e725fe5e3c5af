"""Mode `rpc`: the operations there are, and the process that serves them. Each imports its own parts when it is asked."""

from __future__ import annotations

import os
import signal
from typing import Any, Dict, List

from remote_agent.rpc.server import Call, Operation, serve


def main(arguments: List[str]) -> int:
    """`rpc --nonce N --agent SHA12 [--ask REQUEST] [--lang LANGUAGE]`: says hello, then answers until stdin ends. A request in
    work is finished."""
    from remote_agent.hello import option, say_hello
    from remote_agent.protocol import wire_streams
    from remote_agent.words import speak
    _outlive_the_link()
    speak(option(arguments, "--lang"))
    stream, out = wire_streams()
    try:
        say_hello(out, option(arguments, "--nonce"), option(arguments, "--agent"))
        serve(OPERATIONS, stream, out, option(arguments, "--ask").encode())
        out.flush()
    except BrokenPipeError:
        pass
    if _is_broken(out):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _outlive_the_link() -> None:
    """A hang-up or a Ctrl-C at the laptop leaves nothing half done. Handlers, not SIG_IGN: what we start has the default."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)


def _is_broken(out: Any) -> bool:
    """Whether something is left that the interpreter would complain about when it ends."""
    try:
        out.flush()
    except OSError:
        return True
    return False


def _ps(call: Call) -> Any:
    from remote_agent.rpc.ps import ps
    return ps(call)


def _prepare(call: Call) -> Any:
    from remote_agent.rpc.prepare import prepare
    return prepare(call)


def _launch(call: Call) -> Any:
    from remote_agent.rpc.launch import launch
    return launch(call)


def _stop(call: Call) -> Any:
    from remote_agent.rpc.stop import stop
    return stop(call)


def _remove(call: Call) -> Any:
    from remote_agent.rpc.remove import remove
    return remove(call)


def _attach(call: Call) -> Any:
    from remote_agent.rpc.attach import attach
    return attach(call)


def _gpu(call: Call) -> Any:
    from remote_agent.rpc.gpu import gpu
    return gpu(call)


def _doctor(call: Call) -> Any:
    from remote_agent.rpc.doctor import check
    return check(call)


def _clock(call: Call) -> Any:
    from remote_agent.rpc.doctor import clock
    return clock(call)


def _code_offer(call: Call) -> Any:
    from remote_agent import code
    from remote_agent.protocol import CodeOffer
    from remote_agent.rpc.request import request_of
    return code.offer(request_of(CodeOffer, call.body))


def _code_receive(call: Call) -> Any:
    from remote_agent import code
    code.receive(str(call.body.get("staging")), call.stream, lambda: call.event("code-refused"))
    return {}


OPERATIONS: Dict[str, Operation] = {
    "ps": _ps, "prepare": _prepare, "launch": _launch, "stop": _stop, "remove": _remove, "attach": _attach,
    "gpu": _gpu, "doctor": _doctor, "clock": _clock, "code.offer": _code_offer, "code.receive": _code_receive,
}
