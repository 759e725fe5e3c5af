"""What `~/.ssh/config` says about a name: asked through `ssh -G`, which knows Include, Match and all the rest."""

from __future__ import annotations

import getpass
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.transport.base import Address

ASK_TIMEOUT_S = 10.0
MOST_HOPS = 8
#: `ssh -G` lists these when the configuration names none: the usual files, which are tried anyway.
_DEFAULT_FILES = re.compile(r"~/\.ssh/id_(rsa|dsa|ecdsa|ecdsa_sk|ed25519|ed25519_sk|xmss|mldsa\w*)\Z")


@dataclass(frozen=True)
class Resolved:
    """A name as ssh would reach it. `jumps`: as in the configuration (`user@host:port`), outermost first."""

    hostname: str
    port: int
    user: str
    identity_files: tuple[str, ...] = ()
    identities_only: bool = False
    jumps: tuple[str, ...] = ()
    proxy_command: str | None = None
    connect_timeout_s: float | None = None
    alive_s: float | None = None


@dataclass(frozen=True)
class Asked:
    """A name to look up, and what the user gave beside it: that wins over the configuration."""

    name: str
    user: str = ""
    port: int | None = None
    #: Another configuration file than the user's (`ssh -F`).
    config: Path | None = None


def resolve(asked: Asked, say: Callable[[str], None] | None = None) -> Address:
    """Where and as whom, with every jump host resolved too. Raises CloudrunError."""
    return _resolve(asked, say, MOST_HOPS)


def _resolve(asked: Asked, say: Callable[[str], None] | None, hops_left: int) -> Address:
    if hops_left < 0:
        raise CloudrunError("ssh-config-jumps", name=asked.name, most=MOST_HOPS)
    found = look_up(asked, say)
    files = (Path(expanded(file, asked.name, found)).expanduser() for file in found.identity_files)
    proxy = found.proxy_command
    return Address(
        hostname=found.hostname,
        port=found.port,
        user=found.user,
        keys=tuple(path for path in files if path.is_file()),
        identities_only=found.identities_only,
        jumps=tuple(
            hop for jump in found.jumps for hop in _flat(_resolve(_hop(jump, asked.config), say, hops_left - 1))
        ),
        proxy_command=expanded(proxy, asked.name, found) if proxy else None,
        connect_timeout_s=found.connect_timeout_s,
        alive_s=found.alive_s,
    )


def _flat(hop: Address) -> tuple[Address, ...]:
    """A hop with jumps of its own, as a row."""
    return (*hop.jumps, replace(hop, jumps=()))


def _hop(text: str, config: Path | None) -> Asked:
    """`[user@]host[:port]` or `ssh://…`, as ProxyJump has it."""
    user, _at, place = text.removeprefix("ssh://").rpartition("@")
    match = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?|([^:]+)(?::(\d+))?", place)
    if match is None:
        return Asked(place, user, None, config)  # a bare IPv6 address
    port = match[2] or match[4]
    return Asked(match[1] or match[3], user, int(port) if port else None, config)


# -------------------------------------------------------------------------------------------------- asking


