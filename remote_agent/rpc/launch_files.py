"""What a launch writes: the run's folder, the launch's own, the secrets. Each appears whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import time
from dataclasses import replace
from typing import Dict, List, Tuple

from remote_agent import atomic, clock, layout, wishes
from remote_agent.protocol import AgentError, Desired, Identity, LaunchRequest, State, encode

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def write_run(run: layout.Run, request: LaunchRequest, number: int, state: State) -> None:
    """Writes launch `number` and the state it begins with. A new run's folder is made beside and renamed when it is whole."""
    write_secrets(run, number, request.secrets)
    if os.path.isdir(run.path):
        _write_launch(run, number, request)
        _write_will(run, state)
        return
    _sweep(os.path.dirname(run.path), ".new-%s-" % run.name)
    aside = layout.Run(os.path.join(os.path.dirname(run.path), ".new-%s-%s" % (run.name, secrets.token_hex(6))))
    os.makedirs(aside.path)
    spec = request.spec
    identity = Identity(name=run.name, project=spec.project, project_id=spec.project_id, created_at=clock.now_utc())
    atomic.write_json(aside.identity, encode(identity))
    _write_launch(aside, number, request)
    _write_will(aside, state)
    os.rename(aside.path, run.path)
    atomic.sync_folder(os.path.dirname(run.path))


def write_failure(run: layout.Run, state: State, cause: str) -> None:
    """The last word on a launch whose session did not come to be: a failure, not a limbo."""
    atomic.write_json(run.state, encode(replace(state, state="failed", cause=cause, ended_at=clock.now_utc())))


def put_aside(data: layout.Data, run: layout.Run) -> str:
    """Moves an old run's folder into the archive, deleting nothing; gives its new path."""
    os.makedirs(data.archive, exist_ok=True)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for attempt in range(1000):
        suffix = "" if attempt == 0 else "-%d" % attempt
        target = os.path.join(data.archive, "%s-%s%s" % (run.name, stamp, suffix))
        if not os.path.lexists(target):  # under the run's lock: nobody else makes this name
            os.rename(run.path, target)
            atomic.sync_folder(data.runs)
            return target
    raise AgentError("archive-full", run=run.name, path=data.archive)


# ---------------------------------------------------------------------------------------------- secrets


def secrets_text(values: Dict[str, str]) -> bytes:
    """The shell text that run.sh sources. Raises AgentError("bad-secret") that names the variable and never its value."""
    lines = []
    for name, value in sorted(values.items()):
        if not _VARIABLE.match(name) or "\0" in value:
            raise AgentError("bad-secret", name=name)
        try:
            lines.append(("export %s=%s\n" % (name, shlex.quote(value))).encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:  # its words would hold the value
            raise AgentError("bad-secret", name=name) from None
    return b"".join(lines)


def same_secrets(run: layout.Run, number: int, values: Dict[str, str]) -> bool:
    """Whether the launch on the disk was given the same secrets."""
    try:
        with open(layout.Home.of_user().secret_file(run.path, number), "rb") as stream:
            return stream.read() == secrets_text(values)
    except FileNotFoundError:
        return not values


def write_secrets(run: layout.Run, number: int, values: Dict[str, str]) -> None:
    """Writes them where only the user reads them; a stale file of that name does not stay."""
    home = layout.Home.of_user()
    path, text = home.secret_file(run.path, number), secrets_text(values)
    if values:  # without any, a home that takes no writes will do
        layout.private_folder(home.root)
        layout.private_folder(home.secrets)
        atomic.write_bytes(path, text, 0o600)
    elif os.path.lexists(path):
        os.unlink(path)


def forget_secrets(run: layout.Run) -> None:
    """Deletes the secrets of all launches of this run, and of no run whose name only begins like it."""
    folder = layout.Home.of_user().secrets
    mine = re.compile(re.escape(layout.name_of(run.path)) + r"-\d{3,}\.env\Z")
    for name in _names(folder):
        if mine.match(name):
            os.unlink(os.path.join(folder, name))


# ---------------------------------------------------------------------------------------------- launches


def _write_launch(run: layout.Run, number: int, request: LaunchRequest) -> None:
    final = run.launch(number)
    folder = os.path.dirname(final.path)
    os.makedirs(folder, exist_ok=True)
    _sweep(folder, ".new-")
    aside = layout.Launch(os.path.join(folder, ".new-%s" % secrets.token_hex(6)))
    os.mkdir(aside.path)
    atomic.write_json(aside.spec, encode(request.spec))
    for path, text, mode in _texts(aside, request):
        atomic.write_bytes(path, text.encode("utf-8", "surrogateescape"), mode)
    os.rename(aside.path, final.path)
    atomic.sync_folder(folder)


def _texts(launch: layout.Launch, request: LaunchRequest) -> List[Tuple[str, str, int]]:
    texts = [(launch.run_sh, request.run_sh, 0o755), (launch.screenrc, request.screenrc, 0o644),
             (launch.tmux_conf, request.tmux_conf, 0o644)]
    if request.code_diff is not None:
        texts.append((launch.code_diff, request.code_diff, 0o644))
    return texts


def _write_will(run: layout.Run, state: State) -> None:
    """What is wanted goes before what is: a supervisor that starts between the two finds no old "stop"."""
    wishes.write(run, Desired(want="run", at=clock.now_utc()))
    atomic.write_json(run.state, encode(state))


def _sweep(folder: str, prefix: str) -> None:
    """Removes what an earlier launch left when it was killed; the run's lock says that none is at work."""
    for name in _names(folder):
        if name.startswith(prefix):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _names(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
