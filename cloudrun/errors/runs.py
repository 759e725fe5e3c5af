"""Errors about runs: launching, watching, ending."""

from __future__ import annotations

from cloudrun.errors.catalogue import Entry
from cloudrun.errors.exit_codes import Exit
from cloudrun.i18n import N_

ENTRIES: dict[str, Entry] = {
    "rm-declined": Entry(Exit.REFUSED, N_("{run} was left as it is"), N_("cloudrun rm {run} --yes")),
}