def look_up(asked: Asked, say: Callable[[str], None] | None = None) -> Resolved:
    """By `ssh -G` where OpenSSH is, else by paramiko's reader, which is simpler and says so. Raises CloudrunError."""
    ssh = shutil.which("ssh")
    if ssh is None:
        return _by_paramiko(asked, say)
    words = [ssh, "-G"]
    words += ["-F", str(asked.config)] if asked.config else []
    words += ["-l", asked.user] if asked.user else []
    words += ["-p", str(asked.port)] if asked.port else []
    try:
        answer = subprocess.run(
            [*words, "--", asked.name], stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CloudrunError("ssh-config-wrong", name=asked.name, detail=_("ssh -G gives no answer")) from error
    except OSError as error:
        raise CloudrunError("ssh-config-wrong", name=asked.name, detail=str(error)) from error
    if answer.returncode != 0:
        lines = answer.stderr.decode("utf-8", "replace").strip().splitlines() or ["?"]
        raise CloudrunError("ssh-config-wrong", name=asked.name, detail=lines[0])
    return parse_answer(answer.stdout.decode("utf-8", "replace"))


def parse_answer(text: str) -> Resolved:
    """The answer of `ssh -G`: one `keyword value` a line, keywords in lower case, identityfile several times."""
    values: dict[str, str] = {}
    files: list[str] = []
    for line in text.splitlines():
        keyword, _space, value = line.strip().partition(" ")
        if keyword.lower() == "identityfile":
            files.append(value.strip().strip('"'))
        else:
            values.setdefault(keyword.lower(), value.strip())
    named = all(_DEFAULT_FILES.match(file) for file in files)
    return Resolved(
        hostname=values.get("hostname", ""),
        port=int(values.get("port", "22")),
        user=values.get("user", ""),
        identity_files=() if named else tuple(files),
        identities_only=values.get("identitiesonly") == "yes",
        jumps=_listed(values.get("proxyjump")),
        proxy_command=_unless_none(values.get("proxycommand")),
        connect_timeout_s=_seconds(values.get("connecttimeout")),
        alive_s=_alive_s(values),
    )


def _alive_s(values: Mapping[str, str]) -> float | None:
    """How long a silent server counts as alive by the configuration; None where it does not ask."""
    every_s = _seconds(values.get("serveraliveinterval"))
    count = values.get("serveralivecountmax", "3")
    return every_s * max(1, int(count)) if every_s and count.isdigit() else None


def _seconds(value: str | None) -> float | None:
    """`30`, or with units as ssh takes them (`1m30s`); None for none and 0."""
    parts = re.findall(r"(\d+)([smhdw]?)", (value or "").lower())
    if not value or "".join(number + unit for number, unit in parts) != value.lower():
        return None
    each = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    return float(sum(int(number) * each[unit] for number, unit in parts)) or None


def _listed(value: str | None) -> tuple[str, ...]:
    text = _unless_none(value)
    return tuple(hop.strip() for hop in text.split(",")) if text else ()


def _unless_none(value: str | None) -> str | None:
    return None if value is None or value.lower() in ("", "none") else value


def _by_paramiko(asked: Asked, say: Callable[[str], None] | None) -> Resolved:
    from cloudrun.transport.lean import import_paramiko

    import_paramiko()
    from paramiko import SSHConfig
    from paramiko.ssh_exception import ConfigParseError

    path = asked.config or Path.home() / ".ssh" / "config"
    try:
        text = path.read_text("utf-8-sig", errors="surrogateescape")
    except OSError:
        text = ""
    plain, left_out = without_unjudged(text)
    if say and left_out:
        words = _("without OpenSSH's `ssh` these lines do not count here: {lines}")
        say(words.format(lines="; ".join(f"{path}:{number}: {line}" for number, line in left_out)))
    try:
        found = SSHConfig.from_text(plain).lookup(asked.name)
        return _as_resolved(found, asked)
    except (ConfigParseError, ValueError) as error:
        raise CloudrunError("ssh-config-wrong", name=asked.name, detail=str(error)) from error


def _as_resolved(found: Mapping[str, Any], asked: Asked) -> Resolved:
    return Resolved(
        hostname=str(found.get("hostname", asked.name)),
        port=asked.port or int(found.get("port", "22")),
        user=asked.user or str(found.get("user", "")),
        identity_files=tuple(found.get("identityfile", ())),
        identities_only=str(found.get("identitiesonly", "no")).lower() == "yes",
        jumps=_listed(found.get("proxyjump")),
        proxy_command=_unless_none(found.get("proxycommand")),
        connect_timeout_s=_seconds(found.get("connecttimeout")),
        alive_s=_alive_s(found),
    )


def without_unjudged(text: str) -> tuple[str, list[tuple[int, str]]]:
    """A configuration without what paramiko's reader misjudges (it applies some Match blocks to every host and skips Include),
    and those lines with their numbers. What such a block holds goes with it, up to the next Host."""
    kept: list[str] = []
    left_out: list[tuple[int, str]] = []
    within = False
    for number, line in enumerate(text.splitlines(), 1):
        keyword = re.split(r"[\s=]", line.strip(), maxsplit=1)[0].lower()
        if keyword == "match" and not re.fullmatch(r"match[\s=]+all", line.strip().lower()):
            within = True
        elif keyword in ("host", "match"):
            within = False
        if keyword == "include" or (keyword == "match" and within):
            left_out.append((number, line.strip()))
        elif not within:
            kept.append("Host *" if keyword == "match" else line)
    return "\n".join(kept), left_out


def expanded(text: str, name: str, found: Address | Resolved) -> str:
    """The %-tokens that ssh documents for files and proxies; `ssh -G` leaves them as they are written."""
    local = socket.gethostname()
    tokens = {
        "%": "%", "h": found.hostname, "n": name, "p": str(found.port), "r": found.user,
        "d": str(Path.home()), "u": _local_user(), "l": local, "L": local.partition(".")[0], "k": found.hostname,
    }
    return re.sub(r"%(.)", lambda match: tokens.get(match[1], match[0]), text)


def _local_user() -> str:
    return getpass.getuser()
