"""The Python that a run would get, and the torch in it. The laptop sends the text that activates it, the same as in run.sh."""

from __future__ import annotations

import re
import shutil
from typing import Any, Dict, List, Optional, Tuple

from remote_agent import programs
from remote_agent.checks import torchprobe
from remote_agent.checks.probe import Asked
from remote_agent.protocol import Check
from remote_agent.sessions import environment
from remote_agent.words import _

#: torch from a slow disk takes its time; a training takes the same, so that this is a warning and no failure.
IMPORT_S = 15.0
#: `from remote_agent import …` in a training needs it.
_OLDEST = (3, 8)
_NO_PYTHON = 127
#: $1 a program to prefer, $2 and $3 for it.
_FIND = (
    'cloudrun_found=$(type -P -- "$1" || type -P python || type -P python3) || exit %d; '
    'exec "$cloudrun_found" -c "$2" "$3"' % _NO_PYTHON
)


def check(asked: Asked) -> List[Check]:
    """Two lines: the Python, and torch as it sees it."""
    text = "%s\n%s" % (asked.activation, _FIND)
    bash = shutil.which("bash") or "/bin/bash"
    argv = [bash, "--norc", "-c", text, "cloudrun", "python", torchprobe.TEXT, torchprobe.MARK]
    try:
        return judge(programs.run(argv, IMPORT_S, environment.clean({})))
    except OSError:
        return [Check("training-python", "failure", "training-python-no-bash", {}, hint="training-python-no-bash")]


def judge(done: programs.Finished) -> List[Check]:
    said = torchprobe.parse(done.stdout.decode("utf-8", "replace"))
    if "path" not in said:
        return [_without_python(done)]
    return [_python(said), _torch(said, done)]


def _without_python(done: programs.Finished) -> Check:
    if done.timed_out:
        return Check("training-python", "failure", "no-answer", {"deadline_s": IMPORT_S}, hint="training-python-slow")
    if done.returncode == _NO_PYTHON:
        return Check("training-python", "failure", "training-python-none", {}, hint="training-python-none")
    lines = [line.strip() for line in done.text.splitlines() if line.strip()]
    detail = lines[-1] if lines else _ended(done.returncode)
    return Check("training-python", "failure", "training-python-broken", {"detail": detail[:300]}, hint="training-python-broken")


def _python(said: Dict[str, Any]) -> Check:
    params = {"path": said["path"], "version": said["version"]}
    if _number(said["version"]) < _OLDEST:
        return Check("training-python", "warning", "training-python-old", params, hint="training-python-none")
    return Check("training-python", "ok", "training-python", params)


def _torch(said: Dict[str, Any], done: programs.Finished) -> Check:
    params = {"path": said["path"]}
    if said.get("missing"):
        return Check("torch", "warning", "torch-missing", params, hint="torch-missing")
    if said.get("broken"):
        return Check("torch", "failure", "torch-broken", dict(params, detail=said["broken"]), hint="torch-broken")
    if "torch" in said:
        return judge_torch(said)
    if done.timed_out:
        return Check("torch", "warning", "torch-slow", dict(params, deadline_s=IMPORT_S), hint="torch-slow")
    detail = _ended(done.returncode)
    return Check("torch", "failure", "torch-broken", dict(params, detail=detail), hint="torch-broken")


def judge_torch(said: Dict[str, Any]) -> Check:
    """As torch itself says. Without a card that it can use this is as it may be; `together` knows whether the box has one."""
    params = {key: said.get(key) for key in ("path", "torch", "cuda", "hip", "devices", "driver", "why")}
    if said.get("available"):
        return Check("torch", "ok", "torch-hip" if said.get("hip") else "torch", params)
    if not said.get("cuda") and not said.get("hip"):
        return Check("torch", "ok", "torch-cpu", params)
    why = str(said.get("why") or "")
    if driver_too_old(said.get("cuda"), said.get("driver"), why):
        params["driver"] = said.get("driver") or _driver_of(why)
        code = "torch-driver-old" if params["driver"] else "torch-driver-older"
        return Check("torch", "failure", code, params, hint="torch-driver-old")
    return Check("torch", "ok", "torch-idle", params)


def driver_too_old(cuda: Optional[str], driver: Optional[str], why: str) -> bool:
    """By torch's own words, else by the numbers: a driver runs every CUDA of its own major version and the older ones."""
    if "driver on your system is too old" in why:
        return True
    return bool(cuda and driver) and _number(str(driver))[0] < _number(str(cuda))[0]


def _driver_of(why: str) -> Optional[str]:
    """"11.4" of "… is too old (found version 11040). …"."""
    match = re.search(r"found version (\d+)", why)
    return "%d.%d" % (int(match.group(1)) // 1000, int(match.group(1)) % 1000 // 10) if match else None


def _number(version: str) -> Tuple[int, int]:
    parts = [int(part) if part.isdigit() else 0 for part in version.split(".")[:2]]
    return (parts[0], parts[1] if len(parts) > 1 else 0)


def _ended(code: Optional[int]) -> str:
    if code is not None and code < 0:
        return _("signal {number}").format(number=-code)
    return _("exit code {code}").format(code=code)
