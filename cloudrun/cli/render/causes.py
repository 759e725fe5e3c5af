"""Why a run ended, in words for people: the one place. JSON carries the codes."""

from __future__ import annotations

from typing import Protocol

from cloudrun.i18n import N_, _
from remote_agent import protocol

WORDS = {
    "exception": N_("ended by an exception"),
    "cuda-oom": N_("CUDA out of memory"),
    "oom-killed": N_("killed for memory by the kernel"),
    "disk-full": N_("disk full"),
    "hang": N_("hung"),
    "never-started": N_("never started"),
    "box-restarted": N_("the box was restarted"),
    "session-killed": N_("its session was ended from outside"),
    "supervisor-killed": N_("its supervisor was killed"),
    "setup-failed": N_("setup failed"),
    "disk-hangs": N_("unknown: its disk does not answer"),
    "user": N_("stopped by you"),
}
#: A command that could not begin, by its exit code: see `verdict.NEVER_STARTED_CODES`.
_CANNOT_RUN = {
    125: N_("folder or environment cannot be set up"),
    126: N_("cannot be run: no permission, or no program"),
    127: N_("cannot be run: command not found"),
}
#: Causes that say themselves how the command ended.
_NO_CODE = ("user", "oom-killed", "session-killed", "box-restarted")


class End(Protocol):
    """What a run, and the end of its log, say alike."""

    @property
    def state(self) -> str: ...
    @property
    def cause(self) -> str | None: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def signal(self) -> int | None: ...


def cause_words(end: End) -> str:
    """"cannot be run: command not found (exit 127)"; nothing where all is well. A cause of a newer agent shows as its code."""
    if end.state == "succeeded" or (end.state in protocol.LIVE_STATES and not end.cause):
        return ""
    how = _how(end)
    if not end.cause or end.cause == "signal":
        return how
    known = _CANNOT_RUN.get(end.exit_code or 0) if end.cause == "never-started" else None
    why = _(known or WORDS.get(end.cause, end.cause))
    return f"{why} ({how})" if how and end.cause not in _NO_CODE else why


def _how(end: End) -> str:
    if end.signal:
        return _("killed by {signal}").format(signal=signal_name(end.signal))
    return _("exit {code}").format(code=end.exit_code) if end.exit_code else ""


def signal_name(number: int) -> str:
    """SIGKILL for 9. The box is Linux, whatever this machine is: names come from a table of Linux's numbers."""
    return _LINUX_SIGNALS.get(number, f"signal {number}")


_LINUX_SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
    10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ",
}
