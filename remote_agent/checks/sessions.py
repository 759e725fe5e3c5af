"""The programs that can hold a run's session."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence

from remote_agent import programs
from remote_agent.checks.probe import Asked
from remote_agent.protocol import Check
from remote_agent.sessions import environment

_ASK = {"screen": ("--version",), "tmux": ("-V",)}
_VERSION = re.compile(r"(?:screen version|tmux)\s+(\S+)", re.IGNORECASE)
_DEADLINE_S = 3.0


def check(asked: Asked) -> List[Check]:
    versions = {name: version(name) for name in _ASK}
    return [judge(versions, [name for name in _ASK if versions[name] is None and environment.program(name)])]


def judge(versions: Dict[str, Optional[str]], broken: Sequence[str] = ()) -> Check:
    """Versions by program, None where it cannot be had; `broken` are there and do not run. Without both a run still works, in
    a session one only watches."""
    there = ["%s %s" % (name, found) for name, found in versions.items() if found is not None]
    if broken:
        params = {"programs": ", ".join(there), "broken": ", ".join(broken)}
        return Check("sessions", "warning", "sessions-broken" if there else "sessions-all-broken", params, hint="sessions-broken")
    if not there:
        return Check("sessions", "warning", "no-session-program", hint="no-session-program")
    return Check("sessions", "ok", "sessions", {"programs": ", ".join(there)})


def version(name: str) -> Optional[str]:
    """The program's own word, whatever its exit code (screen's is 1); None where it is missing or says nothing."""
    path = environment.program(name)
    if path is None:
        return None
    try:
        done = programs.run([path, *_ASK[name]], _DEADLINE_S)
    except OSError:
        return None
    return parse_version(done.text)


def parse_version(text: str) -> Optional[str]:
    """`4.09.00` of "Screen version 4.09.00 (GNU) 30-Jan-22", `3.3a` of "tmux 3.3a"."""
    match = _VERSION.search(text)
    return match.group(1) if match else None
