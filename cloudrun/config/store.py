"""hosts.toml: read with checks, changed without losing the user's comments, by one writer at a time."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from cloudrun import durable
from cloudrun.errors import CloudrunError
from cloudrun.i18n import N_, _

if TYPE_CHECKING:
    import tomlkit

Backend = Literal["auto", "screen", "tmux", "detached"]

_HEADER = N_("Hosts of cloudrun. Made by `cloudrun host add`; may be edited by hand. Passwords never belong here.")


class Entry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`[hosts.NAME]`."""

    target: str
    key: str | None = None
    data_dir: str | None = None
    backend: Backend = "auto"
    python: str | None = None


class Content(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The whole file. `default`: the name chosen by `host use`."""

    default: str | None = None
    hosts: dict[str, Entry] = {}


class HostsFile:
    """The file at `path`; that it is missing means no hosts yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Content:
        """Raises CloudrunError with the place of what is wrong."""
        plain = _read_plainly(self.path)
        return self._checked(self._document().unwrap() if plain is None else plain)

    @contextlib.contextmanager
    def changing(self) -> Iterator[Change]:
        """The file under a lock; written back, checked and whole, when the block ends well. Raises CloudrunError."""
        try:
            durable.private_folder(self.path.parent)
            with durable.locked(self.path):
                document = self._document()
                change = Change(document, self._checked(document.unwrap()))
                yield change
                self._checked(document.unwrap())
                durable.write_private(self.path, document.as_string())
        except OSError as error:
            raise CloudrunError("hosts-file-unwritable", path=str(self.path), detail=str(error)) from error

    def _document(self) -> tomlkit.TOMLDocument:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        try:
            return tomlkit.parse(self.path.read_bytes().decode("utf-8-sig"))
        except FileNotFoundError:
            fresh = tomlkit.document()
            fresh.add(tomlkit.comment(_(_HEADER)))
            return fresh
        except (OSError, UnicodeDecodeError, TOMLKitError) as error:
            raise CloudrunError("hosts-file-wrong", path=str(self.path), detail=str(error)) from error

    def _checked(self, document: dict[str, Any]) -> Content:
        try:
            return msgspec.convert(document, Content)
        except msgspec.ValidationError as error:
            raise CloudrunError("hosts-file-wrong", path=str(self.path), detail=str(error)) from error


def _read_plainly(path: Path) -> dict[str, Any] | None:
    """By Python's own reader where it has one: tomlkit, which keeps comments, takes longer to load than the file to be read.
    None where something is wrong: tomlkit says what."""
    if sys.version_info < (3, 11):
        return None
    import tomllib

    with contextlib.suppress(OSError, ValueError):
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    return None


class Change:
    """What may be done to the file while it is held. `before` is what it said."""

    def __init__(self, document: tomlkit.TOMLDocument, before: Content) -> None:
        self._document = document
        self.before = before

    def put(self, name: str, values: dict[str, str | None]) -> None:
        """Sets the values of a host, new or there already; None takes one away; others, and comments, stay."""
        import tomlkit

        hosts: Any = self._document.setdefault("hosts", tomlkit.table(is_super_table=True))
        table: Any = hosts.setdefault(name, tomlkit.table())
        for key, value in values.items():
            if value is not None:
                table[key] = value
            elif key in table:
                del table[key]

    def remove(self, name: str) -> None:
        hosts: Any = self._document["hosts"]
        del hosts[name]
        if self.before.default == name:
            del self._document["default"]

    def use(self, name: str) -> None:
        document = self._document
        if "default" in document or "hosts" not in document:
            document["default"] = name
            return
        # A plain value after a table would belong to that table: it has to stand before the first one.
        hosts = document["hosts"]
        del document["hosts"]
        document["default"] = name
        document["hosts"] = hosts
