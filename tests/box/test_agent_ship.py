"""The agent reaches a real box over a real sshd: how often it connects, and what it survives there."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloudrun.agent import archive, bootstrap
from cloudrun.agent.client import AgentClient
from cloudrun.errors import CloudrunError
from cloudrun.transport.base import Transport
from tests.support.agentdir import oldest_python
from tests.support.dialling import Dialler
from tests.support.sshd import SshBox

OLDEST = oldest_python()
#: What a rented image prints from ~/.bashrc, with more bad manners that were met: it eats input, talks later, ends no line.
NOISY_BASHRC = """\
printf '+-----------------AutoDL-----------------+\\n系 统 盘/   41%% 13G/30G\\n'
head -c 20000 /dev/zero | tr '\\0' '~'
read -t 0.02 swallowed
(sleep 0.3; printf '\\nlate words {not json}\\nand {"glued": ') &
printf 'no newline here: '
[ -z "$PS1" ] && return
"""


@pytest.fixture
def dial(laptop: Path) -> Iterator[Dialler]:
    dialler = Dialler(laptop)
    yield dialler
    dialler.close()


def agent_folder(box: SshBox) -> Path:
    return box.home / ".cloudrun" / "agent" / archive.installed().sha12


def ask(transport: Transport, python: str | None = None) -> AgentClient:
    """An agent that answers."""
    client = AgentClient.open(transport, python)
    assert client.call("ps", {"data_dir": "/nowhere", "archived": False}) == {"runs": []}
    return client


def used(transport: Transport) -> tuple[int, int, int]:
    return transport.counts.connections, transport.counts.execs, transport.counts.sftp_sessions


def test_a_fresh_box_costs_two_execs_and_a_file_and_the_next_command_one(box: SshBox, dial: Dialler) -> None:
    leftover = agent_folder(box).parent / ".part-of-last-year"
    leftover.parent.mkdir(parents=True)
    leftover.write_bytes(b"half")
    os.utime(leftover, (0, 0))
    first = dial(box)
    hello = ask(first).hello
    assert used(first) == (1, 2, 1)
    assert hello.agent_dir == str(agent_folder(box))
    assert not hello.home_read_only

    second = dial(box)
    ask(second)
    assert used(second) == (1, 1, 0)

    for folder in (box.home / ".cloudrun", agent_folder(box).parent, agent_folder(box)):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [entry.name for entry in agent_folder(box).parent.iterdir() if entry.name != ".lock"] == [hello.agent]
    assert list(agent_folder(box).glob("remote_agent/__pycache__/follow.*.pyc"))


def test_a_login_shell_that_prints_and_eats_and_an_sftp_server_that_it_breaks(tmp_path: Path, dial: Dialler) -> None:
    box = SshBox(tmp_path / "box", sftp="/usr/lib/openssh/sftp-server")
    (box.home / ".bashrc").write_text(NOISY_BASHRC)
    box.start()
    try:
        client = ask(dial(box))
        began = time.monotonic()
        while time.monotonic() - began < 0.5:  # the late words come into the middle of these
            assert client.call("ps", {"data_dir": "/nowhere", "archived": False}) == {"runs": []}
    finally:
        box.stop()


def test_two_laptops_that_come_at_once_both_get_there(box: SshBox, dial: Dialler) -> None:
    transports = [dial(box) for _ in range(3)]
    together = threading.Barrier(len(transports))
    hellos, errors = [], []

    def come(transport: Transport) -> None:
        try:
            together.wait(10)
            hellos.append(ask(transport).hello)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=come, args=(transport,)) for transport in transports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert len(hellos) == len(transports)
    assert [entry.name for entry in agent_folder(box).parent.iterdir() if entry.name != ".lock"] == [archive.installed().sha12]


def test_a_damaged_agent_is_noticed_and_put_right(box: SshBox, dial: Dialler) -> None:
    ask(dial(box))
    folder = agent_folder(box)
    for harmed in ("remote_agent/rpc/ps.py", "files", "__main__.py"):
        (folder / harmed).unlink()
        again = dial(box)
        ask(again)
        assert (harmed, used(again)) == (harmed, (1, 2, 1))
    assert [entry.name for entry in folder.parent.iterdir() if entry.name != ".lock"] == [folder.name]


def test_the_configured_python_wins_and_the_choice_is_remembered(box: SshBox, dial: Dialler) -> None:
    old = OLDEST
    assert old, "the suite needs a Python 3.8 on this machine"
    assert ask(dial(box), old).hello.python_version.startswith("3.8.")
    for configured, wanted in ((old, True), (None, False), ("", False), (old, True), ("/no/such/python", False)):
        transport = dial(box)
        hello = ask(transport, configured).hello
        assert (hello.python_version.startswith("3.8."), used(transport)) == (wanted, (1, 1, 0))


def test_a_remembered_python_that_is_no_good_any_more_is_looked_for_again(box: SshBox, dial: Dialler, tmp_path: Path) -> None:
    good = ask(dial(box)).hello.python
    bad = tmp_path / "python3"
    for became, execs in (("gone", 1), ("broken", 2)):
        if became == "broken":
            bad.write_text("#!/bin/sh\necho error while loading shared libraries >&2; exit 127\n")
            bad.chmod(0o755)
        (agent_folder(box) / "python").write_text(f"{bad}\n\n")
        transport = dial(box)
        assert ask(transport).hello.python == good
        assert (became, used(transport)[1]) == (became, execs)
        assert (agent_folder(box) / "python").read_text() == f"{good}\n\n"


def test_a_python_that_hangs_or_lies_is_passed_over(
    tmp_path: Path, dial: Dialler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "_SCRIPT", bootstrap._SCRIPT.replace("KILL 10", "KILL 0.3"))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, body in (("python3", "sleep 300"), ("python", "echo Python 4000 is great; exit 0")):
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    box = SshBox(tmp_path / "box", path=f"{programs}:/usr/bin:/bin").start()
    try:
        assert ask(dial(box)).hello.python.startswith("/usr/bin/python3")
    finally:
        box.stop()


def test_a_box_without_python_says_what_was_tried(box: SshBox, dial: Dialler, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bootstrap._CANDIDATES in bootstrap._SCRIPT
    monkeypatch.setattr(bootstrap, "_SCRIPT", bootstrap._SCRIPT.replace(bootstrap._CANDIDATES, "/bin/false /no/python3"))
    with pytest.raises(CloudrunError) as caught:
        ask(dial(box), "/mine/it's \"Py\\thon\"! 训练")
    assert caught.value.code == "agent-no-python"
    assert caught.value.params["tried"].endswith(", /bin/false, /no/python3")
    assert not (box.home / ".cloudrun").exists()


def test_a_home_that_takes_no_writes_leaves_tmpdir(tmp_path: Path, dial: Dialler) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    box = SshBox(tmp_path / "box", env={"HOME": "/proc", "TMPDIR": str(temporary)}).start()
    try:
        first = dial(box)
        hello = ask(first).hello
        assert hello.home_read_only
        ours = temporary / f"cloudrun-{os.getuid()}"
        assert hello.agent_dir == str(ours / "agent" / hello.agent)
        assert stat.S_IMODE(ours.stat().st_mode) == 0o700
        second = dial(box)
        ask(second)
        assert used(second) == (1, 1, 0)
        # A stranger's folder of that name is not believed, and neither is a link to somewhere.
        elsewhere = tmp_path / "elsewhere"
        ours.rename(elsewhere)
        ours.symlink_to(elsewhere)
        with pytest.raises(CloudrunError) as caught:
            ask(dial(box))
        assert caught.value.code == "agent-no-folder"
    finally:
        box.stop()


def test_a_login_that_ends_in_words_instead_shows_them(box: SshBox, dial: Dialler) -> None:
    (box.home / ".bashrc").write_text("echo; echo 'This account is not available.'; echo 'bad luck' >&2; exit 1\n")
    with pytest.raises(CloudrunError) as caught:
        ask(dial(box))
    assert caught.value.code == "shell-ended"
    assert caught.value.params["said"] == "This account is not available."
    assert caught.value.params["stderr"] == "bad luck"


def test_a_connection_that_ends_before_the_answer_leaves_the_outcome_unknown(box: SshBox, dial: Dialler) -> None:
    client = ask(dial(box))
    box.drop_connections()
    with pytest.raises(CloudrunError) as caught:
        client.call("stop", {"data_dir": str(box.data), "name": "exp", "grace_s": 1})
    assert caught.value.code == "outcome-unknown"
