"""The id that marks a project folder, so that two folders of the same name are never mixed on a box.

It stands in `.cloudrun/project-id`, beside a `.gitignore` of its own that keeps the folder out of git. A copy of a project
(`cp -r`) is another project: the file remembers where it was made, and where that place still holds the same id, this
folder is a copy and gets an id of its own. A folder that was moved keeps its id.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from cloudrun.errors import CloudrunError

FOLDER = ".cloudrun"
FILE = "project-id"


def project_root(folder: Path) -> Path:
    """The folder without links. Raises CloudrunError("project-is-home") for the home and the root: they are no project, and
    nothing is written into them or sent from them."""
    root = folder.resolve()
    if root == Path(root.anchor) or root == Path.home().resolve():
        raise CloudrunError("project-is-home", folder=str(root))
    return root


def project_id(folder: Path) -> str:
    """The folder's id; made at first need. Raises CloudrunError where it cannot be kept."""
    root = project_root(folder)
    file = root / FOLDER / FILE
    try:
        known, made_at = _read(file)
        if known is None:
            return _create(file, root)
        if made_at == str(root):
            return known
        if made_at is not None and _is_copy_of(Path(made_at), file, known):
            known = secrets.token_hex(16)
        _write(file, known, root)
        return known
    except OSError as error:
        raise CloudrunError("project-not-writable", path=str(file), folder=str(root),
                            reason=error.strerror or str(error)) from error


def known_id(folder: Path) -> str | None:
    """The id a folder was marked with, if it was; looking writes nothing."""
    try:
        return _read(folder.resolve() / FOLDER / FILE)[0]
    except OSError:
        return None


def _read(file: Path) -> tuple[str | None, str | None]:
    """(id, where it was made); None for what is not there or not ours."""
    try:
        body = json.loads(file.read_bytes())
        return str(body["id"]), str(body["folder"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None, None


def _is_copy_of(origin: Path, file: Path, known: str) -> bool:
    """Whether the folder where the id was made is still there and another one than ours (a second mount is the same one)."""
    try:
        elsewhere = origin / FOLDER / FILE
        return _read(elsewhere)[0] == known and not elsewhere.samefile(file)
    except OSError:
        return False


def _create(file: Path, root: Path) -> str:
    """Makes the id. Of two commands at the same moment both get the one that came first."""
    file.parent.mkdir(exist_ok=True)
    (file.parent / ".gitignore").write_text("*\n", encoding="ascii")
    fresh = secrets.token_hex(16)
    temporary = _temporary(file, fresh, root)
    try:
        os.link(temporary, file)
        return fresh
    except FileExistsError:
        return _read(file)[0] or _write(file, fresh, root)
    except OSError:  # a file system without hard links
        return _write(file, fresh, root)
    finally:
        temporary.unlink(missing_ok=True)


def _write(file: Path, identity: str, root: Path) -> str:
    _temporary(file, identity, root).replace(file)
    return identity


def _temporary(file: Path, identity: str, root: Path) -> Path:
    temporary = file.with_name(f".{FILE}.{secrets.token_hex(4)}")
    temporary.write_text(json.dumps({"id": identity, "folder": str(root)}) + "\n", encoding="ascii")
    return temporary
