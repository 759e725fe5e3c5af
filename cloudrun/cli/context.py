"""What every command has at hand: settings of this invocation, the box, and the one place that writes to the screen."""

from __future__ import annotations

import json as json_module
import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from cloudrun.agent.client import AgentClient, Question
    from cloudrun.config.hosts import Host
    from cloudrun.project.settings import Project
    from cloudrun.transport.base import Asker, Secret, Transport

T = TypeVar("T")
#: A pipe has no width: what is laid out in columns keeps each line whole for whoever reads it.
PIPE_COLUMNS = 10_000
#: Commands in a hint that go to a host, and do not say to which.
_TO_A_HOST = re.compile(r"\bcloudrun (?:ps|logs|attach|gpu|stop|rm|doctor|launch)\b(?![^;(]* (?:-H|--host)\b)")


#: How long a box that refuses or does not answer is tried: it may be booting.
CONNECT_TIMEOUT_S = 20.0


@dataclass
class Box:
    """An open box: its host entry, the connection, and the agent that answers on it."""

    host: Host
    transport: Transport
    client: AgentClient


@dataclass(frozen=True)
class Dialling:
    """How a host is connected to, where that is not as always. `replace_key_of`: a known_hosts name whose key may be replaced."""

    accept_new: bool = False
    timeout_s: float | None = None
    replace_key_of: str = ""
    #: The known_hosts name that the host had before its address was changed.
    known_as: str = ""
    password: Secret | None = None
    #: The host key's fingerprint as the user gave it: that key is trusted, and no other.
    fingerprint: str | None = None
    #: This key and nothing else, to see whether the box takes it.
    only_key: Path | None = None
    #: What will be shown is laid out: what that takes is loaded while the network is waited for.
    laid_out: bool = False


@contextmanager
def naming(host: str, **more: str) -> Iterator[None]:
    """Errors that arise within know the host's name, and what else is given, for the command that they tell to type."""
    try:
        yield
    except CloudrunError as error:
        for key, value in {"host_name": host, **more}.items():
            error.params.setdefault(key, value)
        raise


def _load(*, laid_out: bool) -> None:
    """What nearly every command needs once the box answers."""
    from cloudrun.agent import archive, client, follow  # noqa: F401

    archive.installed()
    if laid_out:
        from rich import console, table, text  # noqa: F401


