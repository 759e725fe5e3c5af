"""The command's frame: help, exit codes, errors on the right stream, JSON and nothing else, no traceback without --debug."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cloudrun.cli.commands import COMMANDS, built
from cloudrun.cli.widths import cells, wrapped
from tests.support.cli import Laptop


def test_help_names_every_command_and_every_command_has_help(cloudrun: Laptop) -> None:
    whole = cloudrun.run("--help").out
    for command in ("host", "init", "doctor", "launch", "ps", "logs", "attach", "gpu", "stop", "rm"):
        assert command in whole
        assert len(cloudrun.run(command, "--help").out) > 120
    assert cloudrun.run("--version").out.startswith("cloudrun ")


@pytest.mark.parametrize("words", [("nonsense",), ("launch",), ("stop",), ("ps", "--nonsense"), ("stop", "x", "--grace", "soon")])
def test_a_wrong_command_line_is_2_with_the_help_to_ask(cloudrun: Laptop, words: tuple[str, ...]) -> None:
    done = cloudrun.run(*words, code=2)
    assert done.out == ""
    assert "--help" in done.err
    assert "Traceback" not in done.err
    error = cloudrun.json(*words, code=2)["error"]
    assert (error["code"], error["exit_code"]) == ("usage", 2)


def test_no_host_yet_says_how_to_name_one(cloudrun: Laptop) -> None:
    done = cloudrun.run("ps", code=7)
    assert "cloudrun host add" in done.err
    assert done.out == ""
    error = cloudrun.json("ps", code=7)["error"]
    assert list(error) == ["code", "message", "hint", "exit_code"]


def test_a_dead_box_is_said_as_what_it_is_and_never_as_a_stopped_run(cloudrun: Laptop) -> None:
    cloudrun.run("host", "add", "dead", "ssh -p 1 root@127.0.0.1", "--no-connect")
    answer = cloudrun.json("ps", "--all-hosts", code=10)
    assert answer["runs"] == []
    assert [error["host"] for error in answer["errors"]] == ["dead"]
    assert "127.0.0.1" in answer["errors"][0]["message"]


def test_debug_shows_the_traceback_wherever_it_stands(cloudrun: Laptop) -> None:
    assert "Traceback" not in cloudrun.run("ps", code=7).err
    assert "Traceback" in cloudrun.run("ps", "--debug", code=7).err
    assert "Traceback" in cloudrun.run("--debug", "ps", code=7).err


def test_what_stands_after_the_dashes_is_the_runs_own(cloudrun: Laptop) -> None:
    done = cloudrun.run("launch", "exp_x", "--", "python", "x.py", "--debug", "--json", code=7)
    assert done.out == ""  # the error is talk: --json behind the dashes is not ours
    assert "Traceback" not in done.err


def test_help_imports_nothing_heavy() -> None:
    script = "import sys; from cloudrun.cli.main import run; run(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.replace("'", "").strip("[]\n").split(", "))
    assert not loaded & {"paramiko", "cryptography", "jinja2", "torch", "libtmux", "tomlkit", "msgspec", "pathspec", "asyncio"}
    assert not [name for name in loaded if name.split(".")[0] == "rich" or name in ("cloudrun.cli.launch", "cloudrun.errors.box")]


@pytest.mark.parametrize("words", [["ps", "--json"], ["gpu", "-H", "x", "--json"], ["logs", "exp", "--json"]])
def test_a_plain_command_line_is_read_without_pydantic(words: list[str], tmp_path: Path) -> None:
    script = f"import sys; from cloudrun.cli.main import run; run({words!r}); print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True,
                          env={**os.environ, "CLOUDRUN_CONFIG_DIR": str(tmp_path)})
    assert json.loads(done.stdout)["error"]["exit_code"] == 7  # it went as far as the hosts
    loaded = set(done.stderr.replace("'", "").strip("[]\n").split(", "))
    assert not loaded & {"pydantic", "rich", "paramiko", "jinja2"}


def test_every_command_of_the_table_is_there_and_says_what_the_table_says(cloudrun: Laptop) -> None:
    whole = cloudrun.run("--help").out
    assert [line.split()[0] for line in whole.split("Commands:")[1].split("Options:")[0].splitlines() if line[2:3].strip()] == [
        *COMMANDS]
    for name, listed in COMMANDS.items():
        assert built(name).help == listed.help
        first = listed.help.split("\n\n")[0]
        assert f"  {name:<6}  {first}\n" in whole  # one line each, at 80 columns


def test_help_of_wide_letters_keeps_its_columns() -> None:
    text = "显示一个训练的日志，断线后自动重连。With Latin words，再加中文（括号）。"
    lines = wrapped(text, 20)
    assert max(map(cells, lines)) <= 20
    assert min(map(cells, lines[:-1])) > 10
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert not any(line[0] in "，。）" for line in lines)
    assert wrapped("a " + "b" * 30 + " c", 10) == ["a", "b" * 30, "c"]


def test_completion_knows_the_commands(cloudrun: Laptop) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cloudrun"], capture_output=True, text=True, check=False, cwd=cloudrun.project, timeout=30,
        env={**cloudrun.environment(), "_CLOUDRUN_COMPLETE": "complete_bash", "COMP_WORDS": "cloudrun at", "COMP_CWORD": "1"},
    )
    assert done.stdout.split() == ["attach"]


def test_a_command_that_is_near_is_named(cloudrun: Laptop) -> None:
    assert "near it: launch" in cloudrun.run("lanch", "x", code=2).err
    assert "near it: trust" in cloudrun.run("host", "trus", "x", code=2).err


def test_json_errors_are_one_document(cloudrun: Laptop) -> None:
    assert json.loads(cloudrun.run("launch", "a.b", "--json", "--", "x", code=2).out)["error"]["code"] == "run-name-character"


@pytest.mark.parametrize("text", ["[runs.exp\n", "[runs.exp]\ncomand = 1\n", "\udcff"])
def test_a_project_file_that_is_not_right_stands_in_the_way_of_a_launch_only(cloudrun: Laptop, text: str) -> None:
    (cloudrun.project / "cloudrun.toml").write_text(text, errors="surrogateescape")
    for chosen in (["-H", "local"], []):
        if not chosen:
            cloudrun.env["CLOUDRUN_HOST"] = "local"
        assert cloudrun.json("ps", *chosen) == {"runs": [], "errors": []}
        assert cloudrun.json("logs", *chosen, code=4)["error"]["code"] == "no-runs"
        assert cloudrun.json("stop", "exp", *chosen, code=4)["error"]["code"] == "no-such-run"
        assert cloudrun.json("launch", "exp", *chosen, "--", "true", code=7)["error"]["code"] == "project-file"


@pytest.mark.parametrize("before", [[], ["-H", "local"], ["--fresh", "--backend", "screen"]])
def test_a_forgotten_name_is_not_taken_from_the_command(cloudrun: Laptop, before: list[str]) -> None:
    error = cloudrun.json("launch", *before, "--", "python3", "train.py", "a b", code=2)["error"]
    assert error["message"] == "the name is missing: cloudrun launch NAME -- python3 train.py 'a b'"


@pytest.mark.parametrize(("words", "target"), [
    (["box", "ssh", "-p", "42471", "root@127.0.0.1"], "ssh -p 42471 root@127.0.0.1"),
    (["box", "ssh", "-p", "42471", "root@127.0.0.1", "--data-dir", "/data"], "ssh -p 42471 root@127.0.0.1"),
    (["--data-dir=/data", "box", "/usr/bin/ssh", "root@127.0.0.1", "-p42471"], "ssh -p 42471 root@127.0.0.1"),
    (["--data-dir", "/data", "box", "ssh", "-J", "me@jump:22", "box.example"], "ssh -J me@jump:22 box.example"),
    (["ssh", "root@127.0.0.1:22"], "root@127.0.0.1:22"),
])
def test_a_login_command_may_be_pasted_without_quotes(cloudrun: Laptop, words: list[str], target: str) -> None:
    host = cloudrun.json("host", "add", "--no-connect", *words)["host"]
    assert host["target"] == target
    assert host["data_dir"] == ("/data" if any("/data" in word for word in words) else None)


def test_a_pasted_login_without_a_name_shows_the_line_to_type(cloudrun: Laptop) -> None:
    done = cloudrun.run("host", "add", "ssh", "-p", "42471", "root@127.0.0.1", "--accept-new", code=2)
    assert 'cloudrun host add box "ssh -p 42471 root@127.0.0.1"' in done.err


def test_help_shows_what_is_typed_and_the_box_first(cloudrun: Laptop) -> None:
    assert "cloudrun launch [OPTIONS] NAME [-- COMMAND...]" in cloudrun.run("launch", "--help").out
    whole = cloudrun.run("--help").out
    assert whole.index(" host ") < whole.index(" init ")
    assert "cloudrun host set [OPTIONS] NAME [TARGET]\n" in cloudrun.run("host", "set", "--help").out
