"""Errors that belong to no subject of their own."""

from __future__ import annotations

from cloudrun.errors.catalogue import Entry
from cloudrun.errors.exit_codes import Exit
from cloudrun.i18n import N_

ENTRIES: dict[str, Entry] = {
    "internal": Entry(
        Exit.INTERNAL,
        N_("cloudrun itself failed: {detail}"),
        N_("Run the same command with --debug for the traceback, and report it."),
    ),
    "usage": Entry(Exit.USAGE, N_("{detail}"), N_("{command} --help")),
    "interrupted": Entry(Exit.INTERRUPTED, N_("interrupted"), N_("cloudrun ps")),
    "nobody-to-ask": Entry(
        Exit.USAGE,
        N_("{question} There is no terminal to ask on"),
        N_("Say it on the command line: add --yes"),
    ),
    "no-terminal": Entry(
        Exit.USAGE,
        N_("{what} needs a terminal, and there is none here"),
        N_("cloudrun logs -f {run}"),
    ),
}
