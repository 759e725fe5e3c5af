"""From `cloudrun.toml` and the command line to one run's spec."""

from __future__ import annotations

import posixpath
import sys
from dataclasses import dataclass, field
from pathlib import Path

from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.project.envfile import read_env_file
from cloudrun.project.identity import project_root
from cloudrun.project.quoting import shell_command
from cloudrun.project.settings import BACKENDS, Project, RunSettings, check_name
from cloudrun.project.sizes import parse_size
from remote_agent import protocol


@dataclass(frozen=True)
class Wanted:
    """What the command line of `launch` says; None: not said."""

    name: str
    argv: tuple[str, ...] = ()
    workdir: str | None = None
    env_file: Path | None = None
    backend: str | None = None
    sync: bool = True


@dataclass(frozen=True)
class Draft:
    """All that is known of a run before its box is asked. `secrets` never reach spec.json, a log or a repr."""

    name: str
    command: str
    settings: RunSettings
    resume_command: str | None
    workdir: str | None
    sync: bool
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    secret_files: tuple[Path, ...] = ()
    backend: str = "auto"

    @property
    def min_free_bytes(self) -> int:
        given = self.settings.min_free
        return protocol.DEFAULT_MIN_FREE_BYTES if given is None else parse_size(given)

    @property
    def log_limit_bytes(self) -> int:
        given = self.settings.log_limit
        return protocol.DEFAULT_LOG_LIMIT_BYTES if given is None else parse_size(given)


def draft(project: Project, wanted: Wanted, host_backend: str | None = None) -> Draft:
    """Puts together what the run is. Raises CloudrunError: bad name, no project's folder, nothing to run, unreadable
    environment file."""
    check_name(wanted.name)
    project_root(project.folder)
    settings = project.settings.run(wanted.name)
    command, resume = _command(project, wanted, settings)
    workdir = wanted.workdir or settings.workdir
    if not wanted.sync and not (workdir or "").startswith("/"):
        raise CloudrunError("no-sync-workdir", run=wanted.name)
    secrets, files = _secrets(project, wanted, settings)
    backend = wanted.backend or settings.backend or host_backend or "auto"
    if backend not in BACKENDS:
        raise CloudrunError("host-backend", backend=backend, known=", ".join(BACKENDS))
    return Draft(
        name=wanted.name, command=command, settings=settings, resume_command=resume, workdir=workdir,
        sync=wanted.sync, secrets=secrets, secret_files=files, backend=backend,
    )


def _command(project: Project, wanted: Wanted, settings: RunSettings) -> tuple[str, str | None]:
    """The command as bash text, and the one to resume with. What stands after `--` wins, then the table, then run.sh."""
    if wanted.argv:
        return shell_command(list(wanted.argv)), None
    if settings.command is not None and settings.command.strip():
        return settings.command, settings.resume_command
    if (project.folder / "run.sh").is_file():
        return "bash run.sh", settings.resume_command
    raise CloudrunError("nothing-to-run", run=wanted.name, folder=str(project.folder))


def _secrets(project: Project, wanted: Wanted, settings: RunSettings) -> tuple[dict[str, str], tuple[Path, ...]]:
    """Values of this run's environment files (the command line's counts over the project's), and the files that must not
    travel: those of the project's other runs are secrets too."""
    files = []
    values: dict[str, str] = {}
    if settings.env_file:
        files.append(project.folder / Path(settings.env_file).expanduser())
        values.update(read_env_file(files[-1], _("`env_file` in cloudrun.toml")))
    if wanted.env_file:
        files.append(wanted.env_file.expanduser().absolute())
        values.update(read_env_file(files[-1]))
    others = [run.env_file for run in (project.settings.defaults, *project.settings.runs.values()) if run.env_file]
    return values, tuple(dict.fromkeys([*files, *(project.folder / Path(other).expanduser() for other in others)]))


def compose(project: Project, project_id: str, drafted: Draft, tree: str) -> protocol.Spec:
    """The spec: the draft with the paths that hold on the box. `tree` is the folder the code lands in."""
    settings = drafted.settings
    return protocol.Spec(
        run=drafted.name, project=project.name, project_id=project_id,
        command=drafted.command, resume_command=drafted.resume_command,
        workdir=_workdir(drafted.workdir, tree),
        env={name: _text(value) for name, value in settings.env.items()},
        secret_names=sorted(drafted.secrets),
        gpus=settings.gpus, backend=drafted.backend,
        min_free_bytes=drafted.min_free_bytes, log_limit_bytes=drafted.log_limit_bytes,
        conda_env=settings.conda_env, activate=settings.activate, setup=settings.setup,
        links=dict(settings.links), outputs=list(settings.outputs or []),
        network_turbo=bool(settings.network_turbo), screen_escape=settings.screen_escape,
    )


def _workdir(workdir: str | None, tree: str) -> str:
    """Absolute. A relative one is meant inside the project and may not leave it."""
    if workdir is None:
        return tree
    if workdir.startswith("/"):
        return posixpath.normpath(workdir)
    there = workdir.replace("\\", "/") if sys.platform == "win32" else workdir  # elsewhere a backslash is a letter like others
    inside = posixpath.normpath(posixpath.join(tree, there))
    if inside != tree and not inside.startswith(tree + "/"):
        raise CloudrunError("workdir", workdir=workdir, tree=tree)
    return inside


def _text(value: str | int | float | bool) -> str:
    """A TOML value as an environment variable says it: true is 1, false is 0."""
    return str(int(value)) if isinstance(value, bool) else str(value)
