"""The attempt's log on the disk: appended to, cut into parts past its limit, and never a reason to wait or to die."""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import Callable, Optional, Tuple

from remote_agent import atomic, clock, layout
from remote_agent.words import _

#: Below this no limit makes sense: the beginning and the end of a run would not be there.
SMALLEST_LIMIT_BYTES = 64 * 1024
#: While the disk refuses, and between two looks whether the file is still there.
RETRY_S = 1.0


class LogFile:
    """Writes what it can and counts what it cannot. Nothing here raises OSError after the start.

    Offsets are those of the attempt's output as logged. The first part keeps a quarter of `limit_bytes`, later ones an
    eighth each, and the oldest of the later ones go: the beginning and at least the newest five eighths stay.
    """

    def __init__(self, path: str, limit_bytes: int, link: Optional[str] = None,
                 now: Callable[[], float] = time.monotonic) -> None:
        """`path` is the first part; `link` a symlink that follows the newest one."""
        self._first = path
        self._limit_bytes = max(limit_bytes, SMALLEST_LIMIT_BYTES)
        self._link = link
        self._now = now
        self._part = (layout.log_parts(path) or [layout.log_part(path, 0)])[-1]
        self._size: Optional[int] = None  # of the part; None until it was opened once
        self._fd: Optional[int] = None
        self._full = False
        self._at_line_start = True
        self._look_at = 0.0
        self._retry_at: Optional[float] = None
        self._notice = memoryview(b"")
        self._lost_bytes = 0
        self._lost_since = ""
        self._reason = ""
        #: All that was lost, in bytes.
        self.lost_total_bytes = 0

    @property
    def troubled(self) -> bool:
        """Whether something is still to be said: call `tick` at least once a second then."""
        return self._retry_at is not None

    def write(self, data: memoryview) -> None:
        """Appends; what the disk does not take now is lost and counted. Without data it sees to it that the file is there."""
        if self._retry_at is not None and self._now() < self._retry_at:
            self._lose(len(data))
            return
        error = self._say_losses()
        done = 0
        if error is None:
            done, error = self._append(data)
        if error is None:
            self._retry_at = None
        else:
            self._refused(error, len(data) - done)

    def tick(self) -> None:
        """Tries again where something is still to be said."""
        if self._retry_at is not None and self._now() >= self._retry_at:
            self.write(memoryview(b""))

    def close(self) -> None:
        """A last try to say what was lost; then what was written is made durable."""
        if self._retry_at is not None:
            self._retry_at = 0.0
            self.write(memoryview(b""))
        if self._fd is not None:
            try:
                os.fsync(self._fd)
            except OSError:
                pass
            self._forget_file()

    # ------------------------------------------------------------------------------------------ losses

    def _refused(self, error: OSError, lost_bytes: int) -> None:
        self._retry_at = self._now() + RETRY_S
        self._reason = error.strerror or str(error)
        self._lose(lost_bytes)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            self._forget_file()  # after EIO, ESTALE and the like the description itself may be dead

    def _lose(self, count: int) -> None:
        if count and not self._lost_bytes:
            self._lost_since = clock.now_utc()
        self._lost_bytes += count
        self.lost_total_bytes += count

    def _say_losses(self) -> Optional[OSError]:
        """Writes the line about what is missing where there is one to write, whole, before anything else."""
        while self._notice or self._lost_bytes:
            if not self._notice:
                words = _("{count} bytes of output are missing here, lost from {since} to {until}: {reason}").format(
                    count=self._lost_bytes, since=self._lost_since, until=clock.now_utc(), reason=self._reason)
                text = "%scloudrun: %s\n" % ("" if self._at_line_start else "\n", words)
                self._notice = memoryview(text.encode("utf-8", "replace"))
                self._lost_bytes = 0
            done, error = self._append(self._notice)
            self._notice = self._notice[done:]
            if error is not None:
                return error
        return None

    # ------------------------------------------------------------------------------------------- parts

    def _append(self, data: memoryview) -> Tuple[int, Optional[OSError]]:
        """Bytes that are in the log now, and what stopped it."""
        done = 0
        try:
            self._look()
            self._file()
            while done < len(data):
                piece = self._piece(data[done:])
                count = os.write(self._file(), piece)
                if count == 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._at_line_start = piece[count - 1] == 0x0A
                self._size = (self._size or 0) + count
                done += count
        except OSError as error:
            return done, error
        return done, None

    def _piece(self, data: memoryview) -> memoryview:
        """As much as this part takes; a part ends at a line's end where there is one in reach."""
        room = self._budget(self._part) - (self._size or 0)
        if self._full or room <= 0:
            self._next_part()
            room = self._budget(self._part)
        if len(data) <= room:
            return data
        line_end = bytes(data[:room]).rfind(b"\n") + 1
        self._full = line_end > 0
        return data[:line_end or room]

    def _budget(self, part: layout.Part) -> int:
        return self._limit_bytes // (4 if part.offset == 0 else 8)

    def _next_part(self) -> None:
        fresh = layout.log_part(self._first, self._part.offset + (self._size or 0))
        self._prune(self._budget(fresh))
        self._open(fresh)

    def _prune(self, coming_bytes: int) -> None:
        """Makes the limit hold with a part of that size to come. The first part stays."""
        parts = layout.log_parts(self._first)
        sizes = {part: _size(part.path) for part in parts}
        for part in parts:
            if sum(sizes.values()) + coming_bytes <= self._limit_bytes:
                return
            if part.offset > 0:
                os.unlink(part.path)
                del sizes[part]

    # ------------------------------------------------------------------------------------------- files

    def _file(self) -> int:
        """The part's descriptor. After trouble the file is opened anew, as a new part where it is no longer the same."""
        if self._fd is None:
            part = self._part
            if self._size and _size(part.path) < self._size:
                part = layout.log_part(self._first, part.offset + self._size)
            self._open(part)
        assert self._fd is not None
        return self._fd

    def _open(self, part: layout.Part) -> None:
        os.makedirs(os.path.dirname(part.path), exist_ok=True)
        # O_NONBLOCK: something else of that name, a pipe for one, must not hold us here.
        fd = os.open(part.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK, 0o644)
        self._forget_file()
        self._fd, self._part, self._size, self._full = fd, part, os.fstat(fd).st_size, False
        self._point_link()

    def _forget_file(self) -> None:
        if self._fd is not None:
            try:
                os.close(self._fd)
            except OSError:
                pass
            self._fd = None

    def _look(self) -> None:
        """Once a second: is the file that we write still the one of that name, and as long as we left it?"""
        if self._fd is None or self._now() < self._look_at:
            return
        self._look_at = self._now() + RETRY_S
        held = os.fstat(self._fd)
        try:
            named = os.stat(self._part.path)
        except OSError:
            named = None
        if named is None or not os.path.samestat(held, named) or held.st_size < (self._size or 0):
            self._forget_file()  # deleted, put aside or emptied: the next write begins a part of its own
        else:
            self._size = held.st_size
            self._point_link()

    def _point_link(self) -> None:
        name = os.path.basename(self._part.path)
        if self._link is None or _link_target(self._link) == name:
            return
        try:
            atomic.replace_link(name, self._link)
        except OSError:
            pass  # looked at again within a second of writing


def _size(path: str) -> int:
    """Size of a regular file, 0 for what is none."""
    try:
        found = os.stat(path)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _link_target(path: str) -> Optional[str]:
    try:
        return os.readlink(path)
    except OSError:
        return None
