"""The agent's entry: `python -I <agent folder> MODE …`. Each mode imports only what it needs: a start costs milliseconds."""

from __future__ import annotations

import sys
from typing import Callable, Dict, List

Mode = Callable[[List[str]], int]


def _rpc(arguments: List[str]) -> int:
    from remote_agent.rpc.operations import main
    return main(arguments)


def _follow(arguments: List[str]) -> int:
    from remote_agent.follow import main
    return main(arguments)


def _supervise(arguments: List[str]) -> int:
    from remote_agent.supervise.supervisor import main
    return main(arguments)


def _tee(arguments: List[str]) -> int:
    from remote_agent.supervise.tee import main
    return main(arguments)


def _attach(arguments: List[str]) -> int:
    from remote_agent.sessions.attach import main
    return main(arguments)


def _window(arguments: List[str]) -> int:
    from remote_agent.sessions.windows import main
    return main(arguments)


MODES: Dict[str, Mode] = {
    "rpc": _rpc, "follow": _follow, "supervise": _supervise, "tee": _tee, "attach": _attach, "window": _window,
}


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in MODES:
        sys.stderr.write("usage: python -I AGENT %s …\n" % "|".join(sorted(MODES)))
        return 2
    return MODES[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
