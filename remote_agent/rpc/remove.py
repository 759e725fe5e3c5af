"""`remove`: an ended run's folder and its secrets; its code only where that is asked for."""

from __future__ import annotations

import os
import secrets
import shutil
from typing import Any, Dict, Optional

from remote_agent import atomic, code, layout, processes, runs, wishes
from remote_agent.protocol import LIVE_STATES, RUN_NAME, AgentError, RunInfo
from remote_agent.rpc import launch_files
from remote_agent.rpc.exclusive import exclusive
from remote_agent.rpc.launch_session import end_leftover, refuse_anothers_session
from remote_agent.rpc.request import data_dir_of
from remote_agent.rpc.server import Call
from remote_agent.rpc.settled import settled


def remove(call: Call) -> Dict[str, Any]:
    """{"run", "run_dir", "tree", "tree_kept"}. Body: data_dir, name, code. Raises AgentError, "run-live" among them."""
    data = layout.Data(data_dir_of(call.body.get("data_dir")))
    name = runs.resolve(data.data_dir, str(call.body.get("name")), None).name
    run = data.run(name)
    with_code = call.body.get("code") is True
    with exclusive(data, name, call):
        shown = settled(run)
        if shown is None:
            raise AgentError("no-such-run", name=name, near=[])
        _refuse_living(run, shown)
        if with_code:  # the tree goes by the name alone: a live run on another data disk may stand in it
            refuse_anothers_session(run)
        end_leftover(run, shown)
        launch_files.forget_secrets(run)  # before the folder: a removal that is cut short can be asked for again
        wishes.forget_aside(run)
        _delete(run.path)
        tree = _tree(shown)
        if with_code and tree is not None:
            code.forget(shown.project, name)
            _delete(tree)
    kept = tree if tree is not None and os.path.isdir(tree) else None
    return {"run": name, "run_dir": run.path, "tree": tree, "tree_kept": kept}


def _refuse_living(run: layout.Run, shown: RunInfo) -> None:
    if shown.state in LIVE_STATES or processes.marked(run.path):
        raise AgentError("run-live", run=run.name, state=shown.state, attempt=shown.attempt, age_s=shown.age_s,
                         fresh=False)


def _tree(shown: RunInfo) -> Optional[str]:
    """Where the run's code is; None where the run does not say whose it is."""
    if not RUN_NAME.match(shown.name) or shown.project in ("", "?", ".", "..") or "/" in shown.project:
        return None
    return layout.Home.of_user().tree(shown.project, shown.name)


def _delete(path: str) -> None:
    """Out of sight first, in one step, so that a removal cut short leaves no half of a run. Links are not followed."""
    if not os.path.lexists(path):
        return
    folder, name = os.path.split(path)
    for stale in os.listdir(folder):
        if stale.startswith(".removed-%s-" % name):
            shutil.rmtree(os.path.join(folder, stale), ignore_errors=True)
    aside = os.path.join(folder, ".removed-%s-%s" % (name, secrets.token_hex(6)))
    os.rename(path, aside)
    atomic.sync_folder(folder)
    if os.path.islink(aside) or not os.path.isdir(aside):
        os.unlink(aside)
    else:
        shutil.rmtree(aside)
