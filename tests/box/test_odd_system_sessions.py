"""Boxes where screen and tmux cannot make their own socket folders: real mounts, a real sshd, another user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Laptop
from tests.support.namespace import ROOT, in_mount_namespace
from tests.support.oddbox import look_in
from tests.support.sshd import SshBox
from tests.support.waiting import wait_for

#: /run is read-only and has no screen folder; /tmp is read-only too, but for the folder that this test itself stands in.
READ_ONLY = """\
mount -t tmpfs t /run && mkdir /run/sshd && mount -o remount,ro /run
mount --bind {folder} /mnt && mount -t tmpfs t /tmp && mkdir -p {folder} && mount --bind /mnt {folder} && umount /mnt
mkdir -m 777 /tmp/tmux-0 && mount -o remount,ro /tmp
mount -t tmpfs t /var/tmp && chmod 1777 /var/tmp
"""


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[SshBox]:
    """A home too deep for a socket's path, nothing to write in under /run and /tmp, and a user's settings that are no help."""
    folder = tmp_path / ("deep" * 15)
    folder.mkdir()
    box = SshBox(folder, mounts=READ_ONLY.format(folder=folder),
                 env={"SCREENDIR": "/run/screen/S-root", "TMUX_TMPDIR": "/nowhere"}).start()
    yield box
    box.stop()


def test_run_and_tmp_that_take_nothing(odd: SshBox, cloudrun: Laptop) -> None:
    """Started, listed, attached and stopped through the same private folder; nothing of it is left afterwards."""
    cloudrun.know(odd)
    assert odd.process is not None
    places = Path(f"/proc/{odd.process.pid}/root/var/tmp")
    for backend in ("screen", "tmux"):
        run = f"exp_{backend}"
        cloudrun.run("launch", run, "--backend", backend, "--", "bash", "-c", "echo ready; sleep 300")
        assert cloudrun.state(run)["state"] == "running"
        assert [oct(path.stat().st_mode)[-3:] for path in places.glob(f"cloudrun-*/{backend}")] == ["700"]
        if backend == "screen":
            look_in(cloudrun, run, shows="ready", leaves=b"\x01d")
        cloudrun.run("stop", run, "--grace", "2")
        wait_for(lambda: not list(places.iterdir()), what="no litter")


AS_NOBODY = """
import subprocess
from remote_agent.protocol import AgentError
from remote_agent.sessions import Plan, backend, places
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(subprocess.run(["screen", "-dmS", "x", "sleep", "5"], capture_output=True, text=True).stdout.strip())
stay = ["sleep", "600"]
for name in ("screen", "tmux"):
    plan = Plan("train1", stay, stay, stay, "/", {{}}, "{root}/templates/screenrc", "{root}/templates/tmux.conf")
    multiplexer = backend(name)
    try:
        multiplexer.start(plan, 10)
        folder = places.existing(name)[-1]
        attach, _ = multiplexer.attach_argv("train1", "plain", "xterm")
        multiplexer.end("train1")
        print(folder, attach[0], *places.existing(name))
    except AgentError as error:
        print(error.code, error.params["reason"])
"""
NOBODY = "chmod 755 {base} && mkdir {base}/home && chown 65534 {base}/home && export HOME={base}/home\nmount -t tmpfs t /run\n"


@pytest.mark.parametrize(("run", "said"), [
    ("chmod 755 /run", "Cannot make directory '/run/screen': Permission denied"),
    ("mkdir -m 755 /run/screen", "Directory '/run/screen' must have mode 777."),
])
def test_a_user_whom_screen_gives_no_folder(tmp_path: Path, run: str, said: str) -> None:
    """The field's own case: screen alone fails, and ours have a folder in the home that only this user enters."""
    short = _short(tmp_path)
    try:
        told = in_mount_namespace(short, NOBODY.format(base=short) + run, AS_NOBODY.format(root=ROOT), "/usr/bin/python3")
        assert told.splitlines() == [
            said, f"{short}/home/.cloudrun/screen /usr/bin/screen {short}/home/.cloudrun/screen",
            f"{short}/home/.cloudrun/tmux /usr/bin/tmux {short}/home/.cloudrun/tmux",
        ]
    finally:
        subprocess.run(["rm", "-rf", str(short)], check=True)


def test_a_home_on_a_disk_without_sockets_and_no_place_at_all(tmp_path: Path) -> None:
    """A control group's file system has folders with modes and no sockets. Then nowhere else takes one either: each is named."""
    short = _short(tmp_path)
    group = Path("/sys/fs/cgroup/freezer") / f"cloudrun-{os.getpid()}"
    folders = [group, group / "screen", group / "tmux"]
    for folder in folders:
        folder.mkdir(mode=0o700)
        os.chown(folder, 65534, 65534)
    disk = f"mkdir {short}/home/.cloudrun && mount --bind {group} {short}/home/.cloudrun\n"
    nowhere = "mkdir /run/ro && mount --bind /run/ro /run/ro && mount -o remount,ro,bind /run/ro\n" + "".join(
        f"mount --bind /run/ro {shared}\n" for shared in ("/var/tmp", "/dev/shm"))
    others = f"mkdir -m 755 /tmp/cloudrun-65534-$(printf %s {short}/home | sha256sum | cut -c1-8)\n"
    try:
        elsewhere, refused = (
            in_mount_namespace(short, f"rm -rf {short}/home\n" + _own_tmp(short) + NOBODY.format(base=short) + disk + more,
                               AS_NOBODY.format(root=ROOT), "/usr/bin/python3").splitlines()
            for more in ("", others + nowhere))
        assert elsewhere[1].startswith("/tmp/cloudrun-65534-")
        assert elsewhere[1].endswith("/usr/bin/screen " + f"{short}/home/.cloudrun/screen")
        assert refused[1].startswith("session-folder-refused ")
        for reason in (f"{short}/home/.cloudrun/screen: Operation not permitted", "/tmp/cloudrun-65534-",
                       "is not a folder of our own", "/var/tmp/cloudrun-65534-", "Read-only file system"):
            assert reason in refused[1]
    finally:
        for folder in reversed(folders):
            folder.rmdir()
        subprocess.run(["rm", "-rf", str(short)], check=True)


def _own_tmp(folder: Path) -> str:
    """A /tmp of the namespace's own, with the test's folder in it."""
    return f"mount --bind {folder} /mnt && mount -t tmpfs t /tmp && mkdir -p {folder} && mount --bind /mnt {folder}\n"


def _short(tmp_path: Path) -> Path:
    """A folder of this test's whose name leaves room for a socket's."""
    folder = Path(f"/tmp/cr{os.getpid()}{abs(hash(tmp_path)) % 1000}")
    folder.mkdir()
    return folder
