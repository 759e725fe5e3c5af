"""`cloudrun host add` as a user meets it: questions on a real terminal, and boxes that do not let us in."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cloudrun.cli.main import run
from cloudrun.errors import Exit
from cloudrun.transport import connect
from cloudrun.transport.base import Address, TerminalSize
from tests.box.test_auth import authorize, make_key
from tests.support.connecting import options
from tests.support.sshd import SshBox, free_port


def on_a_terminal(laptop: Path, words: list[str], answers: list[tuple[str, str]]) -> tuple[str, int | None]:
    """Runs the command on a terminal of its own and types each answer at its question. Gives the screen and the exit code."""
    command = f"cd {shlex.quote(str(Path(__file__).parents[2]))} && exec {shlex.join([sys.executable, '-m', 'cloudrun', *words])}"
    terminal = connect(Address("local"), options(laptop))
    try:
        channel = terminal.exec(command, TerminalSize(200, 40))
        screen = ""
        for question, answer in answers:
            while question not in screen:
                screen += channel.receive(timeout_s=20).decode()
            channel.send(answer.encode() + b"\n")
        while data := channel.receive(timeout_s=20):
            screen += data.decode()
        return screen, channel.exit_status(10)
    finally:
        terminal.close()


def test_the_first_contact_on_a_terminal(box: SshBox, laptop: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path / "locked", "-t", "ed25519", passphrase="open sesame")
    authorize(box, key)
    add = ["host", "add", "box", box.login, "--key", str(key)]
    screen, code = on_a_terminal(laptop, add, [("[y/N]", "no")])
    assert code == Exit.HOST_KEY_UNKNOWN
    shown = subprocess.run(["ssh-keygen", "-lf", str(box.host_key)], capture_output=True, text=True, check=True).stdout
    assert shown.split()[1] in screen
    assert "It is stored" in screen
    screen, code = on_a_terminal(laptop, add, [("[y/N]", "yes"), ("passphrase", "open sesame")])
    assert code == 0
    assert "It answers" in screen
    assert "sesame" not in screen  # typed, not shown


@pytest.mark.parametrize("json_wanted", [True, False])
def test_a_box_that_is_off_is_stored_all_the_same_and_that_is_said(
    laptop: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], json_wanted: bool
) -> None:
    monkeypatch.setattr("cloudrun.cli.hosts.TRY_TIMEOUT_S", 0.5)
    port = free_port()
    code = run(["host", "add", "box", f"ssh -p {port} root@127.0.0.1", *(["--json"] if json_wanted else [])])
    out, err = capfd.readouterr()
    assert code == 0
    if json_wanted:
        answer = json.loads(out)
        assert (answer["reached"], answer["problem"]["code"]) == (False, "unreachable")
    else:
        assert out == ""
        assert "stored" in err
        assert str(port) in err
    assert run(["host", "ls", "--json"]) == 0
    assert [host["name"] for host in json.loads(capfd.readouterr().out)["hosts"]] == ["box"]


def test_a_box_that_refuses_the_login_is_stored_with_what_to_do(
    box: SshBox, laptop: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    key = make_key(tmp_path / "stranger", "-t", "ed25519")
    assert run(["host", "add", "box", box.login, "--key", str(key), "--accept-new"]) == 0
    err = capfd.readouterr().err
    assert str(key) in err
    assert "host set box --key" in err


def test_help_needs_no_ssh() -> None:
    code = "import sys, cloudrun.cli.main as m; m.run(['host', 'add', '--help']); sys.exit('paramiko' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0
    assert "TARGET" in done.stdout
