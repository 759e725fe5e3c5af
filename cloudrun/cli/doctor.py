"""`cloudrun doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from cloudrun.cli.options import HostOption, JsonOption

if TYPE_CHECKING:
    from cloudrun.agent.client import AgentClient
    from cloudrun.cli.context import Context


def doctor(ctx: typer.Context, host: HostOption = None, json: JsonOption = False) -> int:
    """Check the box: reachable, Python, data disk, session programs, GPU. The exit code says the worst."""
    from cloudrun.app.doctor import Patient, examine
    from cloudrun.cli.render.doctor import doctor_document, doctor_lines

    context: Context = ctx.obj
    chosen = context.host(host)

    @contextmanager
    def open_agent() -> Iterator[AgentClient]:
        with context.open_host(chosen) as box:
            yield box.client

    address = chosen.address
    patient = Patient(chosen.name, address.shown, chosen.data_dir, chosen.python, address.is_local)
    examination = examine(patient, open_agent)
    if context.json:
        context.emit_json(doctor_document(examination))
    else:
        context.out(doctor_lines(examination))
    return int(examination.exit_code)
