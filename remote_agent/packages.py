"""Installing a session program by the box's own package manager: no questions, no broken locks, one deadline for all of it."""

from __future__ import annotations

import os
import re
import shlex
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional

from remote_agent import dpkg, patience, programs, silence
from remote_agent.protocol import AgentError

Say = Callable[..., None]

#: How each installs and refreshes its index, without a question. Looked for in this order; apt's words are made below.
_COMMANDS = {
    "apt-get": (("-y", "install"), ("update",)),
    "dnf": (("-y", "install"), ("-y", "makecache")),
    "yum": (("-y", "install"), ("-y", "makecache")),
    "microdnf": (("-y", "install"), ("-y", "makecache")),
    "zypper": (("--non-interactive", "install"), ("--non-interactive", "refresh")),
    "apk": (("add", "--no-progress"), ("update",)),
}
MANAGERS = tuple(_COMMANDS)
#: Another one at work (unattended upgrades just after the boot, mostly). Old apt does not wait by itself.
_LOCKED = re.compile(
    r"could not get lock|unable to acquire the dpkg|unable to lock|is locked by another process"
    r"|another app is currently holding|waiting for process with pid|system management is locked", re.IGNORECASE,
)
_HOLDER = re.compile(r"(?:held by process|locked by the application with pid) (\d+)(?: \(([^)]*)\))?", re.IGNORECASE)
_INTERRUPTED = re.compile(r"dpkg was interrupted|dpkg --configure -a", re.IGNORECASE)
_UNREACHABLE = re.compile(
    r"could not resolve|failure resolving|could not connect|cannot initiate the connection|unable to connect|connection timed out"
    r"|connection refused|network is unreachable|no route to host|could not reach|cannot find a valid baseurl|curl error"
    r"|cannot download|temporary error \(try again later\)|connection failed", re.IGNORECASE,
)
#: Longest that a manager waits for the lock by itself.
_LOCK_WAIT_S = 60.0
_RETRY_S = 3.0
_SAY_EVERY_S = 5.0
_SUDO_S = 5.0
#: No questions, and no service restarted (needrestart's "a" would do it): a training may depend on one.
_ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive", "DEBIAN_PRIORITY": "critical", "NEEDRESTART_MODE": "l", "NEEDRESTART_SUSPEND": "1",
    "APT_LISTCHANGES_FRONTEND": "none", "UCF_FORCE_CONFFOLD": "1", "LC_ALL": "C", "LANGUAGE": "C",
}
#: A mirror that cannot be reached must not eat the whole deadline.
_APT_NETWORK = ("-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=15", "-o", "Acquire::https::Timeout=15")
#: A settings file that somebody changed stays as it is.
_APT_FILES = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")


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
    heard: str = ""
    said_at: float = float("-inf")
    counted_at: float = float("-inf")

    def left_s(self) -> float:
        return max(0.0, self.ends - self.means.clock())

    def told(self) -> Dict[str, Any]:
        """Parameters of an error: what was tried, and the last lines of what came back."""
        lines = [line.strip() for line in re.split(r"[\r\n]+", self.output) if line.strip()]
        return {
            "program": self.program, "manager": self.manager, "tried": "; ".join(self.tried), "output": " / ".join(lines[-3:]),
            "command": by_hand(self.manager, self.program),
        }


def install(program: str, say: Say, deadline_s: float = 300.0, means: Optional[Means] = None) -> str:
    """Path of the program, installed where it was missing. An exit code is believed neither way: its being there is.

    `say(kind, **params)` hears "installing", "updating-index", "waiting-for-lock" and, as a sign of life, "working".
    Raises AgentError: "install-no-manager", "install-needs-root", "install-sudo-password", "install-locked", "install-timeout",
    "install-goes-on", "install-interrupted", "install-unreachable", "install-failed".
    """
    found = silence.which(program)
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
        raise _why(job)
    return found


def by_hand(manager: str, program: str) -> str:
    """What a person types to install it."""
    how = " ".join(word for word in _COMMANDS[manager][0] if word != "--no-progress")
    return "%s %s %s" % (manager, how, program)


