"""From cloudrun.toml and the command line to a spec."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from cloudrun.errors import CloudrunError
from cloudrun.project.compose import Wanted, compose, draft
from cloudrun.project.envfile import parse_env
from cloudrun.project.settings import find_project
from remote_agent import protocol


def project(folder: Path, text: str = ""):
    (folder / "cloudrun.toml").write_text(text, encoding="utf-8")
    return find_project(folder)


def test_what_stands_after_the_dashes_is_quoted_once_and_wins(tmp_path: Path) -> None:
    here = project(tmp_path, '[runs.exp]\ncommand = "other"\nresume_command = "again"\n')
    made = draft(here, Wanted("exp", ("python", "-c", "print('a b $HOME')")))
    assert shlex.split(made.command) == ["python", "-c", "print('a b $HOME')"]
    assert made.resume_command is None


def test_the_table_then_run_sh_then_an_error_with_all_three_ways(tmp_path: Path) -> None:
    here = project(tmp_path, '[runs.exp]\ncommand = "python train.py  # go"\nresume_command = "again"\n')
    assert draft(here, Wanted("exp")).command == "python train.py  # go"
    assert draft(here, Wanted("exp")).resume_command == "again"
    with pytest.raises(CloudrunError) as caught:
        draft(here, Wanted("other"))
    assert caught.value.code == "nothing-to-run"
    for way in ("-- python", "cloudrun.toml", "run.sh"):
        assert way in caught.value.message + caught.value.hint
    (tmp_path / "run.sh").write_text("echo\n")
    assert draft(here, Wanted("other")).command == "bash run.sh"


def test_secrets_show_as_names_only(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=hunter2\n")
    here = project(tmp_path, '[runs.exp]\ncommand = "x"\nenv_file = ".env"\nenv = { LR = 0.1, FAST = true }\n')
    made = draft(here, Wanted("exp"))
    spec = compose(here, "id", made, "/root/cloudrun/p/exp")
    assert made.secrets == {"TOKEN": "hunter2"}
    assert spec.secret_names == ["TOKEN"]
    assert spec.env == {"LR": "0.1", "FAST": "1"}
    assert "hunter2" not in repr(made) + repr(protocol.encode(spec))


@pytest.mark.parametrize(("workdir", "lands"), [
    (None, "/t/exp"), ("src", "/t/exp/src"), ("src/../lib", "/t/exp/lib"), ("/data//x", "/data/x"),
    ("a\\b", "/t/exp/a\\b"),
])
def test_where_it_runs(tmp_path: Path, workdir: str | None, lands: str) -> None:
    made = draft(project(tmp_path), Wanted("exp", ("x",), workdir=workdir))
    assert compose(project(tmp_path), "id", made, "/t/exp").workdir == lands


def test_a_workdir_outside_the_project_is_refused(tmp_path: Path) -> None:
    made = draft(project(tmp_path), Wanted("exp", ("x",), workdir="../exp2"))
    with pytest.raises(CloudrunError) as caught:
        compose(project(tmp_path), "id", made, "/t/exp")
    assert caught.value.code == "workdir"


def test_no_sync_needs_to_know_where(tmp_path: Path) -> None:
    with pytest.raises(CloudrunError) as caught:
        draft(project(tmp_path), Wanted("exp", ("x",), sync=False))
    assert caught.value.code == "no-sync-workdir"
    assert draft(project(tmp_path), Wanted("exp", ("x",), sync=False, workdir="/code")).workdir == "/code"


def test_environment_files() -> None:
    text = "\n# note\nA=1\nexport B = two words # note\nC='$x # y'\nD=\"q\\\"\\n\"\nE=\nF=a#b\n"
    assert parse_env(text, "f") == {"A": "1", "B": "two words", "C": "$x # y", "D": 'q"\n', "E": "", "F": "a#b"}
    assert parse_env('G="a\\\\nb \\$HOME"\n', "f") == {"G": "a\\nb $HOME"}  # the backslash itself was escaped, not the n


def test_an_error_in_an_environment_file_never_shows_what_stands_there() -> None:
    with pytest.raises(CloudrunError) as caught:
        parse_env("A=1\nhunter2 is no assignment\n", "f.env")
    assert "line 2" in caught.value.message
    assert "hunter2" not in repr(caught.value) + caught.value.message + caught.value.hint
