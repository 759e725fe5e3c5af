"""What git knows of a project: asked by argv, under a deadline, with nothing written; a folder without git is no error."""

from __future__ import annotations

import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

MAX_DIFF_BYTES = 5_000_000
_DEADLINE_S = 20.0
#: A hook or a submodule's command may have left these behind; they would point git at another repository.
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")
_CUT = "\n# cut here by cloudrun: the diff is longer than {limit} bytes\n"


@dataclass(frozen=True)
class GitFacts:
    """Commit that is checked out, whether the project's files differ from it, and how (tracked files only; bytes that
    are no UTF-8 as surrogates). None: no git, no repository, or no commit yet."""

    commit: str | None = None
    dirty: bool | None = None
    diff: str | None = None


def git_facts(folder: Path) -> GitFacts:
    """The facts for `spec.json`. Never raises: what git does not say in time is None."""
    status = run_git(folder, ["status", "--porcelain", "-z", "--untracked-files=normal", "--", "."])
    if status is None:
        return GitFacts()
    commit = run_git(folder, ["rev-parse", "--verify", "--quiet", "HEAD"])
    if commit is None:
        return GitFacts(dirty=bool(status))
    diff = None
    if status:
        shown = ["diff", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD", "--", "."]
        diff = run_git(folder, shown, MAX_DIFF_BYTES)
    text = None if diff is None else _text(diff)
    return GitFacts(commit.decode("ascii").strip(), bool(status), text)


def _text(diff: bytes) -> str | None:
    text = diff[:MAX_DIFF_BYTES].decode("utf-8", "surrogateescape")
    if len(diff) > MAX_DIFF_BYTES:
        text += _CUT.format(limit=MAX_DIFF_BYTES)
    return text or None


def tracked_files(folder: Path) -> list[bytes]:
    """Paths below `folder` that its repository tracks, relative; none where git cannot say."""
    listed = run_git(folder, ["ls-files", "--cached", "-z"])
    return [path for path in (listed or b"").split(b"\0") if path]


def setting(folder: Path, name: str, kind: str) -> str | None:
    """One value of git's configuration as it holds in `folder`; `kind` is "bool" or "path". None where it is not set."""
    value = run_git(folder, ["config", f"--type={kind}", "--get", name])
    return value.decode("utf-8", "surrogateescape").rstrip("\n") if value else None


def run_git(folder: Path, arguments: list[str], limit_bytes: int | None = None) -> bytes | None:
    """stdout of a git command, of which at most one byte more than `limit_bytes` is read; None where it failed, was not
    done in time, or there is no git."""
    environment = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    environment.update(GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0", LC_ALL="C")
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", *arguments]
    try:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None
    with process:
        late = threading.Timer(_DEADLINE_S, process.kill)
        late.start()
        try:
            assert process.stdout is not None
            said = process.stdout.read(-1 if limit_bytes is None else limit_bytes + 1)
            if limit_bytes is not None and len(said) > limit_bytes:
                process.kill()
                return said
            return said if process.wait() == 0 else None
        finally:
            late.cancel()
