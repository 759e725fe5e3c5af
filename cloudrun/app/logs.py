"""`cloudrun logs`: a run's output, byte for byte, over any number of lost connections."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

from cloudrun.agent.follow import FollowStream, open_follow
from cloudrun.errors import CloudrunError, Exit
from cloudrun.i18n import _
from cloudrun.transport.base import Transport
from remote_agent import protocol

FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 15.0
#: An outage this long is said once while it lasts, so that a silent screen is not taken for a silent run.
SAY_AFTER_S = 10.0
LASTED_S = 5.0
#: What a later connection may bring into order again; any other error would meet us again.
_PASSING = (Exit.UNREACHABLE, Exit.UNKNOWN_OUTCOME)


@dataclass(frozen=True)
class Started:
    """The run whose log follows, as it was when the stream was opened first."""

    run: protocol.RunInfo


@dataclass(frozen=True)
class Data:
    """Bytes of the log; `offset` is the first one's in all that the attempt wrote."""

    attempt: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Gap:
    """Bytes that are not to be had: rotation took them, or (`to` below `offset`) the file was cut and begins anew."""

    attempt: int
    offset: int
    to: int


@dataclass(frozen=True)
class NextAttempt:
    attempt: int


@dataclass(frozen=True)
class CaughtUp:
    """What was there when a whole log was asked for has been given; what comes now is new."""


@dataclass(frozen=True)
class Unreachable:
    """Said once in an outage that lasts; the trying goes on."""

    error: CloudrunError


@dataclass(frozen=True)
class Reconnected:
    """The stream goes on where it was cut."""

    after_s: float


@dataclass(frozen=True)
class Ended:
    """How the run stands at the stream's end; with `follow` it is over."""

    state: str
    cause: str | None
    exit_code: int | None
    signal: int | None
    attempt: int


Event = Started | Data | Gap | NextAttempt | CaughtUp | Unreachable | Reconnected | Ended


@dataclass(frozen=True)
class Link:
    """How the box is reached, again and again. `connect` raises CloudrunError where it cannot."""

    connect: Callable[[], Transport]
    host_python: str | None = None


@dataclass(frozen=True)
class Patience:
    """Clock, sleep and chance, passed in."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def delay_s(self, tries: int) -> float:
        """Before the try after `tries` that failed: doubling, at most 15 s, spread over half of it."""
        whole = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(tries, 16))
        return whole * (0.5 + self.chance() / 2)


def read_log(link: Link, request: protocol.FollowRequest, patience: Patience | None = None) -> Generator[Event, None, None]:
    """Events of the log; the last one is `Ended`.

    The first connection's failure is an error at once. With `follow` later ones are made again without end, and the
    stream goes on at the byte after the last one given. Raises CloudrunError.
    """
    return _Reading(link, request, patience or Patience()).events()


@dataclass
class _Reading:
    """One reading: the request that would continue it, and the connection it has now."""

    link: Link
    request: protocol.FollowRequest
    patience: Patience
    transport: Transport | None = None
    stream: FollowStream | None = None
    told: bool = False
    expected: tuple[int, int] = (0, 0)
    #: Connections made in vain in a row; one that brought something or lasted begins anew.
    tries: int = 0
    opened_at: float = 0.0

    def events(self) -> Generator[Event, None, None]:
        try:
            self._open()
            while True:
                try:
                    yield from self._stream_events()
                    return
                except CloudrunError as error:
                    if not self._may_pass(error):
                        raise
                yield from self._reopen()
        finally:
            self._close()

    def _may_pass(self, error: CloudrunError) -> bool:
        return self.request.follow and self.told and error.exit_code in _PASSING

    def _stream_events(self) -> Iterator[Event]:
        assert self.stream is not None
        while True:
            header, payload = self.stream.next()
            event = self._event(header, payload)
            if event is not None:
                yield event
            if isinstance(event, Ended):
                return

    # ------------------------------------------------------------------------------------------- frames

    def _event(self, header: dict[str, Any], payload: bytes) -> Event | None:
        """The event of a frame; None for one of a kind that is not known here. Moves the place to go on from."""
        kind = header["kind"]
        try:
            if kind == "run":
                return self._started(header)
            if kind == "data":
                self._check(header)
                self.tries = 0
                self._go_on_from(header["attempt"], header["offset"] + len(payload))
                return Data(header["attempt"], header["offset"], payload)
            if kind == "gap":
                self._check(header)
                self._go_on_from(header["attempt"], header["to"])
                return Gap(header["attempt"], header["offset"], header["to"])
            if kind == "attempt":
                self._go_on_from(header["attempt"], 0)
                return NextAttempt(header["attempt"])
            if kind == "now":
                self.request = replace(self.request, whole=False)
                return CaughtUp()
            if kind == "end":
                return Ended(header["state"], header["cause"], header["exit_code"], header["signal"], header["attempt"])
        except (KeyError, TypeError, ValueError) as error:
            raise CloudrunError("agent-protocol", detail=_("frame {kind}: {error!r}").format(kind=kind, error=error)) from error
        return None

    def _started(self, header: dict[str, Any]) -> Event | None:
        run = protocol.decode(protocol.RunInfo, header["run"])
        if self.told:
            self._check(header)
            return None
        self.told = True
        # The run by its name from here on: "the newest" may be another one when the connection is made again.
        self.request = replace(self.request, name=run.name, tail_lines=None)
        self._go_on_from(header["attempt"], header["offset"])
        return Started(run)

    def _check(self, header: dict[str, Any]) -> None:
        found = (header["attempt"], header["offset"])
        if found != self.expected:
            wanted = self.expected
            raise CloudrunError("agent-protocol", detail=_("the log comes from {found}, not from {wanted}").format(
                found=f"{found[0]}:{found[1]}", wanted=f"{wanted[0]}:{wanted[1]}"))

    def _go_on_from(self, attempt: int, offset: int) -> None:
        self.expected = (attempt, offset)
        self.request = replace(self.request, attempt=attempt, offset=offset)

    # -------------------------------------------------------------------------------------- connections

    def _reopen(self) -> Iterator[Event]:
        """Tries until a stream stands again."""
        lost_at, said = self.patience.clock(), False
        if lost_at - self.opened_at > LASTED_S:
            self.tries = 0
        self._close()
        while True:
            self.patience.sleep(self.patience.delay_s(self.tries))
            self.tries += 1
            try:
                self._open()
                break
            except CloudrunError as error:
                self._close()
                if not self._may_pass(error):
                    raise
                if not said and self.patience.clock() - lost_at > SAY_AFTER_S:
                    said = True
                    yield Unreachable(error)
        yield Reconnected(self.patience.clock() - lost_at)

    def _open(self) -> None:
        self.transport = self.link.connect()
        self.stream = open_follow(self.transport, self.link.host_python, self.request)
        self.opened_at = self.patience.clock()

    def _close(self) -> None:
        stream, transport, self.stream, self.transport = self.stream, self.transport, None, None
        if stream is not None:
            stream.close()
        if transport is not None:
            transport.close()
