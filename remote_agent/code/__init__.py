"""The code of a run: offered, received into a staging area, applied to the run's tree in one piece.

Paths are bytes inside this package (a box's locale must not matter) and come over the wire as UTF-8 with surrogates.
"""

from __future__ import annotations

from remote_agent.code.apply import Applied, apply
from remote_agent.code.links import Links, make_links, place_links
from remote_agent.code.offer import offer
from remote_agent.code.receive import receive
from remote_agent.code.records import forget

__all__ = ["Applied", "Links", "apply", "forget", "make_links", "offer", "place_links", "receive"]
