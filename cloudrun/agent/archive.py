"""The agent as one archive: the `remote_agent` package and libtmux, named by what they hold.

The name is the SHA-256 of the files themselves, not of the zip around them: it costs a read of the files and
no compression, and two laptops whose zlib differ agree on it. The zip is made only when a box needs it.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

#: What of libtmux never runs on a box.
_NOT_OF_LIBTMUX = ("test/", "pytest_plugin.py")
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Archive:
    """Files of one agent, sorted by name. `digest`: 64 hex digits over names and contents."""

    files: tuple[tuple[str, bytes], ...]
    digest: str

    @property
    def sha12(self) -> str:
        """The agent's name, and its folder's on the box."""
        return self.digest[:12]

    def zipped(self, *, compressed: bool = True) -> bytes:
        """The zip: the same bytes for the same files on the same machine. Not compressed for a Python that has no zlib."""
        import zipfile  # a box that has the agent does not pay for it

        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, content in self.files:
                info = zipfile.ZipInfo(name, _FIXED_TIME)
                info.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
                info.create_system = 3  # also on Windows: the mode below is a Unix one
                info.external_attr = 0o100644 << 16
                archive.writestr(info, content)
        return out.getvalue()


@lru_cache(maxsize=1)
def installed() -> Archive:
    """The archive of the installed packages; read once in a process."""
    return build(_package_folder("remote_agent"), _package_folder("libtmux"))


def build(agent: Path, libtmux: Path) -> Archive:
    """The archive of these two packages. `agent/entry.py` becomes the archive's `__main__.py`."""
    named = dict(_sources(agent, "remote_agent/"))
    named.update(
        (name, content) for name, content in _sources(libtmux, "vendor/libtmux/")
        if not name.removeprefix("vendor/libtmux/").startswith(_NOT_OF_LIBTMUX)
    )
    named["__main__.py"] = named["remote_agent/entry.py"]
    # The installed agent is held against this list at every start: a file that is gone is noticed.
    named["files"] = "".join(f"{len(named[name])} {name}\n" for name in sorted(named)).encode()
    files = tuple(sorted(named.items()))
    return Archive(files, _digest(files))


def _sources(package: Path, prefix: str) -> Iterator[tuple[str, bytes]]:
    for path in package.rglob("*"):
        if path.suffix in (".py", ".mo") or path.name == "py.typed":
            yield prefix + path.relative_to(package).as_posix(), path.read_bytes()


def _digest(files: tuple[tuple[str, bytes], ...]) -> str:
    digest = hashlib.sha256()
    for name, content in files:
        digest.update(f"{len(name)} {name} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def _package_folder(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {name} is not installed", name=name)
    return Path(next(iter(spec.submodule_search_locations)))
