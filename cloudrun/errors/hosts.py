"""Errors about hosts, hosts.toml and which host is meant."""

from __future__ import annotations

from cloudrun.errors.catalogue import Entry
from cloudrun.errors.exit_codes import Exit
from cloudrun.i18n import N_

ENTRIES: dict[str, Entry] = {
}
