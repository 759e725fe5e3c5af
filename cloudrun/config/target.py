"""TARGET: what a user pastes or types to say where a box is. Pure: text in, parts out."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.transport.base import Address

#: ssh's options that take a value, and those that take none.
_WITH_VALUE = frozenset("BbcDEeFIiJLlmOopPQRSWw")
_ALONE = frozenset("46AaCfGgKkMNnqsTtVvXxYy")
#: What web pages make of plain characters. Quotes and dashes are turned back, spaces of all kinds become one.
_WEB = str.maketrans({
    "\u3000": " ", "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u200b": None, "\u200c": None, "\u200d": None, "\ufeff": None,
    "\u2013": "-", "\u2014": "-", "\u2212": "-", "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'",
    "\uff1a": ":", "\uff20": "@",
})
_PASSWORD = re.compile(r"(?i)(?:登录|登陆|root)?\s*(?:(?:password|passwd)\s*[:=]|(?:密码|口令)\s*[:=]?)\s*\S*")
#: A shell's prompt, or a page's label ("登录指令:", "SSH command:"), before the text proper.
_PROMPT = re.compile(r"^\s*(?:[$#>]\s+|[^\s@:]*[^\x00-\x7f][^\s@:]*\s*:\s*|(?i:ssh|login|command|ssh command|ssh login)\s*:\s+)")
_HOSTNAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?\Z")
_V6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]+(?:%\w+)?\Z")
_USER = re.compile(r"[^\s@:/'\"]+\Z")


@dataclass(frozen=True)
class Target:
    """What was meant. `text` may be stored: it is the target in one line and holds no password.

    `lookup`: the ssh configuration counts beside what was given (not with a HostName of its own). `jumps`: outermost first;
    `direct`: no jump hosts, whatever the configuration says (`-J none`).
    """

    text: str
    hostname: str
    user: str = ""
    port: int | None = None
    keys: tuple[Path, ...] = ()
    identities_only: bool = False
    jumps: tuple[str, ...] = ()
    proxy_command: str | None = None
    lookup: bool = False
    direct: bool = False
    notes: tuple[str, ...] = ()

    def anchored(self, folder: Path) -> Target:
        """With key files that hold from every working folder; `~` stays as it is written."""
        if all(key.is_absolute() or str(key).startswith("~") for key in self.keys):
            return self
        found = replace(self, keys=tuple(key if str(key).startswith("~") else folder / key for key in self.keys))
        return replace(found, text=_written(found))

    def address(self) -> Address:
        """As it stands, without the ssh configuration."""
        jumps = tuple(parse(jump).address() for jump in self.jumps)
        return Address(
            self.hostname, self.port or 22, self.user, self.keys, self.identities_only, jumps, self.proxy_command
        )


@dataclass
class _Login:
    """A login command while it is being read."""

    user: str = ""
    port: int | None = None
    keys: list[Path] = field(default_factory=list)
    identities_only: bool = False
    jumps: tuple[str, ...] = ()
    direct: bool = False
    proxy_command: str | None = None
    hostname: str = ""
    place: str | None = None


def parse(text: str) -> Target:
    """Raises CloudrunError that names what is wrong and what to type."""
    line, notes = _one_line(text)
    if not line:
        raise CloudrunError("target-empty")
    if line == "local":
        return Target("local", "local", notes=notes)
    words = _words(line)
    if words[0] == "sshpass":
        words, notes = _without_sshpass(words), (*notes, _password_note())
    if words[0] in ("ssh", "ssh.exe") or words[0].endswith("/ssh"):
        return _login_command(words, notes)
    if len(words) > 1:
        raise CloudrunError("target-words", target=line, word=words[1])
    return _place(words[0], notes)


def _one_line(text: str) -> tuple[str, tuple[str, ...]]:
    """The line that says where, and notes: a provider's page is pasted with its password as often as not."""
    plain = text.translate(_WEB)
    without = _PASSWORD.sub(" ", plain)
    notes = (_password_note(),) if without != plain else ()
    lines = [" ".join(_PROMPT.sub("", line).split(" ")).strip() for line in without.splitlines()]
    lines = [line for line in lines if line]
    if len(lines) > 1:
        raise CloudrunError("target-lines", target=lines[0])  # the others may be a password
    line = lines[0] if lines else ""
    if len(line) > 1 and line[0] == line[-1] and line[0] in "'\"`":  # quoted as a whole
        line = line[1:-1].strip()
    return line, notes


def _password_note() -> str:
    return _("the password is not stored; where no key opens the box it is asked for once, to put a key there")


def _words(line: str) -> list[str]:
    if re.search(r"(?:^|[\s\"'])[A-Za-z]:\\", line):  # a path of Windows: its backslashes quote nothing
        line = line.replace("\\", "\\\\")
    try:
        return shlex.split(line, posix=True)
    except ValueError as error:
        raise CloudrunError("target-quotes", target=line) from error


def _without_sshpass(words: list[str]) -> list[str]:
    at = next((index for index, word in enumerate(words) if word == "ssh" or word.endswith("/ssh")), None)
    if at is None:
        raise CloudrunError("target-words", target="sshpass …", word="sshpass")
    return words[at:]


# ------------------------------------------------------------------------------------------ login commands


def _login_command(words: list[str], notes: tuple[str, ...]) -> Target:
    login = _Login()
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if word.startswith("-") and word not in ("-", "--"):
            _options(login, word[1:], rest)
        elif word == "--":
            continue
        elif login.place is None:
            login.place = word
        else:
            raise CloudrunError("target-command", command=" ".join([word, *rest]), login=" ".join(words[: -len(rest) - 1]))
    if login.place is None:
        raise CloudrunError("target-no-host", target=" ".join(words))
    return _as_target(login, notes)


