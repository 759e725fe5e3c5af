"""What sessions stand on, looked at on a box where it is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from remote_agent.checks import sessions, terminals
from remote_agent.checks.probe import Asked
from remote_agent.sessions import terminal
from tests.support.namespace import in_mount_namespace
from tests.support.programs import fake_program

TELL = """
from remote_agent.checks import terminals
from remote_agent.checks.probe import Asked
(line,) = terminals.%s(Asked())
print(line.status, line.found, line.hint, line.params)
"""


@pytest.mark.parametrize("shell", [
    "mount -t tmpfs t /dev/pts", "while umount -l /dev/pts 2>/dev/null; do :; done", "mount -t tmpfs t /dev",
    # Made in one place and looked for in another.
    "mount -t devpts -o ptmxmode=666 t /mnt && mount --bind /mnt/ptmx /dev/ptmx && mount -t tmpfs t /dev/pts",
])
def test_without_dev_pts_no_terminal_can_be_opened(tmp_path: Path, shell: str) -> None:
    said = in_mount_namespace(tmp_path, shell, TELL % "check_pty", "/usr/bin/python3")
    assert said.startswith("failure pty-refused pty-refused")
    assert "/dev/" in said


def test_a_terminal_is_really_opened(tmp_path: Path) -> None:
    (line,) = terminals.check_pty(Asked())
    assert (line.status, line.params["path"][:9]) == ("ok", "/dev/pts/")


def test_a_home_that_holds_no_socket_gives_way_to_a_private_folder(tmp_path: Path) -> None:
    shell = "mkdir ro && mount --bind ro ro && mount -o remount,ro,bind ro && mount -t tmpfs t /var && mkdir -m 1777 /var/tmp\n"
    script = "os.environ['HOME'] = os.path.abspath('%s')\n" + TELL % "check_sockets"
    short = tmp_path / "h"
    short.mkdir()
    in_home = in_mount_namespace(tmp_path, f"mount --bind {short} /mnt\n", script.replace("os.path.abspath('%s')", "'/mnt'"),
                                 "/usr/bin/python3")
    assert in_home.startswith("ok sockets None {'path': '/mnt/.cloudrun/")
    assert oct((short / ".cloudrun").stat().st_mode)[-3:] == "700"
    elsewhere = in_mount_namespace(tmp_path, f"mount -t tmpfs t /tmp && mkdir -p {tmp_path} && cd {tmp_path} && " + shell,
                                   script % "ro", "/usr/bin/python3")
    assert elsewhere.startswith("ok sockets-elsewhere None {'path': '/tmp/cloudrun-")
    nowhere = in_mount_namespace(tmp_path, "mount -t tmpfs t /mnt && mount -o remount,ro /mnt\n"
                                 "for shared in /tmp /var/tmp /dev/shm; do mount --bind /mnt $shared; done\n",
                                 script.replace("os.path.abspath('%s')", "'/mnt'"), "/usr/bin/python3")
    assert nowhere.startswith("failure sockets-refused sockets-refused")


def test_the_locale_that_a_run_gets_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert [(line.status, line.found) for line in terminals.check_locale(Asked())] == [("ok", "locale")]
    monkeypatch.delenv("LC_ALL")
    monkeypatch.delenv("LANG", raising=False)
    (line,) = terminals.check_locale(Asked())
    assert (line.status, line.found, line.params) == ("ok", "locale-set", {"locale": "C.UTF-8", "own": ""})
    # A locale that is listed and is none: the shell counts bytes.
    monkeypatch.setattr(terminal, "utf8_locale", lambda: "C")
    assert [(line.status, line.found) for line in terminals.check_locale(Asked())] == [("warning", "locale-wrong")]
    monkeypatch.setattr(terminal, "utf8_locale", lambda: None)
    (line,) = terminals.check_locale(Asked())
    assert (line.status, line.found, line.hint) == ("warning", "locale-none", "locale-none")


def test_a_session_program_that_does_not_run_is_told_from_one_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_program(tmp_path, "screen", "echo 'screen: error while loading shared libraries: libtinfo.so.5' >&2; exit 127\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (line,) = sessions.check(Asked())
    assert (line.status, line.found, line.hint) == ("warning", "sessions-broken", "sessions-broken")
    assert line.params["broken"] == "screen"
    assert line.params["programs"].startswith("tmux 3")
    assert sessions.judge({"screen": None, "tmux": None}, ["tmux"]).found == "sessions-all-broken"
    assert subprocess.run([tmp_path / "screen"], check=False, capture_output=True).returncode == 127
