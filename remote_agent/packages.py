"""Installing a session program by the box's own package manager: no questions, no broken locks, one deadline for all of it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional

from remote_agent import programs
from remote_agent.protocol import AgentError

Say = Callable[..., None]

#: Looked for in this order.
MANAGERS = ("apt-get", "dnf", "yum")
#: Another one at work (unattended upgrades just after the boot, mostly). Old apt does not wait by itself.
_LOCKED = re.compile(
    r"could not get lock|unable to acquire the dpkg|unable to lock|is locked by another process"
    r"|another app is currently holding|waiting for process with pid", re.IGNORECASE,
)
_HOLDER = re.compile(r"held by process (\d+)(?: \(([^)]*)\))?")
#: Longest that a manager waits for the lock by itself.
_LOCK_WAIT_S = 60.0
_RETRY_S = 3.0
_SAY_EVERY_S = 5.0
_SUDO_S = 5.0
_ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "a", "LC_ALL": "C", "LANGUAGE": "C",
}
#: A mirror that cannot be reached must not eat the whole deadline.
_APT_NETWORK = ("-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::https::Timeout=20")


@dataclass(frozen=True)
class Means:
    """The world as the installer sees it; tests put their own in."""

    is_root: Callable[[], bool] = lambda: os.geteuid() == 0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass
class _Job:
    """One installation under way: what was tried, and what was said last."""

    program: str
    manager: str
    say: Say
    ends: float
    means: Means
    with_sudo: bool
    tried: List[str] = field(default_factory=list)
    output: str = ""
    said_at: float = float("-inf")
    counted_at: float = float("-inf")

    def left_s(self) -> float:
        return max(0.0, self.ends - self.means.clock())

    def told(self) -> Dict[str, Any]:
        """Parameters of an error: what was tried, and the last lines of what came back."""
        lines = [line.strip() for line in re.split(r"[\r\n]+", self.output) if line.strip()]
        return {
            "program": self.program, "manager": self.manager, "tried": "; ".join(self.tried), "output": " / ".join(lines[-3:]),
        }


def install(program: str, say: Say, deadline_s: float = 300.0, means: Optional[Means] = None) -> str:
    """Path of the program, installed where it was missing. An exit code is believed neither way: its being there is.

    `say(kind, **params)` hears "installing", "updating-index", "waiting-for-lock" and, as a sign of life, "working".
    Raises AgentError ("install-no-manager", "install-needs-root", "install-timeout", "install-locked", "install-failed").
    """
    found = shutil.which(program)
    if found is not None:
        return found
    job = _job(program, say, deadline_s, means or Means())
    say("installing", program=program, manager=job.manager)
    job.said_at = job.means.clock()
    # First as things stand: the index update is the slow part, and a box without a way out cannot do it at all.
    found = _attempt(job, _install_command(job))
    if found is None:
        say("updating-index", program=program, manager=job.manager)
        found = _attempt(job, _update_command(job)) or _attempt(job, _install_command(job))
    if found is None:
        raise AgentError("install-failed", **job.told())
    return found


def _job(program: str, say: Say, deadline_s: float, means: Means) -> _Job:
    manager = next((name for name in MANAGERS if shutil.which(name)), None)
    if manager is None:
        raise AgentError("install-no-manager", program=program, managers=", ".join(MANAGERS))
    with_sudo = not means.is_root()
    if with_sudo and not sudo_works():
        raise AgentError("install-needs-root", program=program, manager=manager)
    return _Job(program, manager, say, means.clock() + deadline_s, means, with_sudo)


def sudo_works() -> bool:
    """Whether sudo lets us without a password."""
    sudo = shutil.which("sudo")
    try:
        return sudo is not None and programs.run([sudo, "-n", "true"], _SUDO_S).returncode == 0
    except OSError:
        return False


def _install_command(job: _Job) -> List[str]:
    if job.manager != "apt-get":
        return [job.manager, "-y", "install", job.program]
    return ["apt-get", "-y", "--no-install-recommends", *_lock_option(job), *_APT_NETWORK, "install", job.program]


def _update_command(job: _Job) -> List[str]:
    if job.manager != "apt-get":
        return [job.manager, "-y", "makecache"]
    return ["apt-get", *_lock_option(job), *_APT_NETWORK, "update"]


def _lock_option(job: _Job) -> List[str]:
    return ["-o", "DPkg::Lock::Timeout=%d" % min(_LOCK_WAIT_S, job.left_s() / 2)]


def _attempt(job: _Job, command: List[str]) -> Optional[str]:
    """Path of the program when it is there afterwards, else None. Tried again for as long as somebody holds the lock."""
    while True:
        done = _run(job, command)
        job.output = done.text
        found = shutil.which(job.program)
        if found is not None:
            return found
        locked = bool(_LOCKED.search(job.output))
        if done.returncode == 0 or not (locked or done.timed_out):
            return None
        if done.timed_out or job.left_s() <= _RETRY_S:
            raise AgentError("install-locked" if locked else "install-timeout", holder=_holder(job.output), **job.told())
        _say_waiting(job, job.output)
        job.means.sleep(_RETRY_S)


def _run(job: _Job, command: List[str]) -> programs.Finished:
    words, env = command, dict(os.environ, **_ENVIRONMENT)
    if job.with_sudo:
        # sudo clears the environment, and what runs as root is not ours to kill: it gets a keeper of its own.
        keeper = ["timeout", "-k", "2", "%d" % max(1, job.left_s())] if shutil.which("timeout") else []
        words = ["sudo", "-n", *keeper, "env", *("%s=%s" % pair for pair in _ENVIRONMENT.items()), *command]
    shown = " ".join(map(shlex.quote, command))
    if shown not in job.tried:
        job.tried.append(shown)
    try:
        return programs.run(words, job.left_s(), env=env, tick=lambda tail: _say_alive(job, tail))
    except OSError as error:
        return programs.Finished(126, b"", str(error).encode("utf-8", "replace"))


def _say_alive(job: _Job, tail: bytes) -> None:
    """While a manager works: the countdown where it says that it waits for a lock, else a sign of life."""
    text = tail.decode("utf-8", "replace").strip()
    if _LOCKED.search(re.split(r"[\r\n]+", text)[-1]):
        _say_waiting(job, text)
    elif job.means.clock() - job.said_at >= _SAY_EVERY_S:
        job.said_at = job.means.clock()
        job.say("working", program=job.program, left_s=int(job.left_s()))


def _say_waiting(job: _Job, text: str) -> None:
    now = job.means.clock()
    if now - job.counted_at >= _RETRY_S:
        job.said_at = job.counted_at = now
        job.say("waiting-for-lock", program=job.program, left_s=int(job.left_s()), holder=_holder(text))


def _holder(text: str) -> str:
    """Who holds the lock, as the manager said it: "unattended-upgr (pid 1719)", or ""."""
    match = _HOLDER.search(text)
    if not match:
        return ""
    return "%s (pid %s)" % (match.group(2), match.group(1)) if match.group(2) else "pid %s" % match.group(1)
