"""Writing one file on the box, whole or not at all: temporary name, size checked, then a rename over the old one."""

from __future__ import annotations

import contextlib
import secrets
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

import paramiko

from cloudrun.i18n import _

#: A server that has not said its version by then is taken for a broken one: there is another way.
VERSION_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 30.0
FINISH_TIMEOUT_S = 120.0
BLOCK_BYTES = 32 * 1024
#: What a missing, broken or refusing SFTP looks like.
BROKEN = (paramiko.SFTPError, paramiko.SSHException, EOFError, OSError)
#: Arguments: temporary, path, mode, size, nonce. A cut connection ends `cat` as a finished one does, so the size decides.
#: The nonce is the word to begin: a login shell's start-up files may eat what is sent before, or leave PATH without `cat`.
_SCRIPT = (
    'echo "$5"; PATH=$PATH:/usr/bin:/bin; umask 077; '
    'if cat >"$1" && [ "$(wc -c <"$1")" -eq "$4" ] && chmod "$3" "$1" && mv -f "$1" "$2"; '
    'then exit 0; else rm -f "$1"; exit 1; fi'
)


@dataclass
class Upload:
    """A file on its way. `progress` is called with the bytes sent so far."""

    data: bytes = field(repr=False)
    path: str
    mode: int
    progress: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        self.temporary = f"{self.path}.part-{secrets.token_hex(6)}"
        self._nonce = secrets.token_hex(8)

    def feed(self, send: Callable[[bytes], object], block_bytes: int = BLOCK_BYTES) -> None:
        """Gives all of it to `send`, block by block."""
        for start in range(0, len(self.data), block_bytes):
            send(self.data[start : start + block_bytes])
            if self.progress is not None:
                self.progress(min(start + block_bytes, len(self.data)))

    def command(self) -> str:
        """A command line for any login shell that reads the file from stdin and puts it in its place."""
        words = ["/bin/sh", "-c", _SCRIPT, "sh", self.temporary, self.path, f"{self.mode:04o}", str(len(self.data)), self._nonce]
        return shlex.join(words)

    def wait_ready(self, receive: Callable[[], bytes]) -> None:
        """Reads until the command says that it reads now, or ends."""
        heard = b""
        while self._nonce.encode() not in heard:
            data = receive()
            if not data:
                return
            heard = heard[-64:] + data


def write(channel: paramiko.Channel, upload: Upload) -> None:
    """Over a channel on which the sftp subsystem runs. Raises one of `BROKEN`, the temporary removed where that can be helped."""
    channel.settimeout(VERSION_TIMEOUT_S)
    client = paramiko.SFTPClient(channel)
    channel.settimeout(ANSWER_TIMEOUT_S)
    try:
        with client.open(upload.temporary, "wx") as file:
            file.set_pipelined(True)
            file.chmod(upload.mode)
            upload.feed(file.write)
        found = client.stat(upload.temporary).st_size
        if found != len(upload.data):
            raise paramiko.SFTPError(_("{count} bytes arrived of {total}").format(count=found, total=len(upload.data)))
        client.posix_rename(upload.temporary, upload.path)
    except BaseException:
        with contextlib.suppress(*BROKEN):
            client.remove(upload.temporary)
        raise
    finally:
        client.close()
