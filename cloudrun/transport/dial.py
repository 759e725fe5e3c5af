"""From an address to a connection that is logged in: dial, negotiate, check the host key, log in."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import cast

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.transport import hostkeys
from cloudrun.transport.auth import LinkLost, Login
from cloudrun.transport.base import Address, Met, Options
from cloudrun.transport.link import Link
from cloudrun.transport.proxy import ProxyProgram
from cloudrun.transport.tcp import GREETING, Ahead, NotReady, tcp
from cloudrun.transport.wire import Pipe, WatchedSocket

#: Connections one login may use up: servers hang up after six refused keys.
LOGIN_CONNECTIONS = 6
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 3.0
SHOWN_CHARACTERS = 60


class Dialler:
    """Opens connections to one address. Jump hosts stay connected beneath and are shared; the login is found once."""

    def __init__(self, address: Address, options: Options, ahead: Ahead | None = None) -> None:
        self.address = address
        #: The first connection, to the box or to its first jump host, where it was begun before.
        self._ahead = ahead
        self._options = options
        self._login = Login(address, options)
        self._hops: list[Link] = []

    def open(self) -> Link:
        """A new connection, logged in. Raises CloudrunError."""
        for _try in range(LOGIN_CONNECTIONS):
            link = self._greeted()
            try:
                _trust(link, self.address, self._options)
                self._login.into(link)
            except LinkLost:
                link.close()
                continue
            except BaseException:
                link.close()
                raise
            link.keep_asking()
            return link
        raise CloudrunError("login-cut", host=self.address.shown, user=self._login.user)

    def met(self, link: Link) -> Met:
        """How that connection came about."""
        key = link.server_key()
        where = _store(self._options).where(hostkeys.known_name(self.address.hostname, self.address.port), key)
        return Met(self._login.opened_by, key.kind, key.fingerprint, str(where or ""), self._login.typed)

    def close(self) -> None:
        """Closes the jump hosts' connections; those that `open` gave are the caller's."""
        for hop in reversed(self._hops):
            hop.close()
        self._hops.clear()

    # ------------------------------------------------------------------------------------------- greeting

    def _greeted(self) -> Link:
        """A connection whose keys are agreed; a box that is starting up is waited for until the time is over."""
        deadline = time.monotonic() + self._options.connect_timeout_s
        pause_s, said = FIRST_PAUSE_S, False
        while True:
            try:
                return self._greet(deadline)
            except NotReady as error:
                rest_s = deadline - time.monotonic()
                if rest_s <= pause_s:
                    raise CloudrunError("unreachable", host=self.address.shown, detail=str(error)) from error
                if not said and self._options.say:
                    self._options.say(_("waiting for {host}: {detail}").format(host=self.address.shown, detail=error))
                said = True
            time.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 1.7, LONGEST_PAUSE_S)

    def _greet(self, deadline: float) -> Link:
        # The ssh configuration may want to know sooner; that it would be content later hurts nobody and helps nobody.
        dead_after_s = min(self._options.dead_after_s, self.address.alive_s or self._options.dead_after_s)
        watched = self._watched(deadline, dead_after_s * 2 / 3)
        link = Link(watched, dead_after_s)
        rest_s = max(1.0, deadline - time.monotonic())
        link.banner_timeout = link.handshake_timeout = rest_s
        store = _store(self._options)
        known = store.known(hostkeys.known_name(self.address.hostname, self.address.port))
        link.prefer_host_keys(hostkeys.preferred_algorithms(known, link.offered_host_keys()))
        try:
            link.start_client(timeout=rest_s)
            if link.is_active() and link.get_remote_server_key():
                return link
        except IncompatiblePeer as error:
            raise CloudrunError("ssh-nothing-in-common", host=self.address.shown, detail=str(error)) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            link.close()
            raise _not_greeted(self.address, watched.first) from error
        link.close()
        raise NotReady(_("it does not finish the greeting"))

    # ------------------------------------------------------------------------------------------------ ways

    def _watched(self, deadline: float, dead_after_s: float) -> WatchedSocket:
        if self._ahead is None or self.address.jumps:
            return WatchedSocket(self._socket(deadline), dead_after_s)
        ahead, self._ahead = self._ahead, None
        return WatchedSocket(ahead.take(), dead_after_s, said=GREETING)

    def _socket(self, deadline: float) -> Pipe:
        if self.address.jumps:
            return self._through_hops(deadline)
        if self.address.proxy_command:
            return cast(Pipe, ProxyProgram(self.address.proxy_command).socket)
        return tcp(self.address, deadline)

    def _through_hops(self, deadline: float) -> Pipe:
        """Each hop is logged in to through the one before; its host key is checked like any other."""
        if not all(hop.is_active() for hop in self._hops):
            self.close()
        if not self._hops:
            for hop in self.address.jumps:
                below = self._hops[-1] if self._hops else None
                ahead, self._ahead = self._ahead, None
                self._hops.append(_Hop(hop, self._options, below, ahead).open())
        return _tunnel(self._hops[-1], self.address, deadline)


class _Hop(Dialler):
    """A jump host, reached through the one before it; the first one directly."""

    def __init__(self, address: Address, options: Options, below: Link | None, ahead: Ahead | None) -> None:
        # What is meant for the box is not the hop's to see.
        super().__init__(address, replace(options, password=None, keys_only=False, known_as=""), ahead)
        self._below = below

    def _socket(self, deadline: float) -> Pipe:
        return super()._socket(deadline) if self._below is None else _tunnel(self._below, self.address, deadline)


def _tunnel(link: Link, goal: Address, deadline: float) -> Pipe:
    """A channel through a jump host to the next. Raises NotReady, CloudrunError."""
    rest_s = max(1.0, deadline - time.monotonic())
    try:
        channel = link.open_channel("direct-tcpip", (goal.hostname, goal.port), ("127.0.0.1", 0), timeout=rest_s)
    except paramiko.ChannelException as error:
        raise NotReady(_("the jump host cannot connect to it ({detail})").format(detail=error.text)) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise CloudrunError("unreachable", host=goal.shown, detail=str(error) or type(error).__name__) from error
    return cast(Pipe, channel)


def _not_greeted(address: Address, first: bytes) -> Exception:
    """What to make of a failed greeting: nothing or a full waiting room is worth another try, a stranger's text is not."""
    text = first.decode("utf-8", "replace")
    if any(line.startswith("SSH-") for line in text.splitlines()) or not text.strip():
        return NotReady(_("it hangs up before the login"))
    if "Exceeded MaxStartups" in text:
        return NotReady(_("it has too many logins under way"))
    shown = "".join(letter if letter.isprintable() else " " for letter in text).strip()[:SHOWN_CHARACTERS]
    return CloudrunError("not-ssh", host=address.shown, text=shown)


def _store(options: Options) -> hostkeys.KnownHosts:
    return hostkeys.KnownHosts.of_user(options.known_hosts)


def _trust(link: Link, address: Address, options: Options) -> None:
    """Checks the server's key before anything of the user's is sent. Raises CloudrunError."""
    name = hostkeys.known_name(address.hostname, address.port)
    policy = hostkeys.Policy(options.asker, options.accept_new, options.replace_key_of, options.known_as)
    hostkeys.check(_store(options), name, link.server_key(), policy)
    if not link.is_active():  # the server did not wait for the user's answer; the key is remembered now
        raise LinkLost
