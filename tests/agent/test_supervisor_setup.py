"""The launch's set-up: once per content of what it names, under a lock, in the attempt's own log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from remote_agent import layout
from remote_agent.protocol import Spec
from remote_agent.supervise import setup
from tests.support.supervised import Supervised
from tests.support.waiting import wait_for

Launch = Callable[..., Supervised]


def test_two_runs_of_a_project_set_up_once(launched: Launch, tmp_path: Path) -> None:
    """The second waits for the first's and then has nothing to do."""
    text = f"echo installing; echo $CLOUDRUN_RUN_DIR >>{tmp_path}/ran; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    first = launched("echo first", setup=text, terminal=False)
    first.says("installing")
    assert (first.state().state, first.state().phase) == ("running", "setup")
    second = launched("echo second", setup=text, terminal=False, name="exp_vit")
    second.says("waiting for another run's setup")
    assert second.told("setup-waits")
    (tmp_path / "go").touch()
    assert (first.ended().state, second.ended().state) == ("succeeded", "succeeded")
    assert first.log() == "installing\nfirst\n"
    assert second.log() == "[cloudrun] waiting for another run's setup\nsecond\n"
    assert (tmp_path / "ran").read_text().count("\n") == 1
    assert first.state().phase == "command"


def test_a_failed_set_up_is_the_runs_end_and_is_not_remembered(launched: Launch) -> None:
    run = launched("echo never", setup="echo trying\nfalse\necho on", terminal=False)
    ended = run.ended()
    assert (ended.state, ended.cause, ended.exit_code, ended.phase) == ("failed", "setup-failed", 1, "setup")
    assert run.log() == "trying\n"
    again = launched("echo never", setup="echo trying\nfalse\necho on", terminal=False, name="again")
    assert again.ended().cause == "setup-failed"


@pytest.mark.parametrize("way", ["stop", "ctrl-c"])
def test_a_set_up_can_be_stopped(launched: Launch, way: str) -> None:
    run = launched("echo never", setup="echo installing; sleep 600")
    run.says("installing")
    if way == "stop":
        run.wants_stop(grace_s=5)
    else:
        run.type(b"\x03")
    ended = run.ended()
    assert (ended.state, ended.cause, run.log()) == ("stopped", "user", "installing\n")


def test_waiting_for_anothers_set_up_can_be_stopped(launched: Launch) -> None:
    first = launched("true", setup="echo installing; sleep 600", terminal=False)
    first.says("installing")
    second = launched("true", setup="echo other", terminal=False, name="second")
    wait_for(lambda: second.told("setup-waits"))
    second.wants_stop(grace_s=5)
    assert second.ended().state == "stopped"


def spec(workdir: Path, text: str, **more: object) -> Spec:
    return Spec(run="r", project="p", project_id="i", command="true", workdir=str(workdir), setup=text, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [
    "pip install -r requirements.txt", "pip install -rrequirements.txt", "pip install --requirement=requirements.txt",
    "pip install -r 'requirements.txt'; echo done", "cat requirements.txt|xargs pip install",
])
def test_the_contents_of_files_that_it_names_count(tmp_path: Path, text: str) -> None:
    (tmp_path / "requirements.txt").write_text("torch")
    before = setup.digest(spec(tmp_path, text))
    assert setup.digest(spec(tmp_path, text)) == before
    (tmp_path / "requirements.txt").write_text("torch\nrich")
    assert setup.digest(spec(tmp_path, text)) != before


def test_another_tree_with_the_same_files_is_served_unless_the_setup_works_in_it(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "requirements.txt").write_text("torch")

    def same(text: str, **more: object) -> bool:
        return setup.digest(spec(tmp_path / "a", text, **more)) == setup.digest(spec(tmp_path / "b", text, **more))

    assert same("pip install -r requirements.txt")
    assert same("pip install -r requirements.txt", activate="/root/venv")
    assert not same("pip install -e .")
    assert not same("python -m venv .venv && .venv/bin/pip install -r requirements.txt")
    assert not same("pip install -r requirements.txt", activate=".venv")


def test_what_it_writes_does_not_make_it_another(tmp_path: Path) -> None:
    before = setup.digest(spec(tmp_path, "pip freeze >lock.txt 2>> log"))
    (tmp_path / "lock.txt").write_text("torch")
    (tmp_path / "log").write_text("warning")
    assert setup.digest(spec(tmp_path, "pip freeze >lock.txt 2>> log")) == before


def test_environment_and_text_count(tmp_path: Path) -> None:
    digests = {setup.digest(spec(tmp_path, "pip install x")), setup.digest(spec(tmp_path, "pip install y")),
               setup.digest(spec(tmp_path, "pip install x", conda_env="e")),
               setup.digest(spec(tmp_path, "pip install 'x")), setup.digest(spec(tmp_path, "pip install x\n\0"))}
    assert len(digests) == 5


def test_done_survives_and_lies_with_the_project(launched: Launch) -> None:
    run = launched("true", setup="true", terminal=False)
    run.ended()
    done = list((run.home / "cloudrun" / "proj" / ".setup").glob("*.json"))
    made = layout.read_record(Spec, run.run.launch(1).spec)
    assert made is not None
    assert [path.stem for path in done] == [setup.digest(made)]
