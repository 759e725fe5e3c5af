"""run.sh: held against golden files, and run under real bash with values that break a careless one."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudrun.errors import CloudrunError
from cloudrun.project.quoting import heredoc_delimiter, shell_command, shell_word
from cloudrun.project.runscript import render
from cloudrun.project.templates import template_text
from remote_agent import layout, protocol
from tests.support.agentdir import unpacked_agent
from tests.support.sshd import PartMissing

GOLDEN = Path(__file__).parent / "golden"
FACTS = protocol.BoxFacts(
    home="/root", python="/root/miniconda3/bin/python", agent_dir="/root/.cloudrun/agent/0123456789ab",
    data_dir="/root/autodl-tmp", run_dir="/root/autodl-tmp/cloudrun/runs/exp_resnet50",
    tree="/root/cloudrun/vision/exp_resnet50", utf8_locale="C.UTF-8",
)
PLAIN = protocol.Spec(
    run="exp_resnet50", project="vision", project_id="p1", command="python train.py --lr 1e-4", workdir=FACTS.tree,
)
SPECS: dict[str, tuple[protocol.Spec, str | None]] = {
    "plain": (PLAIN, None),
    "conda": (replace(
        PLAIN, command="export OMP_NUM_THREADS=8\npython train.py  # 训练\n", resume_command="python train.py --resume\n",
        setup="pip install -r requirements.txt", conda_env="torch 2.1", gpus=[0, 3], network_turbo=True,
        env={"A": "it's $HOME `x`", "B": "two\nlines", "C": "中文 空格"}, secret_names=["WANDB_API_KEY"], log_limit_bytes=10**6,
    ), "/root/.cloudrun/secrets/exp_resnet50-002.env"),
    "venv": (replace(
        PLAIN, command="cat <<'CLOUDRUN_TEXT'\na text that ends like ours\nCLOUDRUN_TEXT\n", activate=".venv", gpus=[],
        workdir=FACTS.tree + "/src",
    ), None),
}
#: Prints what it was given, as JSON that no locale can break.
SEEN = "import json,os,sys;print(json.dumps({'argv':sys.argv[1:],'env':dict(os.environ),'cwd':os.getcwd()}))"
#: From the field, and what the shell, the here-document and the options of bash could take for their own.
NASTY = [
    "it's $HOME `x`", "two\nlines", "中文 空格", "", " ", "-n", "--", "-c", "a=b", "~", "*", "\\", "\\\n", "'", '"',
    "$(exit 9)", "!x", "\t", "\r", "x\r\ny", "ends\n\n", "\x01\x7f\x1b[31m", "# no comment", "CLOUDRUN_TEXT",
    "\nCLOUDRUN_TEXT\n", "{a,b}", "é" * 300, "\udcff not UTF-8",
]


@pytest.mark.parametrize("name", SPECS)
def test_golden(name: str) -> None:
    spec, secret_file = SPECS[name]
    text = render(spec, FACTS, 2, secret_file)
    golden = GOLDEN / f"{name}.sh"
    if os.environ.get("CLOUDRUN_WRITE_GOLDEN"):
        golden.write_text(text, encoding="utf-8", newline="\n")
    assert text == golden.read_bytes().decode()
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "\r" not in text
    assert subprocess.run(["bash", "-n", str(golden)], capture_output=True, check=False).stderr == b""


def test_the_cache_folders_are_where_the_agent_thinks() -> None:
    assert f"HF_HOME={layout.Data(FACTS.data_dir).caches}/huggingface\n" in render(PLAIN, FACTS, 1, None)


@pytest.mark.parametrize("name", ["UID", "CLOUDRUN_ATTEMPT", "cloudrun_text", "1A", "A B", "RANDOM", "a.b", ""])
def test_a_variable_that_bash_would_not_carry_is_refused(name: str) -> None:
    with pytest.raises(CloudrunError) as caught:
        render(replace(PLAIN, env={name: "1"}), FACTS, 1, None)
    assert caught.value.code == "env-name"


@pytest.mark.parametrize("spec", [
    replace(PLAIN, command="a\0b"), replace(PLAIN, env={"A": "\0"}), replace(PLAIN, setup="\0"),
])
def test_nul_is_refused(spec: protocol.Spec) -> None:
    with pytest.raises(CloudrunError) as caught:
        render(spec, FACTS, 1, None)
    assert caught.value.code == "nul-character"


def test_a_delimiter_stands_nowhere_in_its_text() -> None:
    text = "CLOUDRUN_TEXT\nCLOUDRUN_TEXT_2\n"
    assert heredoc_delimiter(text) not in text
    assert template_text("run.sh.j2").startswith("#!/usr/bin/env bash\n")


# --------------------------------------------------------------------------------------- under real bash


class Place:
    """A box's folders, and run.sh started on them as the supervisor does or as a person does."""

    def __init__(self, folder: Path, agent: Path) -> None:
        self.folder = folder
        self.tree = folder / "the tree"
        self.tree.mkdir()
        self.facts = protocol.BoxFacts(
            home=str(folder / "home"), python=sys.executable, agent_dir=str(agent), data_dir=str(folder / "data"),
            run_dir=str(folder / "data/cloudrun/runs/exp"), tree=str(self.tree), utf8_locale="C.UTF-8",
        )
        self.run = layout.Run(self.facts.run_dir)
        #: Nothing of the developer's own.
        self.env = {"PATH": "/usr/bin:/bin", "HOME": self.facts.home}

    def spec(self, command: str, **given: Any) -> protocol.Spec:
        return replace(PLAIN, **{"command": command, "workdir": str(self.tree), **given})

    def supervised(self, spec: protocol.Spec, *, step: str = "command", attempt: int = 1, secret_file: str | None = None,
                   **env: str) -> tuple[int, bytes]:
        """Exit code and log."""
        log = Path(self.run.log(attempt))
        log.unlink(missing_ok=True)
        contract = {
            "CLOUDRUN_SUPERVISED": "1", "CLOUDRUN_STEP": step, "CLOUDRUN_ATTEMPT": str(attempt),
            "CLOUDRUN_RUN_DIR": self.run.path, "CLOUDRUN_LOG": str(log),
            "CLOUDRUN_EXIT_RECORD": self.run.exit_record(attempt),
        }
        done = self._bash(spec, secret_file, {**contract, **env})
        record = json.loads(Path(self.run.exit_record(attempt)).read_text())
        assert done.returncode == (record["exit_code"] if record["signal"] is None else -record["signal"])
        return done.returncode, log.read_bytes()

    def by_hand(self, spec: protocol.Spec, **env: str) -> subprocess.CompletedProcess[bytes]:
        return self._bash(spec, None, env)

    def _bash(self, spec: protocol.Spec, secret_file: str | None, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
        script = self.folder / "run.sh"
        text = render(spec, self.facts, 1, secret_file).replace("/etc/network_turbo", str(self.folder / "network_turbo"))
        script.write_bytes(text.encode("utf-8", "surrogateescape"))
        return subprocess.run(["bash", str(script)], cwd="/", env={**self.env, **env}, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=30, check=False)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_agent(tmp_path_factory.mktemp("agent"))


@pytest.fixture
def place(tmp_path: Path, agent: Path) -> Place:
    return Place(tmp_path, agent)


def test_every_value_arrives_as_it_was(place: Place) -> None:
    command = shell_command([sys.executable, "-I", "-S", "-c", SEEN, *NASTY])
    env = {f"V{number}": value for number, value in enumerate(NASTY)}
    code, log = place.supervised(place.spec(command, env=env))
    assert code == 0, log
    seen = json.loads(log)
    assert seen["argv"] == NASTY
    assert {name: seen["env"][name] for name in env} == env


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12), min_size=4, max_size=40))
def test_any_value_arrives_as_it_was(place: Place, values: list[str]) -> None:
    command = shell_command([sys.executable, "-I", "-S", "-c", SEEN, *values])
    code, log = place.supervised(place.spec(command, env={"VALUE": "\n".join(values)}))
    assert code == 0, log
    seen = json.loads(log)
    assert seen["argv"] == values
    assert seen["env"]["VALUE"] == "\n".join(values)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1))
