"""Whatever a name, a word of the command, a variable, a secret or a path is made of: it arrives unchanged, or is refused before
anything is made; and nothing in it is ever started."""

from __future__ import annotations

import json
import os
import shutil
import string
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from remote_agent.protocol import RUN_NAME
from tests.support.cli import Laptop
from tests.support.sshd import SshBox
from tests.support.waiting import wait_for

#: Says what it was given, byte for byte. What a path or a value holds that is no UTF-8 comes as Python carries it.
SEEN = """\
import json, os, sys
seen = {"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "files": sorted(os.listdir("."))}
part = os.path.join(os.environ["CLOUDRUN_RUN_DIR"], ".seen")
open(part, "w", encoding="ascii").write(json.dumps(seen))
os.rename(part, os.path.join(os.environ["CLOUDRUN_RUN_DIR"], "seen.json"))
"""
#: What would leave a trace if anything read it as more than text; `{canary}` is a file that must never be there.
NASTY = [
    "$(touch {canary})", "`touch {canary}`", "; touch {canary};", "'; touch {canary}; '", "\"; touch {canary}; \"",
    "| touch {canary}", "\n touch {canary}\n", "&& touch {canary}", "> {canary}", "<(touch {canary})",
    "${{x:=$(touch {canary})}}", "%n%s", "!!", "!$", "-rf", "--", "--help", "-", "~", "~root", "*", "?", "[a-z]", "{{a,b}}",
    "a\\", "\\n", "a\tb", " ", "", "#", "训练 模型", "损失=0.1", "é", "e\u0301", "🙂", "\u200b", "\u202e", "\x1b[31m", "\x07",
    "\x7f", "\r", "\r\n", "CLOUDRUN_TEXT", "EOF", "$HOME", "$$", "%h",
]
ODD = "'\"$`\\!#;&|<>*?[]{}()~^%=+@,:. \n\t\r-训练é🙂" + string.ascii_letters
TEXT = st.characters(exclude_characters="\0", exclude_categories=["Cs"])


def values(canary: Path) -> st.SearchStrategy[str]:
    nasty = st.sampled_from([text.format(canary=canary) for text in NASTY])
    return st.one_of(nasty, st.text(TEXT, max_size=20), st.text(st.sampled_from(ODD), max_size=30),
                     st.tuples(nasty, st.text(st.sampled_from(ODD), max_size=8)).map("".join))


def lines(canary: Path) -> st.SearchStrategy[str]:
    """What can stand on one line of an environment file, in double quotes."""
    return values(canary).map(lambda text: "".join(letter for letter in text if letter.isprintable()))


def names(canary: Path) -> st.SearchStrategy[str]:
    """What a file system takes as the name of a folder."""
    made = values(canary).map(lambda text: text.replace("/", "_")[:40])
    return made.filter(lambda name: bool(name.strip(".")) and not name.startswith(".git"))


def toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def variables(given: list[str], prefix: str) -> dict[str, str]:
    return {f"{prefix}{number}": value for number, value in enumerate(given)}


