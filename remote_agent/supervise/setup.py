"""The launch's set-up: once per content of what it names, one at a time in a project."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
from typing import Any, List, Optional

from remote_agent import atomic, clock, layout
from remote_agent.protocol import Spec


class Setup:
    """The set-up of one spec on this box. Its lock is ours until `release`."""

    def __init__(self, spec: Spec, home: layout.Home) -> None:
        self._lock_path = home.setup_lock(spec.project)
        self._done = home.setup_done(spec.project, digest(spec))
        self._lock: Optional[int] = None

    def done(self) -> bool:
        return os.path.exists(self._done)

    def try_lock(self) -> bool:
        """Takes the project's lock; False while another run's set-up has it. Raises OSError."""
        if self._lock is None:
            os.makedirs(os.path.dirname(self._lock_path), exist_ok=True)
            self._lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def succeeded(self, run: str, attempt: int) -> None:
        """Remembers it. Raises OSError: then it runs again another time, which is no harm."""
        atomic.write_json(self._done, {"run": run, "attempt": attempt, "at": clock.now_utc()})

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def digest(spec: Spec) -> str:
    """Over the text, the contents of the files that it names, and the environment that it works in.

    Where it names a folder, or makes an environment inside the run's own tree, what it did for another tree does not
    serve this one: then the tree and its code count too.
    """
    words = _words(spec.setup or "")
    named = [[word, _sha256(os.path.join(spec.workdir, word))] for word in words]
    content: List[Any] = [spec.setup, spec.conda_env, spec.activate, spec.network_turbo,
                          [pair for pair in named if pair[1] is not None]]
    if _of_the_tree(spec, words):
        content += [spec.workdir, spec.code_digest]
    return hashlib.sha256(json.dumps(content).encode("ascii")).hexdigest()


def _words(text: str) -> List[str]:
    """Words of bash text that may name files to read: quotes taken off, `--file=x` and `-rx` looked into as well.

    Not where output goes: what the set-up itself writes would make it another one the next time.
    """
    reader = shlex.shlex(text, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    words, before = [], ""
    try:
        for word in reader:
            if not before.startswith(">"):
                words.append(word)
            before = word
    except ValueError:  # a quote is not closed
        words = text.split()
    inside = [word.partition("=")[2] for word in words] + [word[2:] for word in words if word.startswith("-")]
    return sorted({word for word in words + inside if word and "\0" not in word})


def _sha256(path: str) -> Optional[str]:
    try:
        if not os.path.isfile(path):
            return None
        total = hashlib.sha256()
        with open(path, "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                total.update(block)
        return total.hexdigest()
    except OSError:
        return None


def _of_the_tree(spec: Spec, words: List[str]) -> bool:
    if spec.activate is not None and not os.path.isabs(os.path.expanduser(spec.activate)):
        return True
    return any(not os.path.isabs(word) and ("venv" in word or os.path.isdir(os.path.join(spec.workdir, word)))
               for word in words)