def test_quoting_is_what_bash_reads(words: list[str]) -> None:
    import shlex

    assert shlex.split(" ".join(map(shell_word, words))) == words


@pytest.mark.parametrize(("command", "code", "said"), [
    ("echo one\necho two # a comment", 0, "one\ntwo\n"),
    ("echo 'a\"b'; echo \"$((1+1))\" \\\n  more\n", 0, "a\"b\n2 more\n"),
    ("-no-such-program --at all", 127, "exp_resnet50: line 1: -no-such-program: command not found\n"),
    ("echo before\nif then", 2, None),
    ("echo $0 $# \"$@\"", 0, "exp_resnet50 0\n"),
    ("cat <<'CLOUDRUN_TEXT'\n$HOME\nCLOUDRUN_TEXT\n", 0, "$HOME\n"),
    ("exit 137", 137, ""),
    ("kill -KILL $$", -9, ""),
    ("sleep 30 & kill -TERM $!; wait $!", 143, None),
    ("cat; echo stdin is at its end", 0, "stdin is at its end\n"),
])
def test_the_command_is_run_as_it_was_written(place: Place, command: str, code: int, said: str | None) -> None:
    ended, log = place.supervised(place.spec(command))
    assert ended == code, log
    if said is not None:
        assert log.decode() == said
    if code == 2:
        assert b"syntax error" in log


