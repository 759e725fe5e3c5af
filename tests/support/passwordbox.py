"""A box that hands out a password, as the providers' do: sshd with accounts of its own, laid over this machine's for it alone."""

from __future__ import annotations

import getpass
from pathlib import Path

from tests.support.sshd import SshBox

PASSWORD = "hunter2 训练"
#: crypt(PASSWORD), with few rounds: the suite waits for each.
_HASH = "$6$rounds=1000$KuIKXgLFgSmy5XN7$ijmk3dYBaTKiDvzaVXQEni4OWD43N2dlRCTItXBXEJr55G.P/Ea7XGeKhkR2QXEcrlc61neL2gs0xx2HrZp5C0"


def password_box(folder: Path, *, settings: str = "", shell: str | None = None, mounts: str = "") -> SshBox:
    """Its sshd reads ~/.ssh/authorized_keys of the box's home. `shell`: the login shell. Root only: it needs mounts."""
    folder.mkdir(parents=True)
    user = getpass.getuser()
    _account(folder / "shadow", Path("/etc/shadow"), user, 1, _HASH)
    _account(folder / "passwd", Path("/etc/passwd"), user, 6, shell)
    laid = f"mount --bind {folder}/shadow /etc/shadow\nmount --bind {folder}/passwd /etc/passwd\n"
    home = folder / "home"
    return SshBox(
        folder, mounts=laid + mounts,
        settings=f"{settings}\nPasswordAuthentication yes\nAuthorizedKeysFile {home}/.ssh/authorized_keys",
    )


def _account(file: Path, original: Path, user: str, field: int, value: str | None) -> None:
    """A copy of an account file with one field of that user changed."""
    lines = []
    for line in original.read_text().splitlines():
        fields = line.split(":")
        if fields[0] == user and value is not None:
            fields[field] = value
        lines.append(":".join(fields) + "\n")
    file.write_text("".join(lines))
    file.chmod(original.stat().st_mode & 0o777)
