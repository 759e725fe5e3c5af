"""Errors about runs: launching, watching, ending."""

from __future__ import annotations

from cloudrun.errors.catalogue import Entry
from cloudrun.errors.exit_codes import Exit
from cloudrun.i18n import N_

ENTRIES: dict[str, Entry] = {
    "attach-unsupported": Entry(
        Exit.USAGE, N_("attach does not work on Windows yet"), N_("cloudrun logs -f {run}   (or run cloudrun inside WSL)"),
    ),
    "attach-declined": Entry(Exit.REFUSED, N_("{run} was left to whoever is attached"), N_("cloudrun attach {run} --shared   (or --take)")),
    "run-died": Entry(
        Exit.RUN_FAILED,
        N_("{run} started and died at once: {ending}"),
        N_("cloudrun logs {run}   (mend it, then launch it again)"),
    ),
    "launch-unknown": Entry(
        Exit.UNKNOWN_OUTCOME,
        N_("the connection to {host} ended before the box said how the launch of {run} came out"),
        N_("cloudrun launch {run}   (repeating it is safe: it ends in one run)"),
    ),
    "rm-declined": Entry(Exit.REFUSED, N_("{run} was left as it is"), N_("cloudrun rm {run} --yes")),
}
