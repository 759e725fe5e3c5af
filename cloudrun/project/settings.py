"""`cloudrun.toml`: what may stand there, typed and checked; an error names the field's path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from cloudrun.errors import CloudrunError
from cloudrun.project.sizes import parse_size
from remote_agent import protocol

FILE_NAME = "cloudrun.toml"
#: Names that will say nothing in a month: short ones, numbers, and these.
_VAGUE = {"test", "tmp", "temp", "foo", "bar", "run", "exp", "train", "debug", "new", "try", "asdf", "untitled"}
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
    """The project around `start`: the nearest folder upward with a `cloudrun.toml`, else with `.git`, else `start` itself."""
    for folder in (start, *start.parents):
        if (folder / FILE_NAME).is_file():
            return Project(folder, load(folder / FILE_NAME), folder / FILE_NAME)
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return Project(folder, Settings(), None)
    return Project(start, Settings(), None)


def load(path: Path) -> Settings:
    """Reads and checks the file. Raises CloudrunError("project-file", …) naming the field's path and what was expected."""
    try:
        settings = msgspec.toml.decode(path.read_bytes(), type=Settings)
    except msgspec.ValidationError as error:
        raise CloudrunError("project-file", path=str(path), detail=_with_near_key(str(error))) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CloudrunError("project-file", path=str(path), detail=str(error)) from error
    except OSError as error:
        raise CloudrunError("project-file", path=str(path), detail=error.strerror or str(error)) from error
    _check(path, settings)
    return settings


def _with_near_key(detail: str) -> str:
    """Adds the key that was probably meant to msgspec's word about an unknown one."""
    unknown = re.search(r"unknown field `([^`]+)`", detail)
    known = [*RunSettings.__struct_fields__, *Settings.__struct_fields__]
    near = get_close_matches(unknown.group(1), known, 1) if unknown else []
    return f"{detail} (did you mean `{near[0]}`?)" if near else detail


def _check(path: Path, settings: Settings) -> None:
    if settings.project is not None and (_SAFE_PROJECT.search(settings.project) or settings.project.strip(".") == ""
                                         or settings.project.startswith((".", "-"))):
        raise CloudrunError("project-file", path=str(path),
                            detail=f"{settings.project!r} may hold letters, digits, '.', '_' and '-' only - at `$.project`")
    for name in settings.runs:
        check_name(name)
    for where, run in [("defaults", settings.defaults), *((f"runs.{name}", run) for name, run in settings.runs.items())]:
        for field, wrong in _problems(run):
            raise CloudrunError("project-file", path=str(path), detail=f"{wrong} - at `$.{where}.{field}`")


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
        found.append(("backend", f"{run.backend!r} is none of {', '.join(BACKENDS)}"))
    if run.gpus is not None and any(index < 0 for index in run.gpus):
        found.append(("gpus", "indices of cards are 0 or more"))
    if run.conda_env and run.activate:
        found.append(("activate", "give either conda_env or activate, not both"))
    if run.screen_escape is not None and not re.fullmatch(r"\^?[!-~]\^?[!-~]", run.screen_escape):
        found.append(("screen_escape", f"{run.screen_escape!r} is not of the form '^Jj'"))
    found += [("env", f"{key!r} is no name of an environment variable") for key in run.env if not ENV_NAME.fullmatch(key)]
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
    """A legal name near an illegal one."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-")[:63] or "resnet50_cifar10_1201"


def says_nothing(name: str) -> bool:
    """Whether a name will tell nobody anything in a month; allowed, with a hint of the habit task_model_date."""
    return len(name) < 3 or name.isdigit() or name.lower() in _VAGUE
