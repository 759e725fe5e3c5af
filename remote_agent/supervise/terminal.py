"""The window the attempt runs in: typing may interrupt the training, and can neither stop nor freeze it."""

from __future__ import annotations

import os
import termios
from typing import Any, List, Optional

#: Characters that stop a process, kill it with a core, or freeze its output. VDSUSP exists on BSD alone.
_DEADLY = ("VSUSP", "VQUIT", "VDSUSP", "VSTART", "VSTOP")
_DISABLED = b"\0"


class Terminal:
    """The controlling terminal on stdin, where there is one; without one every act here is nothing."""

    def __init__(self, fd: int = 0) -> None:
        self.fd = fd
        self.present = _is_controlling(fd)
        self._window = _open_window(fd) if self.present else None
        self._before: Optional[List[Any]] = None

    def prepare(self) -> None:
        """No suspend, quit, stop and start characters and no flow control; Ctrl-C and line editing stay."""
        if not self.present:
            return
        try:
            if self._before is None:
                self._before = termios.tcgetattr(self.fd)
            termios.tcsetattr(self.fd, termios.TCSANOW, _harmless(self._before))  # TCSADRAIN waits for a reader
            termios.tcflow(self.fd, termios.TCOON)
        except termios.error:
            pass  # hung up: nobody types here any more

    def restore(self) -> None:
        """As it was, and our own group in the foreground again: the training may have left it raw."""
        if not self.present:
            return
        self.foreground(os.getpgrp())
        if self._before is not None:
            try:
                termios.tcsetattr(self.fd, termios.TCSANOW, self._before)
            except termios.error:
                pass

    def foreground(self, group: int) -> None:
        """Gives the terminal to a process group. The caller ignores or blocks SIGTTOU."""
        if self.present:
            try:
                os.tcsetpgrp(self.fd, group)
            except OSError:
                pass  # hung up, or the group has gone already

    def show(self, line: str) -> None:
        """A line of our own in the window, dropped where the window does not take it at once."""
        if self._window is None:
            return
        try:
            os.write(self._window, line.encode("utf-8", "replace") + b"\r\n")
        except OSError:
            pass


def _harmless(settings: List[Any]) -> List[Any]:
    iflag, oflag, cflag, lflag, ispeed, ospeed, characters = settings
    characters = list(characters)
    for name in _DEADLY:
        if hasattr(termios, name):
            characters[getattr(termios, name)] = _DISABLED
    iflag &= ~(termios.IXON | termios.IXOFF | termios.IXANY)
    lflag = (lflag | termios.ISIG) & ~termios.TOSTOP
    return [iflag, oflag, cflag, lflag, ispeed, ospeed, characters]


def _is_controlling(fd: int) -> bool:
    try:
        os.tcgetpgrp(fd)
    except OSError:
        return False
    return True


def _open_window(fd: int) -> Optional[int]:
    """A description of our own: O_NONBLOCK on the inherited one would be the training's too."""
    try:
        return os.open(os.ttyname(fd), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
