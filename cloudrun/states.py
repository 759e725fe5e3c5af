"""What a run's states are called, for people; JSON has them as they are."""

from __future__ import annotations

from cloudrun.i18n import N_, _

_WORDS = {
    "pending": N_("pending"), "running": N_("running"), "stalled": N_("stalled"), "waiting": N_("waiting"),
    "stopping": N_("stopping"), "succeeded": N_("succeeded"), "failed": N_("failed"), "stopped": N_("stopped"),
    "lost": N_("lost"),
}


def state_words(state: str) -> str:
    """In the user's language; a state of a newer agent as it comes."""
    return _(_WORDS[state]) if state in _WORDS else state
