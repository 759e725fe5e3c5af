"""What the laptop itself sees of the way to a box: settings, round trip, host key, login, and how far the clocks are apart."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from cloudrun.transport.base import Address, Met
from remote_agent.protocol import Check

#: Real questions to the agent, one after another: the first one pays for what is new to both ends.
ROUND_TRIPS = 5
#: Above it every keystroke in an attach is felt.
SLOW_ROUND_TRIP_MS = 800
#: Certificates, tokens and file times go wrong by seconds and more; less is everyday drift.
SKEW_S = 5.0


@dataclass(frozen=True)
class Trip:
    """One question and its answer: how long it took, and how far the box's clock was ahead of ours half-way."""

    took_s: float
    ahead_s: float


def settings(address: Address) -> Check:
    """What is used, with the ssh configuration asked."""
    params = {
        "address": address.shown, "host": address.hostname, "port": address.port, "user": address.user,
        "keys": [str(key) for key in address.keys], "jumps": [hop.shown for hop in address.jumps],
        "proxy": address.proxy_command,
    }
    if address.jumps:
        return Check("ssh", "ok", "ssh-jumps", dict(params, way=" → ".join(hop.shown for hop in address.jumps)))
    return Check("ssh", "ok", "ssh-proxy" if address.proxy_command else "ssh", params)


def opened(met: Met, target: str) -> list[Check]:
    """Host key and login, as they were. `target`: what a host is set to for its login to be tried again."""
    key = {"type": met.key_type, "fingerprint": met.fingerprint, "known_in": met.known_in}
    login = Check("login", "ok", "login", {"by": met.login})
    if met.typed:
        login = Check("login", "warning", "login-typed", {"by": met.login, "target": target}, hint="login-typed")
    return [Check("host-key", "ok", "host-key", key), login]


def measure(ask: Callable[[], float], wall: Callable[[], float], monotonic: Callable[[], float]) -> list[Trip]:
    """`ask` gives the box's clock, `wall` ours, both in seconds since 1970. The time between does not come from a clock that
    somebody may set meanwhile."""
    trips = []
    for _number in range(ROUND_TRIPS):
        sent, sent_at = monotonic(), wall()
        theirs = ask()
        took_s = monotonic() - sent
        trips.append(Trip(took_s, theirs - (sent_at + took_s / 2)))
    return trips


def answers() -> Check:
    """It answered, and no round trip was measured."""
    return Check("reachable", "ok", "reachable-unmeasured")


def reachable(trips: list[Trip]) -> Check:
    median_ms = round(statistics.median(trip.took_s for trip in trips) * 1000, 1)
    params = {"round_trip_ms": median_ms, "count": len(trips)}
    if median_ms > SLOW_ROUND_TRIP_MS:
        return Check("reachable", "warning", "reachable", params, hint="reachable-slow")
    return Check("reachable", "ok", "reachable", params)


def clock(trips: list[Trip]) -> Check:
    """By the fastest trip, which leaves the least doubt: half of what it took."""
    best = min(trips, key=lambda trip: trip.took_s)
    params = {"ahead_s": round(best.ahead_s, 3) + 0.0, "doubt_s": round(best.took_s / 2, 4),
              "seconds": abs(round(best.ahead_s, 1))}
    if abs(best.ahead_s) - best.took_s / 2 <= SKEW_S:
        return Check("clock", "ok", "clock", params)
    return Check("clock", "warning", "clock-ahead" if best.ahead_s > 0 else "clock-behind", params, hint="clock-skew")
