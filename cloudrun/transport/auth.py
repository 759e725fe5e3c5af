"""Logging in: the keys in their order, then what has to be typed."""

from __future__ import annotations

import getpass
import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paramiko

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.transport import keys
from cloudrun.transport.base import Address, Options, Secret
from cloudrun.transport.link import Link

PASSWORD_TRIES = 3
AGENT_TIMEOUT_S = 3.0
#: The user may have to look for a code on a phone.
TYPING_TIMEOUT_S = 120.0


class LinkLost(Exception):
    """The server hung up during the login (too many tries, too slow a typist): connect again and go on with the next way."""


class _OldServer(Exception):
    """It hung up on a signature of today: the same key once more, on another connection, with an old one."""


@dataclass
class Candidate:
    """One key to try. `make` may ask for a passphrase; `blob` is its public half where that is known before."""

    label: str
    make: Callable[[], paramiko.PKey]
    blob: bytes | None


class Login:
    """The way into one box: found at the first connection, used again for further ones. A password stays in memory."""

    def __init__(self, address: Address, options: Options) -> None:
        self.user = address.user or getpass.getuser()
        #: What opened the box, for people; "" until something did.
        self.opened_by = ""
        #: It was opened by a password or by answers to the box's questions.
        self.typed = False
        self._address = address
        self._options = options
        self._candidates: Iterator[Candidate] | None = None
        self._proven: Callable[[Link], Any] | None = None
        self._tried: list[str] = []
        self._tried_again: set[str] = set()
        self._problems: list[CloudrunError] = []
        self._methods: list[str] = []
        self._typed: str | None = None
        self._given_sent = False
        self._sha1 = False

    def into(self, link: Link) -> None:
        """Logs in on that connection. Raises CloudrunError; LinkLost when another connection may get further."""
        if self._proven is not None:
            self._guarded(link, self._proven)
        elif not (self._by_keys(link) or self._by_typing(link)):
            raise self._refused()
        if not link.is_authenticated():
            if not link.is_active():  # cut off just now: nobody has refused anything
                raise LinkLost
            raise self._refused()

    # ------------------------------------------------------------------------------------------------- keys

    def _by_keys(self, link: Link) -> bool:
        if self._candidates is None:
            self._candidates = candidates(self._address, self._options)
        for candidate in self._candidates:
            if self._methods and "publickey" not in self._methods:
                return False
            if self._try_key(link, candidate):
                return True
        return False

    def _try_key(self, link: Link, candidate: Candidate) -> bool:
        try:
            key = candidate.make()
        except CloudrunError as error:
            self._problems.append(error)
            return False
        if candidate.label not in self._tried:
            self._tried.append(candidate.label)

        def offer(link: Link) -> bool:
            return self._offer(link, key)

        try:
            if not self._guarded(link, offer):
                return False
        except LinkLost:
            # Hung up because of this key, or cut off by chance? It gets one more try on the next connection.
            if candidate.label not in self._tried_again:
                self._tried_again.add(candidate.label)
                again = Candidate(candidate.label, _just(key), candidate.blob)
                self._candidates = itertools.chain([again], self._candidates or ())
            raise
        except _OldServer as error:
            self._candidates = itertools.chain([Candidate(candidate.label, _just(key), candidate.blob)], self._candidates or ())
            raise LinkLost from error
        self._proven = offer
        self.opened_by = candidate.label
        return True

    def _offer(self, link: Link, key: paramiko.PKey) -> bool:
        """One key. A server too old to say which signatures it takes may know SHA-1 alone: that is tried once."""
        link.force_sha1 = self._sha1
        try:
            self._methods = list(link.auth_publickey(self.user, key))
        except paramiko.BadAuthenticationType:
            raise
        except paramiko.AuthenticationException:
            if "rsa" not in key.get_name() or link.says_signatures or self._sha1:
                raise
            self._sha1 = True
            if not link.is_active():
                raise _OldServer from None
            return self._offer(link, key)
        if link.used_sha1 and self._options.say and self._proven is None:
            self._options.say(_("{host} is so old that it takes RSA keys with SHA-1 only").format(host=self._address.shown))
        return link.is_authenticated()

    def _guarded(self, link: Link, step: Callable[[Link], Any]) -> bool:
        """Runs one way of logging in. False: refused, another may be tried on this connection. Raises LinkLost."""
        try:
            step(link)
        except paramiko.BadAuthenticationType as error:
            self._methods = list(error.allowed_types)
        except paramiko.AuthenticationException as error:
            if not link.is_active():
                raise LinkLost from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise LinkLost from error
        if not link.is_active():
            raise LinkLost
        return link.is_authenticated()

    # ----------------------------------------------------------------------------------------------- typing

    def _by_typing(self, link: Link) -> bool:
        if self._options.keys_only:
            return False
        given = self._options.password
        if self._problems and given is None:  # a key that cannot be used is said; a password prompt would hide it
            raise self._problems[0]
        if self._typed is not None:  # typed already, and the server had hung up before it was sent
            return self._send_password(link, self._typed)
        if not self._methods and self._guarded(link, lambda link: link.auth_none(self.user)):
            self.opened_by = _("nothing: the box asks for nothing")
            return True
        if "password" in self._methods:
            return self._by_given(link, given) if given is not None else self._by_password(link)
        if "keyboard-interactive" in self._methods:
            return self._by_questions(link)
        return False

    def _by_given(self, link: Link, given: Secret) -> bool:
        """The password that was given beforehand: one try."""
        password = given.reveal()
        if password is not None and self._send_password(link, password):
            return True
        raise self._password_wrong()

    def _by_questions(self, link: Link) -> bool:
        name = _("the box's own questions (keyboard-interactive)")
        if name not in self._tried:
            self._tried.append(name)
        if not self._guarded(link, self._answer_questions):
            if self._options.password is not None:
                raise self._password_wrong()
            return False
        self.opened_by, self.typed = name, True
        return True

    def _by_password(self, link: Link) -> bool:
        for _try in range(PASSWORD_TRIES):
            try:
                self._typed = self._options.asker.password(_("password of {login}: ").format(login=self._shown))
            except CloudrunError as error:
                raise self._wanted() from error
            if self._send_password(link, self._typed):
                return True
        return False

    def _send_password(self, link: Link, password: str) -> bool:
        def send(link: Link) -> None:
            link.auth_password(self.user, password, fallback=False)

        if _("a password") not in self._tried:
            self._tried.append(_("a password"))
        if not self._guarded(link, send):
            self._typed = None
            return False
        self._proven = send
        self.opened_by, self.typed = _("a password"), True
        return True

    def _answer_questions(self, link: Link) -> None:
        """The server's questions come up in paramiko's reader thread; they are asked here, where Ctrl-C and the terminal are."""
        questions: queue.Queue[list[tuple[str, bool]] | None] = queue.Queue()
        answers: queue.Queue[list[str]] = queue.Queue()
        outcome: list[BaseException] = []

        def handler(_title: str, _text: str, prompts: list[tuple[str, bool]]) -> list[str]:
            questions.put(prompts)
            return answers.get(timeout=TYPING_TIMEOUT_S)

        def work() -> None:
            try:
                link.auth_interactive(self.user, handler)
            except BaseException as error:
                outcome.append(error)
            questions.put(None)

        link.auth_timeout = TYPING_TIMEOUT_S
        threading.Thread(target=work, name="ssh-questions", daemon=True).start()
        while (prompts := questions.get(timeout=TYPING_TIMEOUT_S)) is not None:
            try:
                answers.put([self._answer(text, hidden=not echo) for text, echo in prompts])
            except CloudrunError as error:
                raise self._wanted() from error
        if outcome:
            raise outcome[0]

    def _answer(self, question: str, *, hidden: bool) -> str:
        """The password that was given answers the first hidden question; what else is asked goes to the user."""
        given = self._options.password
        if given is not None and hidden and not self._given_sent:
            self._given_sent = True
            return given.reveal() or ""
        return self._options.asker.password(f"{self._shown}: {question.strip()} ")

    # ---------------------------------------------------------------------------------------------- refusal

    @property
    def _shown(self) -> str:
        return self._address.shown if self._address.user else f"{self.user}@{self._address.shown}"

    def _refused(self) -> CloudrunError:
        if self._problems:
            return self._problems[0]
        if self._tried and self._tried[-1] == _("a password"):  # what the user typed last is what they can mend
            return self._password_wrong()
        tried = ", ".join(self._tried) or _("nothing: there is no key here")
        code = "login-refused" if not self._methods or "publickey" in self._methods else "keys-refused"
        return CloudrunError(code, user=self.user, host=self._address.shown, tried=tried)

    def _wanted(self) -> CloudrunError:
        """It would take a password, and there is nobody to type one."""
        if self._problems:
            return self._problems[0]
        tried = ", ".join(self._tried) or _("none: there is no key here")
        return CloudrunError("password-wanted", user=self.user, host=self._address.shown, tried=tried)

    def _password_wrong(self) -> CloudrunError:
        return CloudrunError("password-wrong", user=self.user, host=self._address.shown)