class Context:
    """One invocation. stdout is data, stderr is talk; with `json` stdout carries one JSON document and nothing else."""

    def __init__(self, *, debug: bool = False, json: bool = False) -> None:
        self.debug = debug
        self.json = json
        #: How long a box that does not answer yet is tried, where the command line says it.
        self.connect_timeout_s: float | None = None
        #: The host that the command line named.
        self._named_host: str | None = None
        #: Something else fills the terminal (attach): no talk on it.
        self.silent = False
        #: Called before a line of talk: what stands on the terminal there ends its line first.
        self.before_talk: Callable[[], None] = lambda: None
        self._typed: dict[str, str] = {}

    # ------------------------------------------------------------------------------------------- output

    def out(self, renderable: RenderableType) -> None:
        """Data for people, on stdout. Text keeps its lines; what is laid out fits the terminal."""
        from rich.text import Text

        console = self._console(stderr=False)
        soft_wrap = isinstance(renderable, (str, Text))
        if console.is_terminal:
            console.print(renderable, soft_wrap=soft_wrap)
            return
        with console.capture() as rendered:
            console.print(renderable, soft_wrap=soft_wrap)
        for line in rendered.get().split("\n")[:-1]:  # columns are filled up with blanks, which make long lines of short ones
            print(line.rstrip(" "), file=console.file)
        console.file.flush()

    def say(self, text: str) -> None:
        """A quiet line of talk, on stderr; never markup, so that a path with brackets shows as it is."""
        if self.silent:
            return
        self.before_talk()
        self._console(stderr=True).print(text, style="dim", markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """No talk and no questions within the block."""
        self.silent = True
        try:
            yield
        finally:
            self.silent = False

    def emit_json(self, document: Any) -> None:
        """One JSON document on stdout, UTF-8 whatever the locale says."""
        text = json_module.dumps(document, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
        sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
        sys.stdout.flush()

    def fail(self, error: CloudrunError) -> int:
        """Shows an error where it belongs and gives the exit code."""
        hint = self.here(error.hint)
        if self.json:
            self.emit_json({"error": {
                "code": error.code, "message": error.message, "hint": hint, "exit_code": int(error.exit_code),
            }})
            return int(error.exit_code)
        from rich.text import Text

        self.before_talk()
        console = self._console(stderr=True)
        console.print(Text.assemble((_("error: "), "bold red"), error.message), soft_wrap=True)
        if hint:
            console.print(Text.assemble((_("try:   "), "bold"), hint), soft_wrap=True)
        return int(error.exit_code)

    def confirm(self, question: str) -> bool:
        """Asks on the terminal; no is the default. Raises CloudrunError where there is nobody to ask."""
        return self.ask(f"{question} [y/N]").strip().lower() in ("y", "yes", "是")

    def ask(self, question: str) -> str:
        """One line of answer. Raises CloudrunError where there is nobody to ask."""
        if not sys.stdin.isatty():
            raise CloudrunError("nobody-to-ask", question=question)
        sys.stderr.write(f"{question} ")
        sys.stderr.flush()
        return sys.stdin.readline()

    def _console(self, *, stderr: bool) -> Console:
        from rich.console import Console

        console = Console(stderr=stderr, highlight=False)
        if not console.is_terminal:
            console.width = PIPE_COLUMNS
        return console

    # ---------------------------------------------------------------------------------------- hosts, boxes

    @property
    def asker(self) -> Asker:
        from cloudrun.cli.asking import TerminalAsker

        return TerminalAsker(self._typed, silent=self.silent)

    def project(self) -> Project:
        """The project of the working folder: its `cloudrun.toml`, or the defaults where there is none."""
        from cloudrun.project.settings import find_project

        return find_project(Path.cwd())

    def project_id(self) -> str | None:
        """The id of the working folder's project; None where nothing was launched from it: runs of all projects are meant."""
        from cloudrun.project.identity import known_id
        from cloudrun.project.settings import project_folder

        return known_id(project_folder(Path.cwd()))

    def host(self, name: str | None) -> Host:
        """The host that is meant (see `cloudrun.config.selection`)."""
        self._named_host = name
        return self._selected(name)

    def here(self, words: str) -> str:
        """A hint whose commands go to the host that this command was told to go to, where they would not by themselves."""
        name = self._named_host
        if not name or not _TO_A_HOST.search(words):
            return words
        try:
            if self._selected(None).name == name:
                return words
        except CloudrunError:
            pass  # without a name none is meant
        return _TO_A_HOST.sub(rf"\g<0> -H {name}", words)

    def _selected(self, name: str | None) -> Host:
        from cloudrun.config.selection import select

        def of_project() -> str | None:
            from cloudrun.project.settings import project_host

            return project_host(Path.cwd())

        return select(name, project_host=of_project)

    def connect(self, host: Host, how: Dialling | None = None) -> Transport:
        """A connection to the host. Raises CloudrunError."""
        from dataclasses import replace

        from cloudrun.cli.asking import Expecting
        from cloudrun.config import paths
        from cloudrun.transport import connect
        from cloudrun.transport.base import Options
        from cloudrun.transport.lean import import_paramiko_beside

        how = how or Dialling()
        with naming(host.name):
            if not host.is_local:
                import_paramiko_beside()  # OpenSSH is asked for the address meanwhile
            address = host.address
        asker = self.asker if how.fingerprint is None else Expecting(how.fingerprint, self.asker)
        options = Options(
            asker=asker, known_hosts=paths.known_hosts_file(), accept_new=how.accept_new,
            connect_timeout_s=self.connect_timeout_s or address.connect_timeout_s or how.timeout_s or CONNECT_TIMEOUT_S,
            say=self.say,
            own_key=paths.own_key_file(), replace_key_of=how.replace_key_of, known_as=how.known_as,
            password=how.password, keys_only=how.only_key is not None, meanwhile=partial(_load, laid_out=how.laid_out),
        )
        with naming(host.name):
            if how.only_key is not None:
                address, options = replace(address, keys=(how.only_key,), identities_only=True), replace(options, own_key=None)
            return connect(address, options)

    def forget_typed(self) -> None:
        """What was typed as a secret in this invocation is kept no longer."""
        self._typed.clear()

    def watched(self, host: Host, ask: Callable[[Box], T]) -> Generator[T, None, None]:
        """Answers of one host without end, for `--watch`: a lost connection is made again by itself, and that is said."""
        from cloudrun.app.watching import Question, Told, answers

        def lost(error: CloudrunError) -> None:
            self.say(_("{why}; trying again").format(why=error.message))

        def back(after_s: float) -> None:
            self.say(_("reconnected after {seconds:.0f} s").format(seconds=after_s))

        return answers(Question(lambda: self.open_host(host), ask), Told(lost, back))

    def surely(self, host: Host, ask: Callable[[Box, bool], T]) -> T:
        """What the box did, though the connection is lost on the way: it is looked up over another. See `app.surely`."""
        from cloudrun.app.surely import Errand, surely

        def lost(error: CloudrunError) -> None:
            self.say(_("the connection was lost before the answer came; looking up what the box did"))

        return surely(Errand(lambda: self.open_host(host), ask, lost))

    @contextmanager
    def open_host(
        self, host: Host, *, timeout_s: float | None = None, ahead: Callable[[], Question] | None = None
    ) -> Iterator[Box]:
        """The box with its agent: one connection, one exec, for as long as the block lasts. `ahead`: what will be asked first
        (see `AgentClient.open`), made when the connection stands."""
        transport = self.connect(host, Dialling(timeout_s=timeout_s, laid_out=not self.json))
        try:
            from cloudrun.agent.client import AgentClient  # it was loaded while the network was waited for

            with naming(host.name):
                client = AgentClient.open(transport, host.python, ahead=ahead and ahead())
                try:
                    yield Box(host, transport, client)
                finally:
                    client.close()
        finally:
            transport.close()
