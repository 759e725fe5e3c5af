"""`cloudrun logs`: a run's output, now or live."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cloudrun.cli.context import naming
from cloudrun.cli.options import HostOption, JsonOption, RunArgument, flag
from cloudrun.errors import CloudrunError, Exit
from cloudrun.i18n import _
from cloudrun.states import state_words

if TYPE_CHECKING:
    from cloudrun.app.logs import Ended, Event, Gap
    from cloudrun.cli.context import Context
    from cloudrun.cli.log_output import JsonSink, Matching, Sink
    from cloudrun.config.hosts import Host
    from remote_agent import protocol

DEFAULT_LINES = 200
LinesOption = Annotated[int | None, flag(
    "-n", "--lines", min=0, metavar="N",
    help=_("The last N lines, over restarts (else 200); with --grep the last N matches (else all)."),
)]


def logs(
    ctx: typer.Context,
    run: RunArgument = None,
    lines: LinesOption = None,
    follow: Annotated[bool, flag("--follow", "-f", help=_("Until the run ends; a lost connection is made again."))] = False,
    attempt: Annotated[int | None, flag("--attempt", min=1, metavar="K", help=_("Only attempt K (see `ps`)."))] = None,
    raw: Annotated[bool, flag("--raw", help=_("Byte for byte as the run wrote it."))] = False,
    grep: Annotated[str | None, flag("--grep", metavar="RE", help=_("Lines of the whole log that match."))] = None,
    host: HostOption = None,
    json: JsonOption = False,
) -> int:
    from remote_agent import protocol

    context: Context = ctx.obj
    if raw and (grep is not None or context.json):
        raise CloudrunError("usage", detail=_("--raw goes with neither --grep nor --json"), command="cloudrun logs")
    shown = Shown(raw, _pattern(grep), lines)
    whole = shown.pattern is not None
    chosen = context.host(host)
    request = protocol.FollowRequest(
        data_dir=chosen.data_dir, name=run, project_id=None if run else context.project_id(), attempt=attempt,
        tail_lines=None if whole else DEFAULT_LINES if lines is None else lines, whole=whole, follow=follow,
        only_attempt=attempt is not None,
    )
    return Showing(context, chosen, request, shown).run()


def follow_run(context: Context, host: Host, name: str, attempt: int | None = None) -> int:
    """`logs -f` of one run from the beginning of an attempt: what `launch --follow` goes on into."""
    from remote_agent import protocol

    request = protocol.FollowRequest(
        data_dir=host.data_dir, name=name, attempt=attempt, offset=0 if attempt else None,
        tail_lines=None if attempt else DEFAULT_LINES, follow=True,
    )
    return Showing(context, host, request, Shown()).run()


@dataclass(frozen=True)
class Shown:
    """How the log is to be shown."""

    raw: bool = False
    pattern: re.Pattern[str] | None = None
    #: Of what matches the pattern, the last so many; None: all.
    last: int | None = None


class Showing:
    """One log on its way to stdout."""

    def __init__(self, context: Context, host: Host, request: protocol.FollowRequest, shown: Shown) -> None:
        self._context = context
        self._host = host
        self._request = request
        self._named = request.name is not None
        self._run: protocol.RunInfo | None = None
        self._wanted = _wanted(shown)
        self._sink = _sink(context, shown, self._wanted, follow=request.follow)
        if sys.stdout.isatty() and sys.stderr.isatty():
            context.before_talk = self._sink.aside

    def run(self) -> int:
        """Shows events until the last one, and gives the exit code."""
        from cloudrun.app.logs import Ended, Link, read_log

        _let_windows_show_colours()
        events = read_log(Link(lambda: self._context.connect(self._host), self._host.python), self._request)
        try:
            with naming(self._host.name):
                for event in events:
                    if isinstance(event, Ended):
                        return self._end(event)
                    self._show(event)
        except KeyboardInterrupt:
            return self._leave()
        finally:
            events.close()
        raise AssertionError("the log ended without an end")

    def _show(self, event: Event) -> None:
        from cloudrun.app import logs as app

        if isinstance(event, app.Data):
            self._sink.data(event.attempt, event.offset, event.data)
        elif isinstance(event, app.Started):
            self._run = event.run
            if not self._named:
                self._say(_("run: {run} ({state})").format(run=event.run.name, state=state_words(event.run.state)))
        elif isinstance(event, app.NextAttempt):
            self._sink.cut()
            self._say(_("attempt {attempt}").format(attempt=event.attempt))
        elif isinstance(event, app.CaughtUp):
            self._sink.release()
        elif isinstance(event, app.Gap):
            self._sink.cut()
            self._say(_gap_words(event))
        elif isinstance(event, app.Unreachable):
            self._say(_("{why}; trying again").format(why=event.error.message))
        elif isinstance(event, app.Reconnected):
            self._say(_("reconnected after {seconds:.0f} s; nothing is missing").format(seconds=event.after_s))

    def _end(self, ended: Ended) -> int:
        from cloudrun.cli.log_output import JsonSink

        self._sink.close()
        if isinstance(self._sink, JsonSink):
            self._end_json(self._sink, ended)
        if self._wanted is not None and not self._wanted.found:
            self._say(_("no line of {run} matches").format(run=self._name))
        if not self._request.follow:
            return int(Exit.OK)
        if not self._context.json:
            self._say(_end_words(self._name, ended))
        return int(Exit.OK if ended.state == "succeeded" else Exit.RUN_FAILED)

    def _end_json(self, sink: JsonSink, ended: Ended) -> None:
        closing = {"state": ended.state, "exit_code": ended.exit_code, "signal": ended.signal}
        if sink.kept is None:
            sink.say(closing)
        else:
            named = {"run": self._name, "host": self._host.name, "attempt": ended.attempt}
            self._context.emit_json({**named, **closing, "lines": sink.kept})

    def _leave(self) -> int:
        """Ctrl-C: out at once. The terminal gets its colours and its line back."""
        self._sink.close()
        if self._request.follow and self._run:
            self._say(self._context.here(_("still running, `cloudrun logs -f {run}` to look again").format(run=self._name)))
        return int(Exit.INTERRUPTED)

    @property
    def _name(self) -> str:
        return self._run.name if self._run else self._request.name or ""

    def _say(self, text: str) -> None:
        self._context.say(text)


def _wanted(shown: Shown) -> Matching | None:
    from cloudrun.cli.log_output import Matching

    return None if shown.pattern is None else Matching(shown.pattern, shown.last)


def _sink(context: Context, shown: Shown, wanted: Matching | None, *, follow: bool) -> Sink:
    from cloudrun.cli.log_output import JsonSink, LineSink, Out, RawSink, TerminalSink

    out = Out()
    if shown.raw:
        return RawSink(out)
    if context.json:
        return JsonSink(out, wanted, kept=not follow)
    if wanted is not None or not sys.stdout.isatty():
        return LineSink(out, wanted)
    return TerminalSink(out)


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise CloudrunError("bad-pattern", pattern=text, detail=str(error)) from error


def _gap_words(gap: Gap) -> str:
    if gap.to < gap.offset:
        return _("the log file was cut on the box; it begins anew here")
    return _("{bytes} bytes of attempt {attempt} are not there any more: the log had reached its limit").format(
        bytes=gap.to - gap.offset, attempt=gap.attempt)


def _end_words(name: str, ended: Ended) -> str:
    from cloudrun.cli.render.causes import cause_words

    if ended.state == "succeeded":
        return _("{run} succeeded").format(run=name)
    why = cause_words(ended)
    return _("{run} {state}{why} (attempt {attempt})").format(
        run=name, state=state_words(ended.state), why=f": {why}" if why else "", attempt=ended.attempt)


def _let_windows_show_colours() -> None:
    """Older Windows consoles show sequences only when they are told to."""
    if os.name != "nt" or not sys.stdout.isatty():
        return
    import ctypes

    kernel = ctypes.windll.kernel32  # type: ignore[attr-defined,unused-ignore]
    handle, mode = kernel.GetStdHandle(-11), ctypes.c_uint32()
    if kernel.GetConsoleMode(handle, ctypes.byref(mode)):
        kernel.SetConsoleMode(handle, mode.value | 0x0004)