def _why(job: _Job) -> AgentError:
    """The error for a program that is not there although everything was tried."""
    if _INTERRUPTED.search(job.heard):
        return AgentError("install-interrupted", **job.told())
    line = next((line.strip() for line in job.heard.splitlines() if _UNREACHABLE.search(line)), None)
    if line is not None:
        return AgentError("install-unreachable", **dict(job.told(), output=line))
    return AgentError("install-failed", **job.told())


def _job(program: str, say: Say, deadline_s: float, means: Means) -> _Job:
    manager = next((name for name in MANAGERS if silence.which(name)), None)
    if manager is None:
        raise AgentError("install-no-manager", program=program, managers=", ".join(MANAGERS))
    with_sudo = not means.is_root()
    if with_sudo and not sudo_works():
        code = "install-sudo-password" if silence.which("sudo") else "install-needs-root"
        raise AgentError(code, program=program, manager=manager, command=by_hand(manager, program))
    job = _Job(program, manager, say, means.clock() + deadline_s, means, with_sudo)
    if manager == "apt-get" and dpkg.interrupted() and dpkg.holder() is None:  # it refuses everything, after fetching at times
        raise AgentError("install-interrupted", **job.told())
    return job


def sudo_works() -> bool:
    """Whether sudo lets us without a password."""
    sudo = silence.which("sudo")
    try:
        return sudo is not None and programs.run([sudo, "-n", "true"], _SUDO_S).returncode == 0
    except OSError:
        return False


def _install_command(job: _Job) -> List[str]:
    if job.manager != "apt-get":
        return [job.manager, *_COMMANDS[job.manager][0], job.program]
    return ["apt-get", "-y", "--no-install-recommends", *_lock_option(job), *_APT_NETWORK, *_APT_FILES, "install", job.program]


def _update_command(job: _Job) -> List[str]:
    if job.manager != "apt-get":
        return [job.manager, *_COMMANDS[job.manager][1]]
    return ["apt-get", *_lock_option(job), *_APT_NETWORK, "update"]


def _lock_option(job: _Job) -> List[str]:
    return ["-o", "DPkg::Lock::Timeout=%d" % min(_LOCK_WAIT_S, job.left_s() / 2)]


def _attempt(job: _Job, command: List[str]) -> Optional[str]:
    """Path of the program when it is there afterwards, else None. Tried again for as long as somebody holds the lock."""
    while True:
        done = _run(job, command)
        job.output = done.text
        job.heard += done.text + "\n"
        found = silence.which(job.program)
        if found is not None:
            return found
        locked = bool(_LOCKED.search(job.output))
        if done.returncode == 0 or not (locked or done.timed_out):
            return None
        if done.left is not None:
            raise AgentError("install-goes-on", pid=done.left, **job.told())
        if done.timed_out or job.left_s() <= _RETRY_S:
            raise AgentError("install-locked" if locked else "install-timeout", holder=_holder(job.output), **job.told())
        _say_waiting(job, job.output)
        job.means.sleep(_RETRY_S)


def _run(job: _Job, command: List[str]) -> patience.Ended:
    words, env = command, dict(os.environ, **_ENVIRONMENT)
    if job.with_sudo:
        # sudo clears the environment, and what runs as root is not ours to interrupt: it gets a keeper of its own.
        keeper = ["timeout", "--foreground", "-s", "INT", "%d" % max(1, job.left_s())] if silence.which("timeout") else []
        words = ["sudo", "-n", *keeper, "env", *("%s=%s" % pair for pair in _ENVIRONMENT.items()), *command]
    shown = " ".join(map(shlex.quote, command))
    if shown not in job.tried:
        job.tried.append(shown)
    try:
        return patience.run(words, job.left_s(), env, lambda tail: _say_alive(job, tail))
    except OSError as error:
        return patience.Ended(126, str(error))


def _say_alive(job: _Job, tail: str) -> None:
    """While a manager works: the countdown where it says that it waits for a lock, else a sign of life."""
    text = tail.strip()
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
    """Who holds the lock, "unattended-upgr (pid 1719)": as the manager said it or, with an old apt, as the lock says."""
    match = _HOLDER.search(text)
    if not match:
        return dpkg.holder() or ""
    return "%s (pid %s)" % (match.group(2), match.group(1)) if match.group(2) else "pid %s" % match.group(1)
