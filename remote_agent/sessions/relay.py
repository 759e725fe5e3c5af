"""A terminal of our own between the user's and the multiplexer.

After `su`, or in some containers, the terminal that a login sits on cannot be opened by its name, and screen says
"Cannot open your terminal". The relay makes a terminal that can be, and carries bytes and sizes both ways.
"""

from __future__ import annotations

import fcntl
import os
import pty
import selectors
import signal
import termios
import tty
from typing import Any, Dict, List, Optional

_CHUNK_BYTES = 65536


def needed(fd: int) -> bool:
    """Whether the terminal on this descriptor cannot be opened by its name."""
    try:
        os.close(os.open(os.ttyname(fd), os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return True
    return False


def run(argv: List[str], env: Dict[str, str]) -> int:
    """Runs the program on a terminal of its own, shown on ours, until it ends. Gives its exit code."""
    pid, master = pty.fork()
    if pid == 0:
        _become(argv, env)
    os.set_blocking(master, False)
    _copy_size(master)
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)
    signal.set_wakeup_fd(wake_writer)
    signal.signal(signal.SIGWINCH, lambda number, frame: None)
    before = _raw(0)
    try:
        _carry(master, wake_reader)
    finally:
        if before is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        os.close(master)
    status = os.waitpid(pid, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _become(argv: List[str], env: Dict[str, str]) -> None:
    """The child's life: it has the new terminal already. Never returns."""
    try:
        os.execve(argv[0], argv, env)
    except OSError as error:
        os.write(2, ("%s: %s\r\n" % (argv[0], error.strerror)).encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _carry(master: int, wake_reader: int) -> None:
    """Bytes both ways until the program's side ends; keys that it does not take yet wait here, the keyboard with them."""
    keys = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(wake_reader, selectors.EVENT_READ)
        selector.register(master, selectors.EVENT_READ)
        while True:
            selector.modify(master, selectors.EVENT_READ | (selectors.EVENT_WRITE if keys else 0))
            for key, events in selector.select():
                if key.fd == wake_reader:
                    os.read(wake_reader, 512)
                    _copy_size(master)
                elif key.fd == 0 and not keys:
                    typed = _read(0)
                    if not typed:
                        return
                    keys += typed
                elif key.fd == master and not _serve_program(master, events, keys):
                    return


def _serve_program(master: int, events: int, keys: bytearray) -> bool:
    """One turn of the program's side; False when it has ended."""
    if events & selectors.EVENT_WRITE and keys:
        try:
            del keys[:os.write(master, keys)]
        except BlockingIOError:
            pass
        except OSError:
            return False
    if events & selectors.EVENT_READ:
        shown = _read(master)
        if shown == b"":
            return False
        while shown:
            shown = shown[os.write(1, shown):]
    return True


def _read(fd: int) -> Optional[bytes]:
    """What there is; b"" at the end; None where there is nothing after all."""
    try:
        return os.read(fd, _CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:  # EIO: the other side of a terminal is gone
        return b""


def _copy_size(master: int) -> None:
    try:
        size = fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(master, termios.TIOCSWINSZ, size)
    except OSError:
        pass


def _raw(fd: int) -> Optional[List[Any]]:
    try:
        before = termios.tcgetattr(fd)
        tty.setraw(fd)
    except termios.error:
        return None
    return before
