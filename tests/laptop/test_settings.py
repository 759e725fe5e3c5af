"""cloudrun.toml: what stands there is typed, checked, and every error names the field's path."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cloudrun.app.init import example
from cloudrun.errors import CloudrunError
from cloudrun.project.settings import check_name, find_project, load, project_host, says_nothing, suggest_name
from cloudrun.project.sizes import parse_size
from cloudrun.project.templates import session_template


def write(folder: Path, text: str) -> Path:
    path = folder / "cloudrun.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_run_stands_over_the_defaults_and_env_is_joined(tmp_path: Path) -> None:
    settings = load(write(tmp_path, """
        [defaults]
        min_free = "1 GB"
        outputs = ["wandb"]
        env = { A = "general", B = 2 }
        [runs.exp]
        command = "python 训练.py  # 注释"
        outputs = []
        env = { A = "own" }
    """))
    run = settings.run("exp")
    assert run.command == "python 训练.py  # 注释"
    assert (run.min_free, run.outputs, run.env) == ("1 GB", [], {"A": "own", "B": 2})
    assert settings.run("another").outputs == ["wandb"]


@pytest.mark.parametrize(("text", "named"), [
    ('[runs.exp]\ncomand = "x"', ("comand", "did you mean `command`", "line 2, runs.exp.comand")),
    ("[runs.exp]\ngpus = 1", ("line 2, runs.exp.gpus", "array")),
    ('[defaults]\nmin_free = "5 parsecs"', ("line 2, defaults.min_free", "5 parsecs")),
    ('[runs.exp]\nbackend = "zellij"', ("runs.exp.backend", "screen, tmux")),
    ("[runs.exp]\nenv = { 'A B' = 1 }", ("runs.exp.env", "A B")),
    ('[runs.exp]\nconda_env = "a"\nactivate = "b"', ("line 3, runs.exp.activate", "not both")),
    ('[runs.exp]\nscreen_escape = "Ctrl-j"', ("runs.exp.screen_escape", "^Jj")),
    ('project = "../x"', ("line 1, project:", "../x")),
    ("[runs.exp\n", ("line 1",)),
    ("host = 'box'\n[runs.'exp']\nenv = { A = [1] }", ("line 3, runs.exp.env", "not array")),
    ("[defaults]\ngpu = [0]\n", ("line 2, defaults.gpu", "did you mean `gpus`")),
    ("runs = 3", ("line 1, runs:", "[runs.NAME]")),
    ('[runs.exp]\ncommand = "python x.py\n', ("line 2", "a quotation mark is left open")),
    ("[runs.exp]\ncommand = python x.py\n", ("line 2", "has to stand in quotation marks")),
    ("[runs.exp]\ncommand = “python x.py”\n", ("line 2", "typographic")),
    ('[runs.exp]\ncommand = "echo "hi""\n', ("line 2", "inside of quotation marks")),
    ('[runs.exp]\ncommand = "a"\ncommand = "b"\n', ("line 3", "already exists")),
])
def test_what_is_wrong_is_named_with_its_path(tmp_path: Path, text: str, named: tuple[str, ...]) -> None:
    with pytest.raises(CloudrunError) as caught:
        load(write(tmp_path, text))
    assert caught.value.code == "project-file"
    for word in (*named, str(tmp_path)):
        assert word in caught.value.message


def test_the_project_is_found_upward_and_without_a_file_it_is_the_git_folder(tmp_path: Path) -> None:
    inner = tmp_path / "研究" / "src"
    inner.mkdir(parents=True)
    assert find_project(inner).folder == inner
    (tmp_path / "研究" / ".git").mkdir()
    assert find_project(inner).folder == tmp_path / "研究"
    write(tmp_path, 'project = "net"')
    found = find_project(inner)
    assert (found.folder, found.name) == (tmp_path, "net")


def test_a_folder_name_becomes_a_safe_name_on_the_box(tmp_path: Path) -> None:
    folder = tmp_path / "my net (v2)"
    folder.mkdir()
    assert find_project(folder).name == "my-net-v2"


@pytest.mark.parametrize("name", ["exp_resnet50", "a", "9", "A-b_C", "x" * 63])
def test_names_that_are_allowed(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(("name", "character", "position"), [
    ("exp.v1", ".", 4), ("run:3", ":", 4), ("训练", "训", 1), ("a/b", "/", 2), ("-x", "-", 1), ("_x", "_", 1), ("a b", " ", 2),
    ("a\n", "\n", 2),
])
def test_the_character_that_is_wrong_is_named(name: str, character: str, position: int) -> None:
    with pytest.raises(CloudrunError) as caught:
        check_name(name)
    assert caught.value.params["character"] == character
    assert caught.value.params["position"] == position
    assert repr(character) in caught.value.message
    check_name(caught.value.params["suggestion"])


@pytest.mark.parametrize(("name", "code"), [("", "run-name-empty"), ("x" * 64, "run-name-long")])
def test_names_of_a_wrong_length(name: str, code: str) -> None:
    with pytest.raises(CloudrunError) as caught:
        check_name(name)
    assert caught.value.code == code


@pytest.mark.parametrize(("name", "suggestion"), [("a b", "a_b"), ("训练_1201", "run_1201"), ("训练resnet", "resnet")])
def test_a_suggested_name_keeps_the_sense(name: str, suggestion: str) -> None:
    assert suggest_name(name) == suggestion


@pytest.mark.parametrize(("text", "host"), [
    ('host = "box"\n[runs.exp]\ncomand = 1', "box"), ("[runs.exp\n", None), ("x\n[defaults]\nhost = 1", None), ("host = 3", None),
])
def test_the_host_is_read_from_a_file_that_has_a_mistake_elsewhere(tmp_path: Path, text: str, host: str | None) -> None:
    write(tmp_path, text)
    assert project_host(tmp_path) == host


def test_a_host_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    write(tmp_path, 'host = "box\n')
    with pytest.raises(CloudrunError) as caught:
        project_host(tmp_path)
    assert caught.value.code == "project-file"


def test_names_that_say_nothing() -> None:
    vague = [name for name in ("test", "a", "1", "20261201", "det_yolo11_1201") if says_nothing(name)]
    assert vague == ["test", "a", "1", "20261201"]


@pytest.mark.parametrize(("text", "size"), [
    ("5 GB", 5 * 10**9), ("5GiB", 5 * 2**30), ("500m", 5 * 10**8), (7, 7), ("1.5 kB", 1500),
])
def test_sizes(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1 GB", "5 XB", -1, "1e"])
def test_no_sizes(text: str | int) -> None:
    with pytest.raises(ValueError):
        parse_size(text)


def test_the_example_holds_no_run_and_each_of_its_lines_is_valid(tmp_path: Path) -> None:
    assert load(write(tmp_path, example())).runs == {}
    lines = [re.sub(r"^# (?=\[?[a-z_.0-9]+(\]$| = ))", "", line) for line in example().splitlines()]
    taken = load(write(tmp_path, "\n".join(line for line in lines if not line.startswith("activate"))))
    assert taken.runs["exp_resnet50"].command == "python train.py --model resnet50 --lr 1e-4"
    assert taken.defaults.screen_escape == "^Jj"


@pytest.mark.parametrize(("name", "key"), [("screenrc", "Ctrl-a"), ("tmux.conf", "Ctrl-b")])
def test_a_session_says_the_key_that_leaves_it(name: str, key: str) -> None:
    assert f"{key} d leaves" in session_template(name, None)
    assert "Ctrl-j d leaves" in session_template(name, "^Jj")
    assert key not in session_template(name, "^Jj")
