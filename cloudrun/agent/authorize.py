"""One line for the box's `authorized_keys`: added by fixed words, the key on their stdin, nothing else touched."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

from cloudrun.agent.bootstrap import shell_line
from cloudrun.errors import CloudrunError
from cloudrun.i18n import _
from cloudrun.transport.base import Channel, Transport

ANSWER_TIMEOUT_S = 30.0
#: A shell's greeting may come before the answer; more than this is no greeting.
MOST_BYTES = 4 << 20

# n: a word that marks our answer among what the shell says. The old file is only ever added to: one write at its end, on a
# line of its own. What a full disk left of that write is taken back, so that the next line of somebody else is not glued to it.
_ADD = "; ".join((
    'n=$1', 'PATH=$PATH:/usr/bin:/bin', 'umask 077', 'f=.ssh/authorized_keys',
    'say() { printf "\\n%s %s\\n" "$n" "$*"; exit 0; }',
    'modes() { ls -ldnL . .ssh "$f" 2>/dev/null | while read -r m r; do printf "%s " "$m"; done; }',
    'IFS= read -r line || say unread',
    'blob=${line#* }', 'blob=${blob%% *}',
    'cd "${HOME:-/nonexistent}" 2>/dev/null || say no-home "${HOME:-}"',
    'if [ -f "$f" ] && grep -v "^[[:space:]]*#" "$f" | grep -qF -e "$blob"; then say present $(modes); fi',
    'if [ -d .ssh ]; then :; else e=$(mkdir .ssh 2>&1) || say unwritable "$PWD/.ssh" "$e"; fi',
    'size=0', 'nl=',
    'if [ -s "$f" ]; then size=$(($(wc -c <"$f"))) || say unreadable "$PWD/$f"; '
    'if [ -n "$(tail -c 1 "$f")" ]; then nl="\\n"; fi; fi',
    'if e=$( { printf "$nl%s\\n" "$line" | cat >>"$f"; } 2>&1); then if grep -qxF -e "$line" "$f"; then say added $(modes); fi; '
    'elif [ -f "$f" ]; then truncate -s "$size" "$f" 2>/dev/null; fi',
    'say unwritable "$PWD/$f" "$e"',
))


@dataclass(frozen=True)
class Installed:
    """`added`: whether the line is new. `modes`: of the home, its .ssh and the file, as `ls -l` shows them."""

    added: bool
    modes: tuple[str, ...]

    @property
    def open_to_others(self) -> bool:
        """Whether others may write on the way to the file: a strict sshd then leaves it unread."""
        return any("w" in (mode[5:6], mode[8:9]) for mode in self.modes)


def install(transport: Transport, line: str) -> Installed:
    """Adds the line to the box's `authorized_keys` unless its key is there. Raises CloudrunError, the file as it was."""
    nonce = "CLOUDRUN-KEY-" + secrets.token_hex(8)
    channel = transport.exec(shell_line(["/bin/sh", "-c", _ADD, "cloudrun", nonce]))
    try:
        channel.send(line.encode() + b"\n")
        channel.send_eof()
        answer = _answer(channel, f"{nonce} ")
        silent = channel.stderr_tail().decode("utf-8", "replace").strip() or _("its shell gives no answer")
    except (TimeoutError, BrokenPipeError) as error:
        raise CloudrunError("key-not-installed", host=transport.address.shown, detail=str(error)) from error
    finally:
        channel.close()
    word, _space, rest = answer.partition(" ")
    if word in ("added", "present"):
        return Installed(word == "added", tuple(rest.split()))
    details = {
        "no-home": _("the home {rest} is not there").format(rest=rest), "unwritable": rest,
        "unreadable": _("{rest} cannot be read").format(rest=rest), "unread": _("the login shell hands on no input"),
    }
    raise CloudrunError("key-not-installed", host=transport.address.shown, detail=details.get(word, silent[-300:]))


def _answer(channel: Channel, mark: str) -> str:
    """What stands behind the mark; "" where it never came."""
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    said = b""
    while len(said) < MOST_BYTES:
        data = channel.receive(timeout_s=max(0.1, deadline - time.monotonic()))
        said += data
        _before, found, after = said.partition(mark.encode())
        if found and (b"\n" in after or not data):
            return after.split(b"\n")[0].decode("utf-8", "replace").strip()
        if not data:
            break
    return ""