def test_what_the_command_finds(place: Place) -> None:
    """The environment, the folder, no descriptor of ours, no signal ignored that could end it."""
    probe = (
        "import json,os,signal,sys,remote_agent.protocol;print(json.dumps({"
        "'env':dict(os.environ),'cwd':os.getcwd(),'fds':sorted(os.listdir('/proc/self/fd'),key=int)[:-1],"
        "'ignored':[s.name for s in signal.Signals if s.name in ('SIGINT','SIGTERM','SIGHUP','SIGQUIT') "
        "and signal.getsignal(s)==signal.SIG_IGN],'ppid':os.getppid(),'zh':'第1轮'},ensure_ascii=False))"
    )
    command = shell_command([sys.executable, "-c", probe])
    code, log = place.supervised(place.spec(command, gpus=[1, 0]), LC_ALL="POSIX", PYTHONPATH="/users/own", HF_HOME="/theirs")
    assert code == 0, log
    seen = json.loads(log)
    env, caches = seen["env"], layout.Data(place.facts.data_dir).caches
    assert seen["cwd"] == str(place.tree)
    assert seen["zh"] == "第1轮"
    assert seen["fds"] == ["0", "1", "2"]
    assert seen["ignored"] == []
    expected = {
        "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "CUDA_VISIBLE_DEVICES": "1,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "PYTHONPATH": "/users/own:" + place.facts.agent_dir, "CLOUDRUN_RUN_DIR": place.run.path, "CLOUDRUN_ATTEMPT": "1",
        "CLOUDRUN_DATA_DIR": place.facts.data_dir, "HF_HOME": "/theirs", "TORCH_HOME": caches + "/torch",
        "XDG_CACHE_HOME": caches + "/xdg",
    }
    assert {name: env.get(name) for name in expected} == expected
    assert not [name for name in env if name.startswith("CLOUDRUN_") and name not in expected]
    assert not [name for name in env if name.startswith("cloudrun_")]


def test_a_single_command_is_the_tees_own_child(place: Place) -> None:
    """So that a signal to the child is a signal to the training; also when it is the last of many lines."""
    probe = shell_command([
        sys.executable, "-c", "import os;print(open(f'/proc/{os.getppid()}/cmdline').read().split(chr(0))[3])",
    ])
    for command in (probe, f"export A=1\n{probe}\n\n"):
        assert place.supervised(place.spec(command)) == (0, b"tee\n")


def test_unset_unless_wanted(place: Place) -> None:
    _, log = place.supervised(place.spec("echo ${CUDA_VISIBLE_DEVICES-unset} ${CUDA_DEVICE_ORDER-unset}"))
    assert log == b"unset unset\n"
    given = {"PYTORCH_ALLOC_CONF": "backend:native", "TORCH_HOME": "/theirs"}
    command = 'echo "[$CUDA_VISIBLE_DEVICES]" ${PYTORCH_CUDA_ALLOC_CONF-unset} $TORCH_HOME'
    _, log = place.supervised(place.spec(command, gpus=[], env=given))
    assert log == b"[] unset /theirs\n"


def test_the_providers_proxy_script_serves_where_it_is_and_is_wanted(place: Place) -> None:
    tells = "echo ${http_proxy-none}"
    assert place.supervised(place.spec(tells, network_turbo=True)) == (0, b"none\n")
    (place.folder / "network_turbo").write_text("export http_proxy=http://10.0.0.1:3128\n")
    assert place.supervised(place.spec(tells, network_turbo=True)) == (0, b"http://10.0.0.1:3128\n")
    assert place.supervised(place.spec(tells)) == (0, b"none\n")


