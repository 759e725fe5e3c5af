"""`cloudrun doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cloudrun.cli.options import HostOption, JsonOption, flag
from cloudrun.i18n import _

if TYPE_CHECKING:
    from cloudrun.app.doctor import Training
    from cloudrun.cli.context import Context
    from cloudrun.config.hosts import Host
    from cloudrun.transport.base import Address


def doctor(
    ctx: typer.Context, host: HostOption = None, json: JsonOption = False,
    run: Annotated[
        str | None, flag("--run", metavar="RUN", help=_("Look at the Python that this run of cloudrun.toml would get.")),
    ] = None,
) -> int:
    """Check the box: the way there, Python and torch, GPU, disks, sessions, memory.

    Changes nothing. The exit code says the worst: 0 all is well, 20 a warning, 21 a failure.
    """
    from cloudrun.app.doctor import Means, Patient, examine
    from cloudrun.cli.render.doctor import doctor_document, doctor_lines

    context: Context = ctx.obj
    chosen = context.host(host)
    patient = Patient(
        chosen.name, _address(chosen), chosen.data_dir, chosen.python, chosen.target, _training(context, run))
    examination = examine(patient, Means(lambda: context.connect(chosen)))
    if context.json:
        context.emit_json(doctor_document(examination, context.here))
    else:
        context.out(doctor_lines(examination, context.here))
    return int(examination.exit_code)


def _address(host: Host) -> Address | None:
    """None where the settings of ssh are wrong: the doctor's line says so when it connects."""
    from cloudrun.errors import CloudrunError

    try:
        return host.address
    except CloudrunError:
        return None


def _training(context: Context, run: str | None) -> Training:
    """Of the named run, else of the first in the file; where others activate something else, that is said."""
    from pathlib import Path

    from cloudrun.app.doctor import Training
    from cloudrun.errors import CloudrunError
    from cloudrun.project.settings import Project, RunSettings, Settings, project_folder

    try:
        project = context.project()
    except CloudrunError as error:
        return Training(RunSettings(), Project(project_folder(Path.cwd()), Settings(), None).name, error)
    names = [run] if run is not None else list(project.settings.runs)
    settings = [project.settings.run(name) for name in names] or [project.settings.defaults]
    if any((one.conda_env, one.activate) != (settings[0].conda_env, settings[0].activate) for one in settings):
        told = _("the runs of cloudrun.toml activate different Pythons; this is the one of {run} (another: --run RUN)")
        context.say(told.format(run=names[0]))
    return Training(settings[0], project.name)