def candidates(address: Address, options: Options) -> Iterator[Candidate]:
    """Keys in their order: those named for this host, the agent's, the usual files; what needs a passphrase last of each.

    A named file whose key the agent holds is used through the agent: no passphrase is asked.
    """
    agent = {key.asbytes(): key for key in agent_keys()}
    seen: set[bytes] = set()
    for path in address.keys:
        yield _from_file(path, agent, options)
    named = [path.expanduser() for path in address.keys]
    own = [] if options.own_key is None or options.own_key in named or not options.own_key.is_file() else [options.own_key]
    if address.identities_only:  # as with ssh, that means the named files; our own is named by being ours
        yield from (_from_file(path, agent, options) for path in own)
        return
    for blob, key in agent.items():
        seen.add(blob)
        yield Candidate(_("the agent's key {name}").format(name=key.comment or key.fingerprint), _just(key), blob)
    usual = [_from_file(path, {}, options) for path in (*keys.usual_files(Path.home()), *own) if path not in named]
    fresh = [candidate for candidate in usual if candidate.blob not in seen]
    yield from sorted(fresh, key=lambda candidate: _asks(Path(candidate.label)))


def _from_file(path: Path, agent: dict[bytes, Any], options: Options) -> Candidate:
    path = path.expanduser()
    blob: bytes | None = None
    try:
        blob = keys.public_blob(keys.read(path))
    except CloudrunError:
        pass  # said when it is loaded
    if blob is not None and blob in agent:
        return Candidate(str(path), _just(agent[blob]), blob)
    return Candidate(str(path), lambda: keys.load(path, options.asker), blob)


def _asks(path: Path) -> bool:
    try:
        return keys.is_locked(keys.read(path))
    except CloudrunError:
        return False


def _just(key: paramiko.PKey) -> Callable[[], paramiko.PKey]:
    return lambda: key


def agent_keys() -> list[Any]:
    """Keys of the ssh agent; none where there is no agent or it does not answer in time."""
    found: list[Any] = []

    def look() -> None:
        try:
            found.extend(paramiko.Agent().get_keys())
        except Exception:  # an agent that cannot be spoken with is no agent
            found.clear()

    asking = threading.Thread(target=look, name="ssh-agent", daemon=True)
    asking.start()
    asking.join(AGENT_TIMEOUT_S)
    return list(found) if not asking.is_alive() else []
