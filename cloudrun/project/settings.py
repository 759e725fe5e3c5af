"""`cloudrun.toml`: what may stand there, typed and checked; an error names the field's path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.project.sizes import parse_size
from cloudrun.project.tomltext import TomlError, decode, line_of
from remote_agent import protocol

FILE_NAME = "cloudrun.toml"
#: Names that will say nothing in a month: short ones, numbers, and these.
_VAGUE = {"test", "tmp", "temp", "foo", "bar", "run", "exp", "train", "debug", "new", "try", "asdf", "untitled"}
#: A line of the file's top that names a host, whatever else is wrong there.
_HOST_LINE = re.compile(r"^\s*[\"']?host[\"']?\s*=", re.MULTILINE)
_SAFE_PROJECT = re.compile(r"[^A-Za-z0-9._-]+")


class RunSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One `[runs.NAME]` table, or `[defaults]`. None: not said here."""

    command: str | None = None
    resume_command: str | None = None
    workdir: str | None = None
    env: dict[str, str | int | float | bool] = {}
    env_file: str | None = None
    gpus: list[int] | None = None
    backend: str | None = None
    min_free: str | int | None = None
    conda_env: str | None = None
    activate: str | None = None
    setup: str | None = None
    links: dict[str, str] = {}
    outputs: list[str] | None = None
    log_limit: str | int | None = None
    network_turbo: bool | None = None
    screen_escape: str | None = None


class Settings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    project: str | None = None
    host: str | None = None
    defaults: RunSettings = msgspec.field(default_factory=RunSettings)
    runs: dict[str, RunSettings] = {}

    def run(self, name: str) -> RunSettings:
        """What holds for the run: its own table over `[defaults]`; `env` and `links` are joined key by key."""
        own, base = self.runs.get(name, RunSettings()), self.defaults
        joined: dict[str, Any] = {}
        for field in RunSettings.__struct_fields__:
            mine, general = getattr(own, field), getattr(base, field)
            if field in ("env", "links"):
                joined[field] = {**general, **mine}
            else:
                joined[field] = general if mine is None else mine
        return RunSettings(**joined)


@dataclass(frozen=True)
class Project:
    """The folder whose code is run, and its settings. `file` is None where there is no `cloudrun.toml`."""

    folder: Path
    settings: Settings
    file: Path | None

    @property
    def name(self) -> str:
        """Folder of this project on the box: `project`, or the folder's name made safe for a path."""
        return self.settings.project or _SAFE_PROJECT.sub("-", self.folder.name).strip("-.") or "project"


def find_project(start: Path) -> Project:
    """The project around `start`, with what its `cloudrun.toml` says. Raises CloudrunError where that file is not right."""
    folder = project_folder(start)
    file = folder / FILE_NAME
    return Project(folder, load(file), file) if file.is_file() else Project(folder, Settings(), None)


def project_folder(start: Path) -> Path:
    """The nearest folder upward with a `cloudrun.toml`, else with `.git`, else `start` itself."""
    for folder in (start, *start.parents):
        if (folder / FILE_NAME).is_file():
            return folder
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return folder
    return start


def project_host(start: Path) -> str | None:
    """The host that the project's file names. A mistake elsewhere in the file stands in the way of a launch only, not of this.

    Raises CloudrunError where the file names one and cannot be read as TOML.
    """
    file = project_folder(start) / FILE_NAME
    if not file.is_file():
        return None
    try:
        named = _decoded(file).get("host")
    except CloudrunError:
        top = file.read_bytes().decode("utf-8", "replace").partition("\n[")[0]
        if _HOST_LINE.search(top):
            raise
        return None
    return named if isinstance(named, str) else None


def load(path: Path) -> Settings:
    """Reads and checks the file. Raises CloudrunError("project-file", …) naming field, line and what was expected."""
    text = _text(path)
    said = _decoded(path)
    top = {key: value for key, value in said.items() if key != "runs"}
    settings = _typed(path, text, top, Settings)
    runs = said.get("runs", {})
    if not isinstance(runs, dict):
        raise _wrong(path, text, "", "runs", _("one table for each run: [runs.NAME]"))
    for name, table in runs.items():
        check_name(name)
        settings.runs[name] = _typed(path, text, table, RunSettings, f"runs.{name}")
    _check(path, text, settings)
    return settings


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CloudrunError("project-file", path=str(path), detail=_("it is not UTF-8 text; save it as UTF-8")) from error
    except OSError as error:
        raise CloudrunError("project-file", path=str(path), detail=error.strerror or str(error)) from error


