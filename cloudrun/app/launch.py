"""`cloudrun launch`: preflight, code, start, and the wait until the run really runs or has really failed."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from cloudrun import __version__, i18n
from cloudrun.agent.client import AgentClient
from cloudrun.agent.code import send_code
from cloudrun.errors import CloudrunError
from cloudrun.project.compose import Draft, compose
from cloudrun.project.git import GitFacts, git_facts
from cloudrun.project.identity import known_id, project_id
from cloudrun.project.manifest import Manifest, build_manifest, digest
from cloudrun.project.runscript import render
from cloudrun.project.settings import Project
from cloudrun.project.templates import session_template
from remote_agent import protocol

#: Setting up may install packages for long; the box says something every few seconds meanwhile.
START_TIMEOUT_S = 2 * 3600.0
#: How often a launch that met another one half-way begins again.
TRIES = 3


@dataclass(frozen=True)
class Options:
    """What the command line says beyond the run itself."""

    host: str
    data_dir: str | None = None
    fresh: bool = False
    allow_large: bool = False
    install: bool = True
    #: How long a start that writes nothing is watched before it counts as running.
    settle_s: float = protocol.DEFAULT_SETTLE_S
    #: This launch and no other: the box knows it again by that.
    launch_id: str = field(default_factory=lambda: secrets.token_hex(16))


@dataclass(frozen=True)
class Told:
    """Where progress goes: events of the box, and bytes of code sent of how many."""

    event: Callable[[dict[str, Any]], None]
    sent: Callable[[int, int], None]


@dataclass(frozen=True)
class Plan:
    """Everything a launch would send; `--dry-run` shows it and ends here."""

    spec: protocol.Spec
    prepared: protocol.Prepared
    run_sh: str
    manifest: Manifest | None
    git: GitFacts


def plan(client: AgentClient, project: Project, drafted: Draft, options: Options) -> Plan:
    """What a launch from here would be. Changes nothing, here neither: a project without an id gets none by this."""
    return _plan(client, project, drafted, options, known_id(project.folder) or secrets.token_hex(16))


def _plan(client: AgentClient, project: Project, drafted: Draft, options: Options, identity: str) -> Plan:
    """Preflight on the box and the run's script; changes nothing there. Raises CloudrunError where the box is not ready."""
    request = protocol.PrepareRequest(
        run=drafted.name, project=project.name, project_id=identity, data_dir=options.data_dir,
        min_free_bytes=drafted.min_free_bytes, gpus=drafted.settings.gpus, backend=drafted.backend,
        install=options.install, fresh=options.fresh,
    )
    prepared = protocol.decode(protocol.Prepared, client.call("prepare", protocol.encode(request)))
    facts = git_facts(project.folder)
    manifest = _manifest(project, drafted) if drafted.sync else None
    spec = replace(
        compose(project, identity, drafted, prepared.facts.tree),
        code_digest=digest(manifest) if manifest else None, git_commit=facts.commit, git_dirty=facts.dirty,
        host=options.host, cloudrun_version=__version__, agent=client.hello.agent,
        agent_python=client.hello.python_version, launched_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        launch_id=options.launch_id, language=i18n.spoken(),
    )
    secret_file = prepared.facts.secret_file if drafted.secrets else None
    return Plan(spec, prepared, render(spec, prepared.facts, prepared.next_launch, secret_file), manifest, facts)


def _manifest(project: Project, drafted: Draft) -> Manifest:
    """What travels: never a file of secrets, nor what will be a link to the data disk there."""
    links = [*drafted.settings.links, *(drafted.settings.outputs or [])]
    return build_manifest(project.folder, skip=drafted.secret_files, without=links)


def launch(client: AgentClient, project: Project, drafted: Draft, options: Options, told: Told) -> protocol.Launched:
    """Brings the run to life and returns when it runs or has failed.

    After a broken connection it may be called again with the same options: what the box did for the first call is found.
    """
    for attempt in range(TRIES):
        try:
            return _launch_once(client, project, drafted, options, told)
        except CloudrunError as error:
            # Another launch of this name, or a change of the code, came in between: look again and start over.
            if error.code not in ("launch-again", "code-changed-on-box", "code-changing") or attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _launch_once(
    client: AgentClient, project: Project, drafted: Draft, options: Options, told: Told
) -> protocol.Launched:
    planned = _plan(client, project, drafted, options, project_id(project.folder))
    live = planned.prepared.existing is not None and planned.prepared.existing.state in protocol.LIVE_STATES
    staging = None
    if planned.manifest is not None and not live:  # nothing is sent beside a live run: the box answers what it is
        if planned.manifest.like_secrets:
            told.event({"event": "secrets-travel", "paths": list(planned.manifest.like_secrets)})
        staging = send_code(client, planned.manifest, planned.spec, told.sent, allow_large=options.allow_large)
    escape = planned.spec.screen_escape
    request = protocol.LaunchRequest(
        spec=planned.spec, run_sh=planned.run_sh, screenrc=session_template("screenrc", escape),
        tmux_conf=session_template("tmux.conf", escape),
        data_dir=options.data_dir, staging=staging, code_diff=planned.git.diff, secrets=drafted.secrets,
        fresh=options.fresh, install=options.install, launch=planned.prepared.next_launch, settle_s=options.settle_s,
    )
    answer = client.call("launch", protocol.encode(request), told.event, timeout_s=START_TIMEOUT_S)
    return protocol.decode(protocol.Launched, answer)
