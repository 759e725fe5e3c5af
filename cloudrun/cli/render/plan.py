"""What `launch --dry-run` shows: what would stand where, the command, what would travel, and then the whole script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.syntax import Syntax
from rich.text import Text

from cloudrun.cli.render.doctor_words import found_words
from cloudrun.cli.render.launch import secrets_words
from cloudrun.cli.render.units import size
from cloudrun.i18n import _
from cloudrun.states import state_words
from remote_agent import protocol

if TYPE_CHECKING:
    from cloudrun.app.launch import Plan

_LARGEST = 10


def plan_document(planned: Plan) -> dict[str, Any]:
    """The JSON of `launch --dry-run`. Secrets show as names only."""
    manifest = planned.manifest
    return {
        "run": planned.spec.run, "spec": protocol.encode(planned.spec), "run_sh": planned.run_sh,
        "data_disk": protocol.encode(planned.prepared.data_disk), "backend": planned.prepared.backend,
        "will_install": planned.prepared.will_install, "attempt": planned.prepared.next_attempt,
        "files": len(manifest.files) if manifest else 0, "size_bytes": manifest.size_bytes if manifest else 0,
        "like_secrets": list(manifest.like_secrets) if manifest else [],
    }


def plan_words(planned: Plan) -> list[Text]:
    """Every line is whole, however narrow the terminal is: these are for reading and for copying."""
    rows = [*_places(planned), *_work(planned.spec), *_code(planned)]
    width = max(len(label) for label, _value in rows)
    lines = [_row(label, value, width) for label, value in rows]
    if planned.manifest is not None and planned.manifest.like_secrets:
        lines.append(Text(secrets_words(list(planned.manifest.like_secrets)), style="yellow"))
    lines += [Text(_("nothing was changed; the run.sh that would run:"), style="dim"), Text()]
    script = Syntax("", "bash", background_color="default").highlight(planned.run_sh)
    script.rstrip()
    return [*lines, script]


def _row(label: str, value: str, width: int) -> Text:
    """Further lines of a value stand beneath its first one."""
    shown = value.rstrip("\n").replace("\n", "\n" + " " * (width + 2))
    return Text.assemble((f"{label:<{width}}  ", "bold"), shown)


def _places(planned: Plan) -> list[tuple[str, str]]:
    prepared, disk = planned.prepared, planned.prepared.data_disk
    rows = [(_("run"), f"{planned.spec.run}, " + _("attempt {n}").format(n=prepared.next_attempt))]
    if prepared.existing is not None:
        attempt = _("attempt {n}").format(n=prepared.existing.attempt)
        rows.append((_("stands there"), f"{state_words(prepared.existing.state)}, {attempt}"))
    return [
        *rows,
        (_("folder"), prepared.facts.run_dir),
        (_("data disk"), f"{disk.path}, " + _("{size} free").format(size=size(disk.free_bytes))),
        (_("session"), prepared.backend or _("{program} would be installed").format(program=prepared.will_install)),
        (_("GPU"), _gpu_words(planned)),
    ]


def _gpu_words(planned: Plan) -> str:
    report, wanted = planned.prepared.gpu, planned.spec.gpus
    if report.state != "ok":
        return found_words(protocol.Check("gpu", "", "gpu-" + report.state, {"detail": report.detail or ""}), "")
    names = ", ".join(f"{card.index} {card.name}" if card.index is not None else str(card.name) for card in report.gpus)
    if wanted is None:
        return _("all of: {names}").format(names=names)
    return _("{wanted} of: {names}").format(wanted=",".join(map(str, wanted)) or "-", names=names)


def _work(spec: protocol.Spec) -> list[tuple[str, str]]:
    """Only what there is. Of variables the names: values may be long, and those of secrets are nobody's business."""
    rows = [
        (_("working folder"), spec.workdir), (_("command"), spec.command), (_("to resume"), spec.resume_command),
        (_("set-up"), spec.setup), (_("conda env"), spec.conda_env), (_("activate"), spec.activate),
        (_("variables"), ", ".join(sorted(spec.env))), (_("secrets"), ", ".join(spec.secret_names)),
        (_("links"), ", ".join(f"{name} -> {target}" for name, target in spec.links.items())),
        (_("outputs"), ", ".join(spec.outputs)),
    ]
    return [(label, value) for label, value in rows if value]


def _code(planned: Plan) -> list[tuple[str, str]]:
    manifest = planned.manifest
    if manifest is None:
        return [(_("code"), _("not sent (--no-sync)"))]
    rows = [
        (_("code"), _("{n} files, {size}, into {tree}").format(
            n=len(manifest.files), size=size(manifest.size_bytes), tree=planned.prepared.facts.tree)),
        ("", _("what the box lacks of it would travel; how much that is, it says only when it is really offered")),
    ]
    largest = sorted(manifest.files, key=lambda entry: entry.size_bytes, reverse=True)[:_LARGEST]
    if largest:
        rows.append((_("largest"), "\n".join(f"{size(entry.size_bytes):>9}  {entry.path}" for entry in largest)))
    return rows
