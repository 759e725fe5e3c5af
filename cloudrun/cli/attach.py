"""`cloudrun attach`: the real session in the user's terminal."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from cloudrun.cli import terminal
from cloudrun.cli.context import naming
from cloudrun.cli.options import HostOption, RunArgument, flag
from cloudrun.errors import CloudrunError, Exit
from cloudrun.i18n import _
from cloudrun.states import state_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudrun.app.attach import Screen, Target
    from cloudrun.cli.context import Context
    from cloudrun.config.hosts import Host
    from cloudrun.transport.base import Channel, Transport

_LOST = ("connection-lost", "outcome-unknown", "box-silent", "unreachable")


def attach(
    ctx: typer.Context,
    run: RunArgument = None,
    take: Annotated[bool, flag("--take", help=_("Send away whoever is attached elsewhere."))] = False,
    shared: Annotated[bool, flag("--shared", help=_("Share the session with whoever is attached."))] = False,
    host: HostOption = None,
) -> int:
    context: Context = ctx.obj
    if take and shared:
        raise CloudrunError("usage", detail=_("--take and --shared exclude each other"), command="cloudrun attach")
    if not terminal.supported():
        raise CloudrunError("attach-unsupported", run=run or "RUN")
    if not terminal.interactive():
        raise CloudrunError("no-terminal", what="attach", run=run or "")
    chosen = context.host(host)
    session = Session(context, chosen, "take" if take else "shared" if shared else "plain")
    return session.run(run)


class Session:
    """One visit: in, possibly through several connections, and out."""

    def __init__(self, context: Context, host: Host, mode: str) -> None:
        self._context = context
        self._host = host
        self._mode = mode
        self._target: Target | None = None

    def run(self, name: str | None) -> int:
        """Attaches and stays until the user leaves or the session ends."""
        transport, channel = self._enter(name)
        assert self._target is not None
        try:
            # From here on only the session, and our own word on a lost connection, may write on the terminal.
            with self._context.quiet(), terminal.raw() as screen:
                while True:
                    try:
                        left = terminal.pump(screen, channel)
                        break
                    except CloudrunError as error:
                        if error.code not in _LOST:
                            raise
                        transport.close()
                        again = self._reconnect(screen)
                        if again is None:
                            left = True
                            break
                        transport, channel = again
        finally:
            transport.close()
        return self._farewell(left)

    def _enter(self, name: str | None) -> tuple[Transport, Channel]:
        """Finds the session, asks where somebody is on it, says how to leave, and opens it."""
        from cloudrun.agent.client import AgentClient
        from cloudrun.app.attach import find_target, open_session

        context = self._context
        transport = context.connect(self._host)
        try:
            with naming(self._host.name):
                client = AgentClient.open(transport, self._host.python)
                self._target = find_target(client, self._host.data_dir, name, context.project_id())
            if name is None:
                context.say(_("run: {run}").format(run=self._target.run))
            if self._target.clients and self._mode == "plain":
                self._mode = self._ask(self._target)
            words = _("attaching to {run}; leave with {leave} (the run goes on); Enter ~ . leaves when the box is silent")
            context.say(words.format(run=self._target.run, leave=self._target.leave))
            return transport, open_session(transport, client, self._target, self._mode, self._screen())
        except BaseException:
            transport.close()
            raise

    def _ask(self, target: Target) -> str:
        """Somebody is attached elsewhere: share, take over, or stay out."""
        self._context.say(_("{run} is attached elsewhere ({n}).").format(run=target.run, n=target.clients))
        answer = self._context.ask(_("[s]hare it, [t]ake it over, or stay out [N]?")).strip().lower()
        if answer in ("s", "shared", "share"):
            return "shared"
        if answer in ("t", "take"):
            return "take"
        raise CloudrunError("attach-declined", run=target.run)

    def _screen(self) -> Screen:
        from cloudrun.app.attach import Screen

        return Screen(terminal.size(), os.environ.get("TERM") or "xterm-256color")

    def _reconnect(self, screen: terminal.RawTerminal) -> tuple[Transport, Channel] | None:
        """Comes back by itself with growing pauses. Keys typed meanwhile are discarded; `~.` gives up (None)."""
        from cloudrun.app.attach import mode_after_loss

        self._mode = mode_after_loss(self._mode)
        screen.write(b"\x1b[0m\r\n" + _("connection lost; the run goes on. Reconnecting (Enter ~ . leaves)").encode() + b"\r\n")
        pause_s = 0.5
        while True:
            attempt = _Attempt(self._comeback)
            while not attempt.done(0.1):
                if _discard_keys(screen):
                    return None
            if attempt.result is not None:
                screen.write(b"\x1b[2J\x1b[H")
                return attempt.result
            if attempt.error is not None and attempt.error.code not in _LOST:
                raise attempt.error
            until = time.monotonic() + pause_s
            while time.monotonic() < until:
                if _discard_keys(screen):
                    return None
            pause_s = min(pause_s * 2, 15.0)

    def _comeback(self) -> tuple[Transport, Channel]:
        from cloudrun.agent.client import AgentClient
        from cloudrun.app.attach import find_target, open_session

        assert self._target is not None
        transport = self._context.connect(self._host)
        try:
            client = AgentClient.open(transport, self._host.python)
            target = find_target(client, self._host.data_dir, self._target.run, None)
            return transport, open_session(transport, client, target, self._mode, self._screen())
        except BaseException:
            transport.close()
            raise

    def _farewell(self, left: bool) -> int:
        """Says what goes on and how to come back; the box is asked, never guessed. `left` by `~.`: it may be silent."""
        from cloudrun.app.attach import find_target
        from cloudrun.app.runs import find_run
        from cloudrun.cli.render.causes import cause_words
        from remote_agent.protocol import LIVE_STATES

        assert self._target is not None
        name, say, here = self._target.run, self._context.say, self._context.here
        gone = here(_("left {run}; nothing was done to it. Back: cloudrun attach {run}").format(run=name))
        if left:
            say(gone)
            return int(Exit.OK)
        taken = False
        try:
            with self._context.open_host(self._host, timeout_s=8.0) as box:
                found = find_run(box.client, box.host.data_dir, name)
                if found.state in LIVE_STATES and self._mode != "shared":
                    taken = find_target(box.client, box.host.data_dir, name, None).clients > 0
        except CloudrunError:
            say(gone)
            return int(Exit.OK)
        if found.state in LIVE_STATES:
            state = state_words(found.state)
            state = _("{state}; somebody has taken the session over").format(state=state) if taken else state
            words = _("{run} goes on ({state}). Back: cloudrun attach {run}   Watch: cloudrun logs -f {run}")
        else:
            why = cause_words(found)
            state = f"{state_words(found.state)}, {why}" if why else state_words(found.state)
            words = _("{run} is over: {state}. Its output: cloudrun logs {run}")
        say(here(words.format(run=name, state=state)))
        return int(Exit.OK)


class _Attempt:
    """One attempt to connect, in a thread of its own: connecting blocks, and the keyboard must not."""

    def __init__(self, connect: Callable[[], tuple[Transport, Channel]]) -> None:
        self.result: tuple[Transport, Channel] | None = None
        self.error: CloudrunError | None = None
        self._connect = connect
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self.result = self._connect()
        except CloudrunError as error:
            self.error = error

    def done(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


def _discard_keys(screen: terminal.RawTerminal) -> bool:
    """Throws away what is typed; True when the user wants to leave."""
    keys, _other = screen.wait(None, 0.05)
    return screen.read_keys()[1] if keys else False
