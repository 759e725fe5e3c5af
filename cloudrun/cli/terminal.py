"""The user's own terminal, behind one small module: raw mode, size, and giving it back as it was, whatever happens.

Nothing here is POSIX-only at import. Where the platform has no termios (Windows) `supported()` says so.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cloudrun.transport.base import Channel, TerminalSize

#: Entering: the alternate screen, so that what stood on the terminal before is there again afterwards.
_ENTER = b"\x1b[?1049h\x1b[2J\x1b[H"
#: Leaving: every mode that a remote program may have left on: mouse, focus, bracketed paste, cursor keys, keypad, hidden
#: cursor, colours, character set, insert mode; then the alternate screen.
_LEAVE = (
    b"\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?2004l"
    b"\x1b[?1l\x1b>\x1b[4l\x1b[?7h\x1b[?25h\x1b[0m\x0f\x1b(B\x1b[?1049l"
)


def supported() -> bool:
    """Whether this platform can attach."""
    return os.name == "posix"


def interactive() -> bool:
    """Whether both ends are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def size() -> TerminalSize:
    """Columns and rows of the terminal itself, now; COLUMNS and LINES in the environment are some shell's memory of it."""
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        columns, rows = 0, 0
    return TerminalSize(columns or 80, rows or 24)


class EscapeFilter:
    """Finds `~.` at the beginning of a line in what is typed, as ssh does; `~~` is one `~`. Everything else passes unchanged.

    A terminal sends a carriage return for Enter; a line begins after one, and at the very start.
    """

    def __init__(self) -> None:
        self._line_start = True
        self._tilde = False

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """What goes to the box, and whether the user wants to leave."""
        passed = bytearray()
        for byte in data:
            character = bytes((byte,))
            if self._tilde:
                self._tilde = False
                if character == b".":
                    return bytes(passed), True
                passed += b"~" if character == b"~" else b"~" + character
                self._line_start = character in b"\r\n"
            elif self._line_start and character == b"~":
                self._tilde = True
            else:
                passed += character
                self._line_start = character in b"\r\n"
        return bytes(passed), False


class RawTerminal:
    """The terminal in raw mode. Use `raw()`; everything is given back when its block ends."""

    def __init__(self, in_fd: int, out_fd: int, wake_fd: int) -> None:
        self._in, self._out, self._wake = in_fd, out_fd, wake_fd
        self.resized = False
        self.escape = EscapeFilter()

    def write(self, data: bytes) -> None:
        """All of it, in order, however slow the terminal is."""
        view = memoryview(data)
        while view:
            select.select([], [self._out], [])
            view = view[os.write(self._out, view):]

    def wait(self, other_fd: int | None, timeout_s: float) -> tuple[bool, bool]:
        """Waits for keys or for `other_fd`: (keys are there, the other is readable). A resize ends the wait too."""
        watched = [self._in, self._wake] + ([other_fd] if other_fd is not None else [])
        ready, _, _ = select.select(watched, [], [], timeout_s)
        if self._wake in ready:
            os.read(self._wake, 4096)
            self.resized = True
        return self._in in ready, other_fd in ready

    def read_keys(self) -> tuple[bytes, bool]:
        """What was typed, and whether the user wants to leave (`~.`, or the terminal is gone)."""
        data = os.read(self._in, 4096)
        return self.escape.feed(data) if data else (b"", True)

    def take_resize(self) -> bool:
        """Whether the size changed since this was last asked."""
        resized, self.resized = self.resized, False
        return resized


@contextmanager
def raw() -> Iterator[RawTerminal]:
    """Raw mode and the alternate screen for the block. Ended by a signal (TERM, HUP) it gives everything back as well."""
    import termios
    import tty

    in_fd, out_fd = sys.stdin.fileno(), sys.stdout.fileno()
    sys.stdout.flush()
    before = termios.tcgetattr(in_fd)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    restore_signals = _catch_signals(wake_write)
    try:
        tty.setraw(in_fd, termios.TCSADRAIN)
        terminal = RawTerminal(in_fd, out_fd, wake_read)
        terminal.write(_ENTER)
        yield terminal
    finally:
        # The modes first: they need no cooperation of whoever reads the terminal.
        termios.tcsetattr(in_fd, termios.TCSAFLUSH, before)
        try:
            os.write(out_fd, _LEAVE)
        except OSError:
            pass  # the terminal is gone; there is nothing left to give back
        restore_signals()
        os.close(wake_read)
        os.close(wake_write)


def _catch_signals(wake_write: int) -> Callable[[], None]:
    """SIGWINCH wakes the loop; TERM and HUP unwind the stack, so that the terminal is restored. Gives the undoing.

    The wake-up goes through the pipe at the moment of the signal: one that comes just before `select` begins would else be
    noticed only when that ends.
    """
    def resized(number: int, frame: Any) -> None:
        pass  # the byte in the pipe has said it

    def ended(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    handlers = {signal.SIGWINCH: resized, signal.SIGTERM: ended, signal.SIGHUP: ended}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    woken = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)

    def undo() -> None:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)

    return undo


def pump(terminal: RawTerminal, channel: Channel) -> bool:
    """Carries keys to the box and its screen here until the session or the user ends it. True: the user typed `~.`.

    Raises CloudrunError("connection-lost") when the link is dead.
    """
    watched = channel.fileno()
    while True:
        keys, screen = terminal.wait(watched, 1.0 if watched is not None else 0.02)
        if terminal.take_resize():
            channel.resize(size())
        if keys:
            typed, leave = terminal.read_keys()
            if leave:
                return True
            if typed:
                channel.send(typed)
        if not _show(terminal, channel, 0.0 if screen or watched is None else None):
            return False


def _show(terminal: RawTerminal, channel: Channel, timeout_s: float | None) -> bool:
    """Shows what the box sent, if anything; False at its end. `timeout_s` None: nothing is readable, only look at liveness."""
    try:
        data = channel.receive(65536, timeout_s=0.0 if timeout_s is None else timeout_s)
    except TimeoutError:
        return True
    if data:
        terminal.write(data)
    return bool(data)
