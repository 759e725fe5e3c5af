"""A probe: a small function that answers with checks, and the runner that lets none of them hold up the others."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence

from remote_agent.protocol import AgentError, Check


@dataclass(frozen=True)
class Asked:
    """What the laptop knows of the host: its configured data disk and Python, or None; and the bash text that activates what a
    training of the project runs under."""

    data_dir: Optional[str] = None
    python: Optional[str] = None
    activation: str = ""


@dataclass(frozen=True)
class Probe:
    """`check` answers within `deadline_s`, or its line says that it did not. It may raise AgentError: a failure of its code."""

    name: str
    check: Callable[[Asked], List[Check]]
    deadline_s: float


def run_all(probes: Sequence[Probe], asked: Asked) -> List[Check]:
    """Checks of all probes in their order, asked side by side: the slowest one's time, not the sum."""
    answers: Dict[str, List[Check]] = {}

    def ask(probe: Probe) -> None:
        answers[probe.name] = _guarded(probe, asked)

    began = time.monotonic()
    threads = [threading.Thread(target=ask, args=(probe,), daemon=True) for probe in probes]
    for thread in threads:
        thread.start()
    found: List[Check] = []
    for probe, thread in zip(probes, threads):
        thread.join(max(0.0, began + probe.deadline_s - time.monotonic()))
        late = Check(probe.name, "failure", "no-answer", {"deadline_s": probe.deadline_s}, hint="no-answer")
        found.extend(answers.get(probe.name, [late]))
    return found


def _guarded(probe: Probe, asked: Asked) -> List[Check]:
    """A probe that breaks is a line of its own, never the end of the others."""
    try:
        return probe.check(asked)
    except AgentError as error:
        return [Check(probe.name, "failure", error.code, error.params, hint=error.code)]
    except TimeoutError:
        return [Check(probe.name, "failure", "no-answer", {"deadline_s": probe.deadline_s}, hint="no-answer")]
    except Exception as error:
        detail = "%s: %s" % (type(error).__name__, error)
        return [Check(probe.name, "failure", "check-broke", {"detail": detail}, hint="check-broke")]
