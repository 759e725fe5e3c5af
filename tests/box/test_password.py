"""A box that hands out a password: asked once, a key put there, proven, and the password forgotten."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloudrun.config import paths
from cloudrun.errors import Exit
from cloudrun.transport import ownkey
from tests.box.test_host_commands import on_a_terminal
from tests.support.cli import Done, Laptop
from tests.support.passwordbox import PASSWORD, password_box
from tests.support.sshd import SshBox, program


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[SshBox]:
    box = password_box(tmp_path / "box").start()
    yield box
    box.stop()


def keys_of(box: SshBox) -> Path:
    return box.home / ".ssh" / "authorized_keys"


def add(cloudrun: Laptop, box: SshBox, *more: str, code: int = 0, password: str = PASSWORD) -> Done:
    words = ("host", "add", box.folder.name, box.login, "--accept-new", "--password-stdin", "--data-dir", str(box.data), *more)
    return cloudrun.run(*words, code=code, stdin=password + "\n")


def everything_under(*folders: Path) -> bytes:
    return b"".join(file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file())


def test_the_password_is_used_once_and_a_key_of_our_own_opens_the_box_from_then_on(guarded: SshBox, cloudrun: Laptop) -> None:
    done = add(cloudrun, guarded)
    assert "It answers" in done.err
    assert "One line was added" in done.err
    own = paths.own_key_file()
    assert (own.stat().st_mode & 0o777, own.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    line = ownkey.public_file(own).read_text()
    assert keys_of(guarded).read_text() == line
    assert (keys_of(guarded).stat().st_mode & 0o777, keys_of(guarded).parent.stat().st_mode & 0o777) == (0o600, 0o700)
    shown = subprocess.run([program("ssh-keygen"), "-y", "-f", str(own)], capture_output=True, text=True, check=True).stdout
    assert line.startswith(shown.strip())
    assert line.startswith("ssh-ed25519 ")
    cloudrun.json("ps")  # no password, no terminal: by the key
    kept = everything_under(paths.config_dir(), guarded.home, guarded.data) + (done.out + done.err).encode()
    assert PASSWORD.encode() not in kept


def test_the_terminal_asks_once_and_does_not_show_it(guarded: SshBox, laptop: Path) -> None:
    words = ["host", "add", "box", guarded.login]
    screen, code = on_a_terminal(laptop, words, [("[y/N]", "yes"), ("password of", PASSWORD)])
    assert code == 0, screen
    assert screen.count("password of") == 1
    assert "hunter2" not in screen
    assert "One line was added" in screen


def test_what_was_in_the_file_stays_and_no_line_comes_twice(guarded: SshBox, cloudrun: Laptop) -> None:
    elsewhere = guarded.home / "keys"
    elsewhere.write_text("# mine\nssh-ed25519 AAAA somebody@else")  # no newline at its end
    elsewhere.chmod(0o640)
    keys_of(guarded).parent.mkdir(mode=0o755)
    keys_of(guarded).symlink_to(elsewhere)
    add(cloudrun, guarded)
    before, ours = elsewhere.read_text().rsplit("\n", 2)[:2]
    assert before == "# mine\nssh-ed25519 AAAA somebody@else"
    assert ours + "\n" == ownkey.public_file(paths.own_key_file()).read_text()
    assert keys_of(guarded).is_symlink()
    assert (elsewhere.stat().st_mode & 0o777, elsewhere.parent.joinpath(".ssh").stat().st_mode & 0o777) == (0o640, 0o755)
    text = elsewhere.read_text()
    key = paths.own_key_file().read_bytes()
    assert "It answers" in cloudrun.run("host", "add", "other", guarded.login, "--accept-new").err  # our key is found by itself
    assert (elsewhere.read_text(), paths.own_key_file().read_bytes()) == (text, key)


def test_a_wrong_password_leaves_nothing_on_the_box(guarded: SshBox, cloudrun: Laptop) -> None:
    done = add(cloudrun, guarded, password="wrong", code=Exit.AUTHENTICATION)
    assert "does not take that password" in done.err
    assert 'switched off and on' in done.err
    assert 'cloudrun host set box "ssh -p PORT USER@HOST"' in done.err
    assert not keys_of(guarded).parent.exists()
    assert not paths.own_key_file().exists()
    assert "no password came" in add(cloudrun, guarded, password="", code=Exit.USAGE).err
    wanted = cloudrun.run("host", "add", "box", guarded.login, "--accept-new", code=Exit.AUTHENTICATION)  # nobody to ask
    assert "--password-stdin" in wanted.err


def test_a_new_port_and_password_take_one_command_and_keep_the_rest(guarded: SshBox, cloudrun: Laptop) -> None:
    cloudrun.run("host", "add", "box", "ssh -p 9 root@127.0.0.1", "--no-connect", "--backend", "tmux", "--data-dir", "/d")
    words = ("host", "set", "box", guarded.login, "--password-stdin", "--accept-new")
    answer = cloudrun.json(*words[:-2], "--accept-new", "--no-connect")
    assert answer["reached"] is None
    done = cloudrun.run(*words, stdin=PASSWORD)
    assert "It answers" in done.err
    host = cloudrun.json("host", "ls")["hosts"][0]
    assert (host["target"], host["backend"], host["data_dir"]) == (guarded.login, "tmux", "/d")
    assert host["key"] == str(paths.own_key_file())


def test_the_same_box_at_a_new_port_needs_no_new_trust(guarded: SshBox, cloudrun: Laptop, tmp_path: Path) -> None:
    """The host key proves that it is the same box; another key there is shown and asked as at any first contact."""
    add(cloudrun, guarded)
    moved = password_box(tmp_path / "moved", settings=f"HostKey {guarded.host_key}")
    moved.start()
    try:
        cloudrun.run("host", "set", "box", moved.login, "--password-stdin", stdin=PASSWORD)
        cloudrun.run("ps")
    finally:
        moved.stop()


@pytest.mark.parametrize(("shell", "start_up", "text"), [
    ("tcsh", ".tcshrc", "setenv PATH /opt/conda/bin\n"), ("fish", ".config/fish/config.fish", "echo glued {\n"),
])
def test_any_login_shell(tmp_path: Path, cloudrun: Laptop, shell: str, start_up: str, text: str) -> None:
    box = password_box(tmp_path / "odd", shell=program(shell))
    (box.home / start_up).parent.mkdir(parents=True, exist_ok=True)
    (box.home / start_up).write_text(text)
    box.start()
    try:
        add(cloudrun, box)
        assert keys_of(box).read_text() == ownkey.public_file(paths.own_key_file()).read_text()
    finally:
        box.stop()


def test_a_box_that_takes_no_keys_is_said(tmp_path: Path, cloudrun: Laptop) -> None:
    box = password_box(tmp_path / "nokeys", settings="PubkeyAuthentication no").start()
    try:
        done = add(cloudrun, box, code=Exit.AUTHENTICATION)
        assert "takes no keys" in done.err
        assert "PubkeyAuthentication yes" in done.err
    finally:
        box.stop()


def test_a_file_that_others_may_write_and_a_file_elsewhere_are_said(tmp_path: Path, cloudrun: Laptop) -> None:
    box = password_box(tmp_path / "strict", settings="StrictModes yes").start()
    try:
        box.home.chmod(0o777)
        assert "chmod go-w" in add(cloudrun, box, code=Exit.AUTHENTICATION).err
    finally:
        box.stop()
    box = password_box(tmp_path / "elsewhere", settings="AuthorizedKeysFile /etc/ssh/keys/%u").start()
    try:
        assert "authorizedkeys" in add(cloudrun, box, code=Exit.AUTHENTICATION).err
    finally:
        box.stop()


def test_a_full_or_read_only_home_is_said_and_the_file_is_as_it_was(tmp_path: Path, cloudrun: Laptop) -> None:
    home = tmp_path / "small" / "home"
    full = f"mount -t tmpfs -o size=4k tmpfs {home}\nmkdir {home}/.ssh\n" \
           f"head -c 4090 /dev/zero | tr '\\0' '#' >{home}/.ssh/authorized_keys\n"
    box = password_box(tmp_path / "small", mounts=full).start()
    try:
        done = add(cloudrun, box, code=Exit.BOX)
        assert "No space left" in done.err, done.err
        seen = subprocess.run(["wc", "-c", f"/proc/{box.process.pid}/root{home}/.ssh/authorized_keys"],  # type: ignore[union-attr]
                              capture_output=True, text=True, check=True).stdout
        assert seen.split()[0] == "4090"
    finally:
        box.stop()
    home = tmp_path / "fixed" / "home"
    box = password_box(tmp_path / "fixed", mounts=f"mount --bind {home} {home}\nmount -o remount,ro,bind {home}\n").start()
    try:
        assert "Read-only file system" in add(cloudrun, box, code=Exit.BOX).err
    finally:
        box.stop()
