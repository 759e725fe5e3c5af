"""Unpacks the agent that was just sent, once, and goes on as it. Runs from the sent zip itself, after its hash was checked."""

from __future__ import annotations

import compileall
import errno
import fcntl
import os
import shutil
import sys
import time
import zipfile
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List

from remote_agent import atomic, entry, layout, protocol

LOCK_DEADLINE_S = 60.0
#: Leftovers of a transfer that broke are swept away when they are this old.
STALE_AFTER_S = 3600.0
_OURS = (".part-", ".unpack-", ".broken-")


@dataclass(frozen=True)
class Order:
    """What the laptop asked for. `configured`: the host's Python as its settings name it, or ''."""

    part: str
    agent: str
    configured: str
    mode: str
    nonce: str
    rest: List[str]

    @property
    def root(self) -> str:
        return os.path.dirname(self.part)

    @property
    def folder(self) -> str:
        return os.path.join(self.root, self.agent)


def main(arguments: List[str]) -> int:
    """`PART AGENT CONFIGURED MODE NONCE …`: unpacks PART into the folder AGENT beside it, and becomes that agent."""
    order = Order(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5:])
    try:
        install(order)
    except (OSError, zipfile.BadZipFile) as error:
        _answer(order.nonce, failed=str(error), full=getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT))
        return 0
    finally:
        _remove(order.part)
    command = [sys.executable, "-I", "-S", order.folder, order.mode, "--nonce", order.nonce, "--agent", order.agent]
    os.execv(sys.executable, command + order.rest)
    return 0


def install(order: Order) -> None:
    """The folder is there afterwards, whole. Where another laptop was faster, its folder is. Raises OSError."""
    layout.private_folder(os.path.dirname(order.root))
    layout.private_folder(order.root)
    lock = os.open(os.path.join(order.root, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(lock)
        if not is_whole(order.folder):
            _replace(order)
        record_python(order.folder, order.configured)
        _sweep(order.root)
    finally:
        os.close(lock)


def is_whole(folder: str) -> bool:
    return os.path.isdir(folder) and not entry.damage_in(folder)


def record_python(folder: str, configured: str) -> None:
    """Two lines: the interpreter that was found, and what the settings named when it was."""
    text = "%s\n%s\n" % (sys.executable, configured)
    atomic.write_bytes(os.path.join(folder, "python"), text.encode("utf-8", "surrogateescape"), 0o600)


def _replace(order: Order) -> None:
    """Unpacks beside and renames: a folder that is half there never has the agent's name."""
    fresh = os.path.join(order.root, ".unpack-%s" % order.nonce)
    broken = os.path.join(order.root, ".broken-%s" % order.nonce)
    try:
        os.mkdir(fresh, 0o700)
        with zipfile.ZipFile(order.part) as archive:
            archive.extractall(fresh)
        # Later starts read compiled files. libtmux compiles itself where it is imported, which is seldom.
        compileall.compile_dir(os.path.join(fresh, "remote_agent"), quiet=2,
                               ddir=os.path.join(order.folder, "remote_agent"))
        _sync_tree(fresh)
        if os.path.lexists(order.folder):
            os.rename(order.folder, broken)
        os.rename(fresh, order.folder)
        atomic.sync_folder(order.root)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(broken, ignore_errors=True)


def _sync_tree(folder: str) -> None:
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), "rb") as stream:
                os.fsync(stream.fileno())
        atomic.sync_folder(path)


def _take(lock: int) -> None:
    """Waits for another laptop's unpacking. A home without locks goes on: the rename decides there."""
    deadline = time.monotonic() + LOCK_DEADLINE_S
    while True:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                return
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _sweep(root: str) -> None:
    """Removes what broken transfers left. Agents stay: runs that are alive started from them."""
    for name in _stale(root):
        path = os.path.join(root, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            _remove(path)


def _stale(root: str) -> Iterator[str]:
    for name in os.listdir(root):
        try:
            old = time.time() - os.lstat(os.path.join(root, name)).st_mtime > STALE_AFTER_S
        except OSError:
            continue
        if old and name.startswith(_OURS):
            yield name


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _answer(nonce: str, **fields: Any) -> None:
    words: Dict[str, Any] = dict(fields)
    out = protocol.wire_streams()[1]
    out.write(protocol.hello_line(nonce, words))
    out.flush()