def _options(login: _Login, letters: str, rest: list[str]) -> None:
    """One word of options: `p23456`, `4Cp 23456`, …; a value may be glued to its letter or be the next word."""
    for index, letter in enumerate(letters):
        if letter in _ALONE:
            continue
        if letter not in _WITH_VALUE:
            raise CloudrunError("target-option", option=f"-{letter}")
        value = letters[index + 1 :] or (rest.pop(0) if rest else "")
        if not value:
            raise CloudrunError("target-option-value", option=f"-{letter}")
        _option(login, letter, value)
        return


def _option(login: _Login, letter: str, value: str) -> None:
    if letter in "pP":
        login.port = _port(value)
    elif letter == "l":
        login.user = _user(value)
    elif letter == "i":
        login.keys.append(Path(value))
    elif letter == "J":
        login.direct = value.lower() == "none"
        login.jumps = () if login.direct else tuple(jump.strip() for jump in value.split(","))
    elif letter == "o":
        _long_option(login, value)


def _long_option(login: _Login, text: str) -> None:
    """`-o Port=23456`, `-o "Port 23456"`; what has nothing to do with the way to the box is left alone."""
    name, value = [*re.split(r"\s*=\s*|\s+", text.strip(), maxsplit=1), ""][:2]
    simple = {"port": "p", "user": "l", "identityfile": "i", "proxyjump": "J"}.get(name.lower())
    if simple and not value:
        raise CloudrunError("target-option-value", option=f"-o {name}")
    if simple:
        _option(login, simple, value)
    elif name.lower() == "identitiesonly":
        login.identities_only = value.lower() == "yes"
    elif name.lower() == "hostname":
        login.hostname = value
    elif name.lower() == "proxycommand":
        login.proxy_command = None if value.lower() == "none" else value


def _as_target(login: _Login, notes: tuple[str, ...]) -> Target:
    place = _place(login.place or "", notes)
    user, port = login.user or place.user, login.port or place.port
    found = Target(
        text="", hostname=_hostname(login.hostname, login.hostname) if login.hostname else place.hostname, user=user, port=port,
        keys=tuple(login.keys), identities_only=login.identities_only, jumps=login.jumps, proxy_command=login.proxy_command,
        lookup=not login.hostname, direct=login.direct, notes=place.notes,
    )
    return replace(found, text=_written(found))


def _written(target: Target) -> str:
    """The login command again, in one plain line: what is stored."""
    words = ["ssh"]
    words += ["-p", str(target.port)] if target.port else []
    words += [word for key in target.keys for word in ("-i", str(key))]
    words += ["-J", ",".join(target.jumps) or "none"] if target.jumps or target.direct else []
    words += ["-o", "IdentitiesOnly=yes"] if target.identities_only else []
    words += ["-o", f"ProxyCommand={target.proxy_command}"] if target.proxy_command else []
    words.append(f"{target.user}@{target.hostname}" if target.user else target.hostname)
    return shlex.join(words)


# -------------------------------------------------------------------------------------------------- places


def _place(word: str, notes: tuple[str, ...]) -> Target:
    """`[user@]host[:port]`, `[v6]:port`, `ssh://…`, or a name of the ssh configuration."""
    if word.startswith("ssh://"):
        return _url(word, notes)
    if "://" in word:
        raise CloudrunError("target-not-ssh", target=word)
    user, at, place = word.rpartition("@")
    if at and ":" in user:  # user:password@host
        user, notes = user.partition(":")[0], (*notes, _password_note())
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", place)
    if bracketed:
        hostname, port = bracketed[1], bracketed[2]
    elif place.count(":") == 1:
        hostname, port = place.split(":")
    else:
        hostname, port = place, None
    if at:
        _user(user)
    checked = _hostname(hostname, word)
    number = None if port is None else _port(port)
    shown = f"[{checked}]" if ":" in checked else checked
    text = f"{user}@{shown}" if user else shown
    return Target(text + (f":{number}" if number else ""), checked, user, number, lookup=True, notes=notes)


def _url(word: str, notes: tuple[str, ...]) -> Target:
    split = urlsplit(word)
    try:
        port = split.port
    except ValueError as error:
        raise CloudrunError("target-port", port=split.netloc.rpartition(":")[2]) from error
    if split.path not in ("", "/"):
        raise CloudrunError("target-words", target=word, word=split.path)
    if split.password is not None:
        notes = (*notes, _password_note())
    user = _user(unquote(split.username)) if split.username else ""
    hostname = _hostname(split.hostname or "", "ssh://")
    shown = f"[{hostname}]" if ":" in hostname else hostname
    text = (f"{user}@{shown}" if user else shown) + (f":{port}" if port else "")
    return Target(text, hostname, user, port, lookup=True, notes=notes)


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise CloudrunError("target-port", port=text)
    return int(text)


def _user(text: str) -> str:
    if not _USER.match(text) or text.startswith("-"):
        raise CloudrunError("target-user", user=text)
    return text


def _hostname(text: str, within: str) -> str:
    if not text:
        raise CloudrunError("target-no-host", target=within)
    if _V6.match(text) or _HOSTNAME.match(text):
        return text
    wrong = next((letter for letter in text if not re.match(r"[A-Za-z0-9._-]", letter)), text[0])
    raise CloudrunError("target-host", host=text, character=wrong)
