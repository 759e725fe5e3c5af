"""Which host is meant."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator

from cloudrun.config import paths
from cloudrun.config.hosts import Host
from cloudrun.config.store import Content, HostsFile
from cloudrun.errors import CloudrunError
from cloudrun.i18n import _


def select(named: str | None, *, project_host: Callable[[], str | None] = lambda: None) -> Host:
    """By `--host`, CLOUDRUN_HOST, the project's cloudrun.toml, `host use`, the only one there is; else CloudrunError.

    `project_host` reads the project's file, and is asked only where nothing before it names a host.
    """
    content = HostsFile(paths.hosts_file()).read()
    for name, source in _named(named, project_host, content):
        if name:
            return find(content, name, source)
    if len(content.hosts) == 1:
        (name,) = content.hosts
        return Host.of(name, content.hosts[name])
    if not content.hosts:
        raise CloudrunError("no-hosts")
    raise CloudrunError("which-host", known=", ".join(content.hosts))


def _named(
    named: str | None, project_host: Callable[[], str | None], content: Content
) -> Iterator[tuple[str | None, str]]:
    """What names a host, and where that was said: nothing where the command line says it, which the user has before them."""
    yield named, ""
    yield os.environ.get("CLOUDRUN_HOST"), "CLOUDRUN_HOST"
    yield project_host(), "cloudrun.toml"
    yield content.default, "cloudrun host use"


def find(content: Content, name: str, source: str = "") -> Host:
    """The host of that name. Raises CloudrunError that lists the near ones."""
    entry = content.hosts.get(name)
    if entry is not None:
        return Host.of(name, entry)
    if name == "local":  # this machine needs no entry; one of that name may give it a data folder
        return Host("local", "local")
    near = difflib.get_close_matches(name, content.hosts, n=3, cutoff=0.5) or list(content.hosts)[:5]
    said = _(" (from {source})").format(source=source) if source else ""
    raise CloudrunError("no-such-host", name=name, source=said, near=near)