@pytest.fixture
def canary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Must not be there in the end. A short path without anything special in it."""
    path = tmp_path_factory.mktemp("c") / "canary"
    yield path
    assert not path.exists()


#: Nothing is kept, nothing is made smaller, and each example may take its time.
DRAWN = {"deadline": None, "database": None, "phases": [Phase.generate], "suppress_health_check": list(HealthCheck)}
#: A launch carries 60 words, 40 variables, 10 secrets and 20 paths.
PER_LAUNCH = 130


@pytest.mark.parametrize("backend", ["screen", "tmux"])
@pytest.mark.parametrize("launches", [2, pytest.param(40, marks=pytest.mark.campaign)])
def test_everything_arrives_and_nothing_is_started(
    box: SshBox, cloudrun: Laptop, canary: Path, figure: Callable[[str], None], backend: str, launches: int
) -> None:
    cloudrun.know(box)
    done = 0

    @settings(max_examples=launches, **DRAWN)
    @given(st.data())
    def one(data: st.DataObject) -> None:
        nonlocal done
        words = data.draw(st.lists(values(canary), min_size=60, max_size=60))
        env = variables(data.draw(st.lists(values(canary), min_size=40, max_size=40)), "V")
        secrets = variables(data.draw(st.lists(lines(canary), min_size=10, max_size=10)), "S")
        folders = data.draw(st.lists(names(canary), min_size=20, max_size=20, unique=True))
        launch_one(cloudrun, box, Sent(words, env, secrets, folders), backend)
        done += 1

    one()
    assert done >= launches
    figure(f"words, variables, secrets and paths drawn at random, {backend}: changed, or started | "
           f"{done} launches, {done * PER_LAUNCH:,} values | 0")


class Sent:
    """What one launch carries. The first folder is where it runs; the others lie beside, with a file of the same name in each."""

    def __init__(self, words: list[str], env: dict[str, str], secrets: dict[str, str], folders: list[str]) -> None:
        self.words, self.env, self.secrets, self.folders = words, env, secrets, folders


def launch_one(cloudrun: Laptop, box: SshBox, sent: Sent, backend: str) -> None:
    project = cloudrun.project
    shutil.rmtree(project / "w", ignore_errors=True)
    for folder in sent.folders:
        (project / "w" / folder).mkdir(parents=True)
        (project / "w" / folder / folder).write_bytes(folder.encode())
    (project / "seen.py").write_text(SEEN)
    table = "".join(f"{name} = {toml(value)}\n" for name, value in sent.env.items())
    (project / "cloudrun.toml").write_text(f'project = "net"\n[runs.exp.env]\n{table}', encoding="utf-8")
    quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") for name, value in sent.secrets.items()}
    env_file = project.parent / "secrets.env"
    env_file.write_text("".join(f'{name}="{value}"\n' for name, value in quoted.items()), encoding="utf-8")
    launched = cloudrun.json(
        "launch", "exp", "--fresh", "--backend", backend, "--wait", "0.1", f"--workdir=w/{sent.folders[0]}",
        "--env-file", str(env_file), "--", sys.executable, "../../seen.py", *sent.words)
    seen_file = Path(launched["run_dir"]) / "seen.json"
    wait_for(seen_file.exists)
    seen = json.loads(seen_file.read_text())
    assert seen["argv"] == sent.words
    assert {name: seen["env"].get(name) for name in sent.env} == sent.env
    assert {name: seen["env"].get(name) for name in sent.secrets} == sent.secrets
    assert Path(seen["cwd"]).name == sent.folders[0]
    assert seen["files"] == [sent.folders[0]]
    beside = Path(seen["cwd"]).parent
    assert {one: (beside / one / one).read_bytes().decode() for one in os.listdir(beside)} == {one: one for one in sent.folders}
    wait_for(lambda: cloudrun.state("exp")["state"] == "succeeded")


@pytest.mark.parametrize("count", [50, pytest.param(2000, marks=pytest.mark.campaign)])
def test_a_name_that_cannot_be_is_refused_before_anything_is_made(
    box: SshBox, cloudrun: Laptop, canary: Path, figure: Callable[[str], None], count: int
) -> None:
    cloudrun.know(box)
    refused = 0

    @settings(max_examples=count, **DRAWN)
    @given(values(canary).filter(lambda name: not RUN_NAME.match(name)))
    def one(name: str) -> None:
        nonlocal refused
        done = cloudrun.run("launch", "--json", name, "--", "true", code=None)
        assert done.code == 2, (name, done)
        refused += 1

    one()
    assert not (box.data / "cloudrun").exists()
    assert not (box.home / "cloudrun").exists()
    figure(f"names that cannot be, drawn at random: accepted | {refused:,} names | 0")