def test_steps_and_attempts(place: Place) -> None:
    spec = place.spec("echo first", resume_command="echo again", setup="echo setting up\nfalse\necho not reached")
    assert place.supervised(spec, step="setup") == (1, b"setting up\n")
    assert place.supervised(spec) == (0, b"first\n")
    assert place.supervised(spec, attempt=2) == (0, b"again\n")
    assert place.supervised(replace(spec, resume_command=None), attempt=2) == (0, b"first\n")
    assert place.supervised(replace(spec, setup=None), step="setup")[0] == 125


def test_secrets_are_sourced_and_never_shown(place: Place, tmp_path: Path) -> None:
    secret = tmp_path / "it's a secret.env"
    secret.write_text("export KEY='s3cr3t $x'\n")
    spec = place.spec("echo ${#KEY}", secret_names=["KEY"])
    assert place.supervised(spec, secret_file=str(secret)) == (0, b"9\n")
    script = tmp_path / "run.sh"
    script.write_text(render(spec, place.facts, 1, str(secret)))
    traced = subprocess.run(["bash", "-xv", str(script)], env=place.env, capture_output=True, timeout=30, check=False)
    assert b"s3cr3t" not in traced.stdout + traced.stderr
    assert b"9\n" in traced.stdout
    secret.unlink()
    code, log = place.supervised(spec, secret_file=str(secret))
    assert (code, log) == (0, f"cloudrun: without KEY: there is no {secret}\n0\n".encode())


# ------------------------------------------------------------------------------------ what may go wrong before


def test_a_folder_that_is_not_there_is_said_in_the_log(place: Place) -> None:
    code, log = place.supervised(place.spec("echo hi", workdir="/no/such 'folder'"))
    assert code == 125
    assert b"cloudrun: the working folder cannot be entered: /no/such 'folder'\n" in log
    assert b"hi" not in log


@pytest.mark.parametrize("command", ["exit 3", "kill -KILL $$"])
def test_a_command_that_ends_before_the_tee_is_there_is_not_lost(place: Place, command: str) -> None:
    """Bash, slow on its way to the tee, must not reap the command: its end would be nobody's."""
    slow = place.folder / "slow.sh"
    slow.write_text('trap() { builtin trap "$@"; [ $# -lt 5 ] || sleep 0.5; }\n')
    code, log = place.supervised(place.spec(f"echo begun; {command}"), BASH_ENV=str(slow))
    assert (code, log) == (3 if command == "exit 3" else -9, b"begun\n")


def test_venv(place: Place) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place.tree / ".venv")], check=True)
    (place.tree / "src").mkdir()
    for activate in (".venv", ".venv/bin/activate", str(place.tree / ".venv")):
        spec = place.spec("type -P python; echo $VIRTUAL_ENV", activate=activate, workdir=str(place.tree / "src"))
        assert place.supervised(spec) == (0, f"{place.tree}/.venv/bin/python\n{place.tree}/.venv\n".encode())
    (place.tree / ".venv").rename(place.tree / "moved")
    code, log = place.supervised(place.spec("echo hi", activate="moved"))
    assert code == 125
    assert log.decode() == (
        f"cloudrun: activation of {place.tree}/moved/bin/activate leads to {place.tree}/.venv, which has no Python\n"
    )
    code, log = place.supervised(place.spec("echo hi", activate=".venv"))
    assert (code, log) == (125, f"cloudrun: nothing to activate at {place.tree}/.venv\n".encode())


#: What conda.sh is to a shell: a function that changes the environment, and fails for an environment it does not know.
CONDA_SH = """
conda() {
    [ "$1" = activate ] || return 2
    [ "$2" = "torch 2.1" ] || { echo "EnvironmentNameNotFound: Could not find conda environment: $2" >&2; return 1; }
    export CONDA_PREFIX="$FAKE_ROOT/envs/torch" PATH="$FAKE_ROOT/envs/torch/bin:$PATH"
    \\local cloudrun_root=/elsewhere
}
"""


def test_conda(place: Place) -> None:
    root = Path(place.facts.home) / "miniconda3"
    (root / "etc/profile.d").mkdir(parents=True)
    (root / "etc/profile.d/conda.sh").write_text(CONDA_SH)
    spec = place.spec("echo $CONDA_PREFIX; echo ${PATH%%:*}", conda_env="torch 2.1")
    said = f"{root}/envs/torch\n{root}/envs/torch/bin\n".encode()
    if not Path("/root/miniconda3").exists():
        assert place.supervised(spec, FAKE_ROOT=str(root)) == (0, said)
    assert place.supervised(spec, FAKE_ROOT=str(root), CONDA_EXE=f"{root}/bin/conda") == (0, said)
    code, log = place.supervised(replace(spec, conda_env="no'such"), CONDA_EXE=f"{root}/bin/conda")
    assert code == 125
    assert b"EnvironmentNameNotFound" in log
    assert f"cloudrun: conda environment no'such cannot be activated; conda is in {root}\n".encode() in log


