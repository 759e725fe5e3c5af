"""The whole catalogue, from one file per subject. Loaded when an error's words are wanted, not before."""

from __future__ import annotations

from cloudrun.errors import agent, box, general, hosts, project, runs, transport
from cloudrun.errors.catalogue import Entry


def _assemble() -> dict[str, Entry]:
    whole: dict[str, Entry] = {}
    for part in (general, hosts, transport, agent, project, runs, box):
        twice = whole.keys() & part.ENTRIES.keys()
        if twice:
            raise AssertionError(f"error codes defined twice: {sorted(twice)}")
        whole.update(part.ENTRIES)
    return whole


CATALOGUE = _assemble()
