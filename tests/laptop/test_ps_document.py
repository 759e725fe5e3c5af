"""The JSON of `ps`: its words are frozen, and what is not known is null."""

from __future__ import annotations

from cloudrun.app.runs import HostRuns, ps_document
from cloudrun.errors import CloudrunError
from remote_agent.protocol import Progress, RunInfo


def test_the_json_is_frozen() -> None:
    run = RunInfo(
        name="exp_resnet50", project="net", project_id="p-1", state="failed", cause="cuda-oom", exit_code=1, attempt=2,
        launched_at="2026-12-01T08:00:00Z", ended_at="2026-12-01T09:00:00Z", backend="screen", session="exp_resnet50",
        run_dir="/data/cloudrun/runs/exp_resnet50", progress=Progress(step=1000, epoch=3, loss=0.25),
    )
    bare = RunInfo(name="exp_new", project="net", project_id="p-1", state="pending", run_dir="/data/cloudrun/runs/exp_new")
    error = CloudrunError("no-such-run", name="x", near=[])
    document = ps_document([HostRuns("box", (run, bare)), HostRuns("dead", error=error)])
    assert document == {
        "runs": [
            {"name": "exp_resnet50", "project": "net", "host": "box", "state": "failed", "cause": "cuda-oom", "exit_code": 1,
             "signal": None, "attempt": 2, "launched_at": "2026-12-01T08:00:00Z", "ended_at": "2026-12-01T09:00:00Z",
             "backend": "screen", "progress": {"step": 1000, "epoch": 3, "loss": 0.25, "rate": None, "phase": None},
             "run_dir": "/data/cloudrun/runs/exp_resnet50"},
            {"name": "exp_new", "project": "net", "host": "box", "state": "pending", "cause": None, "exit_code": None,
             "signal": None, "attempt": 0, "launched_at": None, "ended_at": None, "backend": None, "progress": None,
             "run_dir": "/data/cloudrun/runs/exp_new"},
        ],
        "errors": [{"host": "dead", "code": "no-such-run", "message": error.message, "hint": "cloudrun ps", "exit_code": 4}],
    }
    assert [list(shown) for shown in document["runs"]] == [[
        "name", "project", "host", "state", "cause", "exit_code", "signal", "attempt", "launched_at", "ended_at", "backend",
        "progress", "run_dir"]] * 2