def test_python_of_the_usual_conda_comes_before_the_systems(place: Place) -> None:
    """As in a login shell there, whose .bashrc we never run."""
    root = Path(place.facts.home) / "miniconda3"
    (root / "bin").mkdir(parents=True)
    (root / "bin/python").symlink_to(sys.executable)
    if not Path("/root/miniconda3").exists():
        assert place.supervised(place.spec("type -P python")) == (0, f"{root}/bin/python\n".encode())
    own = place.folder / "own"
    own.mkdir()
    (own / "python").symlink_to(sys.executable)
    start_up, beside = Path(place.facts.home) / ".bashrc", f"{own}:/usr/bin:/bin"
    mention = "export PATH=~/miniconda3/bin:$PATH"
    for line, chosen in (("", own), ("# " + mention, own), (mention, root / "bin")):
        start_up.write_text(f'[ -z "$PS1" ] && return\n{line}\n')
        assert place.supervised(place.spec("type -P python"), PATH=beside) == (0, f"{chosen}/python\n".encode())
    (start_up.parent / ".condarc").write_text("auto_activate_base: false\n")
    assert place.supervised(place.spec("type -P python"), PATH=beside) == (0, f"{own}/python\n".encode())


def test_by_hand_it_keeps_a_log_of_its_own(place: Place) -> None:
    command = "echo 'shown and logged'; echo $CLOUDRUN_ATTEMPT $CLOUDRUN_RUN_DIR >&2; exit 7"
    spec = place.spec(command, resume_command="echo never")
    done = place.by_hand(spec, TZ="Asia/Shanghai", CLOUDRUN_STEP="setup", CLOUDRUN_RUN_DIR="/another/run")
    (log,) = Path(place.run.logs).iterdir()
    said = f"shown and logged\n0 {place.run.path}\n".encode()
    assert done.returncode == 7
    assert (log.read_bytes(), done.stdout) == (said, said)
    assert done.stderr == f"cloudrun: the log is {log}\n".encode()
    stamp = re.fullmatch(r"by-hand-(\d{8}T\d{6}Z)\.log", log.name)
    assert stamp
    written = dt.datetime.strptime(stamp[1], "%Y%m%dT%H%M%S%z")
    assert abs((dt.datetime.now(dt.timezone.utc) - written).total_seconds()) < 60
    assert place.by_hand(place.spec("kill -KILL $$")).returncode == -9


def test_an_agent_that_is_gone_is_said(place: Place) -> None:
    place.facts = replace(place.facts, agent_dir="/no/such/agent")
    done = place.by_hand(place.spec("echo hi"))
    assert done.returncode == 125
    assert b"the agent is gone: /no/such/agent" in done.stderr


@pytest.mark.parametrize("full", ["TMPDIR", "TMPDIR and /dev/shm"])
def test_a_full_system_disk_costs_no_command_and_fakes_no_success(place: Place, full: str) -> None:
    """Bash keeps a here-document that is larger than a pipe (before 5.1 every one) in a file of $TMPDIR."""
    if os.geteuid() != 0:
        raise PartMissing("the suite needs root and `unshare -m` to fill a disk")
    script, small = place.folder / "run.sh", place.folder / "small"
    small.mkdir()
    script.write_text(render(place.spec("echo hi # " + "x" * 100_000), place.facts, 1, None))
    fill = "".join(
        f"mount -t tmpfs -o size=16k none {folder} && dd if=/dev/zero of={folder}/filler bs=4k 2>/dev/null;"
        for folder in ([small] if full == "TMPDIR" else [small, "/dev/shm"])
    )
    done = subprocess.run(["unshare", "-m", "bash", "-c", f"{fill} exec bash {script}"], env={**place.env, "TMPDIR": str(small)},
                          capture_output=True, timeout=30, check=False)
    if full == "TMPDIR":
        assert (done.returncode, done.stdout) == (0, b"hi\n"), done.stderr
    else:
        assert done.returncode == 125
        assert b"cloudrun: the command is not to be had" in done.stdout  # where the log goes, too