def _decoded(path: Path) -> dict[str, Any]:
    try:
        return decode(_text(path))
    except TomlError as error:
        raise CloudrunError("project-file", path=str(path), detail=str(error)) from error


_Table = TypeVar("_Table", Settings, RunSettings)


def _typed(path: Path, text: str, said: Any, kind: type[_Table], table: str = "") -> _Table:
    """The table as `kind`. msgspec's words tell the place by a path within it: `$.gpus[0]`."""
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        words, _at, place = str(error).partition(" - at ")
        keys: list[str] = [part for part in place.partition("[")[0].strip("`$").split(".") if part]
        unknown = re.search(r"unknown field `([^`]+)`", words)
        if unknown:
            known = RunSettings.__struct_fields__ if keys else kind.__struct_fields__
            near = get_close_matches(unknown.group(1), known, 1)
            asked = _("there is no such field; did you mean `{near}`?")
            words = asked.format(near=near[0]) if near else _("no such field is known")
            keys.append(unknown.group(1))
        types = re.fullmatch(r"Expected `([^`]+)`, got `([^`]+)`", words)
        if types:
            words = _("{wanted} is expected there, not {given}").format(wanted=types[1], given=types[2])
        inner = [table, *keys[:-1]] if table else keys[:-1]
        raise _wrong(path, text, ".".join(inner), keys[-1] if keys else "", words) from error


def _wrong(path: Path, text: str, table: str, field: str, detail: str) -> CloudrunError:
    """An error that names the field by its path, and its line where that can be found."""
    line = line_of(text, table, field)
    named = ".".join(part for part in (table, field) if part)
    if line:
        named = _("line {line}, {field}").format(line=line, field=named)
    return CloudrunError("project-file", path=str(path), detail=f"{named}: {detail}")


def _check(path: Path, text: str, settings: Settings) -> None:
    if settings.project is not None and (_SAFE_PROJECT.search(settings.project) or settings.project.strip(".") == ""
                                         or settings.project.startswith((".", "-"))):
        raise _wrong(path, text, "", "project", _("{name!r} may hold letters, digits, '.', '_' and '-' only").format(
            name=settings.project))
    for where, run in [("defaults", settings.defaults), *((f"runs.{name}", run) for name, run in settings.runs.items())]:
        for field, wrong in _problems(run):
            raise _wrong(path, text, where, field, wrong)


def _problems(run: RunSettings) -> list[tuple[str, str]]:
    found = []
    for field in ("min_free", "log_limit"):
        value = getattr(run, field)
        if value is not None:
            try:
                parse_size(value)
            except ValueError as error:
                found.append((field, str(error)))
    if run.backend is not None and run.backend not in BACKENDS:
        found.append(("backend", _("{value!r} is none of {known}").format(value=run.backend, known=", ".join(BACKENDS))))
    if run.gpus is not None and any(index < 0 for index in run.gpus):
        found.append(("gpus", _("indices of cards are 0 or more")))
    if run.conda_env and run.activate:
        found.append(("activate", _("give either conda_env or activate, not both")))
    if run.screen_escape is not None and not re.fullmatch(r"\^?[!-~]\^?[!-~]", run.screen_escape):
        found.append(("screen_escape", _("{value!r} is not of the form '^Jj'").format(value=run.screen_escape)))
    found += [("env", _("{name!r} is no name of an environment variable").format(name=key))
              for key in run.env if not ENV_NAME.fullmatch(key)]
    return found


BACKENDS = ("auto", "screen", "tmux", "detached")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_name(name: str) -> None:
    """Raises CloudrunError that names the first character of a run's name that is wrong."""
    if protocol.RUN_NAME.match(name):
        return
    if not name:
        raise CloudrunError("run-name-empty")
    if len(name) > 63:
        raise CloudrunError("run-name-long", name=name, length=len(name))
    for position, character in enumerate(name):
        if not re.match(r"[A-Za-z0-9]" if position == 0 else r"[A-Za-z0-9_-]", character):
            raise CloudrunError("run-name-character", name=name, character=character, position=position + 1,
                                suggestion=suggest_name(name))


def suggest_name(name: str) -> str:
    """A legal name near an illegal one. Where only a number is left of it, that number with a word before it."""
    near = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-")[:59]
    if not near:
        return "resnet50_cifar10_1201"
    return near if re.search(r"[A-Za-z]", near) else f"run_{near}"


def says_nothing(name: str) -> bool:
    """Whether a name will tell nobody anything in a month; allowed, with a hint of the habit task_model_date."""
    return len(name) < 3 or name.isdigit() or name.lower() in _VAGUE
