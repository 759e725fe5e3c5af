"""Errors about starting the agent and speaking with it."""

from __future__ import annotations

from cloudrun.errors.catalogue import Entry
from cloudrun.errors.exit_codes import Exit
from cloudrun.i18n import N_

#: Start-up files that do something before a command is reached, which only a person at a terminal should meet.
_GUARD = N_(
    "Put this first in ~/.bashrc on the box (zsh: ~/.zshenv): case $- in *i*) ;; *) return;; esac   "
    "If nothing there ends or asks, the server lets no commands in (ForceCommand, an account without a shell): ask the provider")

ENTRIES: dict[str, Entry] = {
    "agent-no-python": Entry(
        Exit.AGENT,
        N_("the box has no Python 3.8 or newer that runs; tried: {tried}"),
        N_("Say where one is: cloudrun host set {host_name} --python /root/miniconda3/bin/python   "
           "Or put one there, on the box: apt-get install -y python3"),
    ),
    "agent-no-folder": Entry(
        Exit.AGENT,
        N_("neither the home {home} on the box nor its TMPDIR takes a file of ours"),
        N_("Make the home writable again (a full or read-only disk?): cloudrun doctor"),
    ),
    "agent-no-space": Entry(
        Exit.AGENT,
        N_("the box has no room for the agent under {root}: {reason}"),
        N_("Free some space on that disk (`du -xh ~ | sort -h | tail` on the box), then the same command again."),
    ),
    "agent-install-failed": Entry(
        Exit.AGENT,
        N_("the agent could not be unpacked under {root} on the box: {reason}"),
        N_("Mend that folder on the box, then the same command again."),
    ),
    "agent-damaged": Entry(
        Exit.AGENT,
        N_("the agent arrived damaged on {host}, twice ({what})"),
        N_("cloudrun doctor"),
    ),
    "agent-start-failed": Entry(
        Exit.AGENT,
        N_("the agent did not start on {host}; the box said: {said} {stderr}"),
        N_("Name a Python that runs there: cloudrun host set {host_name} --python /root/miniconda3/bin/python"),
    ),
    "agent-start-timeout": Entry(
        Exit.AGENT,
        N_("the agent on {host} said nothing within {timeout_s} s; the box said: {said} {stderr}"),
        N_("Try again; if it stays: cloudrun doctor"),
    ),
    "shell-ended": Entry(
        Exit.AGENT,
        N_("the login shell on {host} ended before it came to our command; it said: {said} {stderr}"),
        _GUARD,
    ),
    "shell-waits": Entry(
        Exit.AGENT,
        N_("the login shell on {host} did not come to our command within {timeout_s} s (does it wait for an answer?); "
           "it said: {said} {stderr}"),
        _GUARD,
    ),
    "shell-talks": Entry(
        Exit.AGENT,
        N_("the login shell on {host} printed {size_mb} MB and did not come to our command; it said: {said} {stderr}"),
        _GUARD,
    ),
    "agent-version": Entry(
        Exit.AGENT,
        N_("the agent on {host} speaks protocol {theirs}, this cloudrun speaks {ours}"),
        N_("pip install --upgrade cloudrun-gpu"),
    ),
    "agent-crashed": Entry(
        Exit.AGENT,
        N_("the agent on the box ended unexpectedly: {said} {stderr}"),
        N_("Run the same command with --debug and report it; the runs on the box are not touched by this."),
    ),
    "agent-protocol": Entry(
        Exit.AGENT,
        N_("what the box sent cannot be right: {detail}"),
        N_("Run the same command again; if it stays, report it with --debug."),
    ),
    "agent-silent": Entry(
        Exit.UNKNOWN_OUTCOME,
        N_("the box took the request {op} and said nothing for {timeout_s} s"),
        N_("Look before repeating: cloudrun ps"),
    ),
    "box-silent": Entry(
        Exit.UNREACHABLE,
        N_("{host} took the request {op} and said nothing for {timeout_s} s; what runs on the box goes on"),
        N_("Try again; if it stays: cloudrun doctor"),
    ),
    "outcome-unknown": Entry(
        Exit.UNKNOWN_OUTCOME,
        N_("the connection ended before the box answered {op}; whether it was done is not known {stderr}"),
        N_("Look before repeating: cloudrun ps"),
    ),
    "word-not-sendable": Entry(
        Exit.CONFIG,
        N_("{word!r} holds a line break, which no command line to the box can carry"),
        N_("cloudrun host set {host_name} --python /path/to/python"),
    ),
    "unknown-operation": Entry(
        Exit.AGENT,
        N_("the agent on the box does not know the operation {op}"),
        N_("pip install --upgrade cloudrun-gpu"),
    ),
    "bad-request": Entry(
        Exit.AGENT,
        N_("the agent on the box does not understand the request: {detail}"),
        N_("pip install --upgrade cloudrun-gpu   (then the same command again)"),
    ),
    "agent-defect": Entry(
        Exit.INTERNAL,
        N_("the agent on the box failed: {detail}"),
        N_("Run the same command with --debug, and report it."),
    ),
}
