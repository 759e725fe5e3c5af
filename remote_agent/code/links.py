"""Links from a run's tree to the data disk: what the project ignores is there already, and what it writes goes there."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Dict, List, Optional

from remote_agent import atomic, layout, silence
from remote_agent.code import paths
from remote_agent.protocol import AgentError, Spec

#: A network disk that holds a data set may be dead: that is said, and the launch does not wait for it.
_EXIST_S = 2.0


@dataclass
class Links:
    """What was done. `relinked`: links that led elsewhere before, with where. `missing`: targets that are not there (yet);
    `hanging`: targets on a disk that does not answer."""

    made: List[str] = field(default_factory=list)
    relinked: Dict[str, str] = field(default_factory=dict)
    missing: List[str] = field(default_factory=list)
    hanging: List[str] = field(default_factory=list)


def place_links(spec: Spec, run: layout.Run) -> Links:
    """`make_links` for a launch: in the run's own tree, or in its work folder where the code was not brought."""
    tree = layout.Home.of_user().tree(spec.project, spec.run) if spec.code_digest is not None else spec.workdir
    return make_links(tree, spec.links, spec.outputs, run.path)


def make_links(tree: str, links: Dict[str, str], outputs: List[str], run_dir: str) -> Links:
    """Makes them, or finds them made. A real file or folder of that name is never touched.

    Raises AgentError: link-in-the-way, link-target (not absolute), code-path, code-through-link.
    """
    done = Links()
    if not links and not outputs:
        return done
    os.makedirs(tree, exist_ok=True)
    root = paths.open_root(tree) if not os.path.islink(tree) else paths.open_root(os.path.realpath(tree))
    targets = []
    try:
        for name, given in links.items():
            targets.append(_target(name, given))
            _make(root, tree, name, targets[-1], done)
        for name in outputs:
            inside = os.path.join(run_dir, "outputs", os.fsdecode(_name(name)))
            os.makedirs(inside, exist_ok=True)
            _make(root, tree, name, inside, done)
    finally:
        os.close(root)
    there = silence.exist(targets, _EXIST_S) if targets else {}
    done.missing = [target for target in targets if there.get(target) is False]
    done.hanging = [target for target in targets if target not in there]
    return done


def _name(name: str) -> bytes:
    return paths.raw(name.rstrip("/"))


def _target(name: str, target: str) -> str:
    target = os.fsdecode(target.encode("utf-8", "surrogateescape"))
    expanded = os.path.join(layout.Home.of_user().home, target[2:]) if target.startswith("~/") else target
    if not expanded.startswith("/") or "\0" in expanded:
        raise AgentError("link-target", name=name, target=target)
    return expanded.rstrip("/") or "/"


def _make(root: int, tree: str, name: str, target: str, done: Links) -> None:
    plain = _name(name)
    try:
        parent = paths.open_parent(root, plain, make=True)
    except NotADirectoryError as error:
        raise AgentError("code-through-link", path=name, at=str(error.filename)) from error
    try:
        before = _standing(parent, plain, tree, target)
        if before != target:
            atomic.replace_link(target, os.path.join("/proc/self/fd/%d" % parent, os.fsdecode(os.path.basename(plain))))
            done.made.append(name)
            if before is not None:
                done.relinked[name] = before
    finally:
        os.close(parent)


def _standing(parent: int, plain: bytes, tree: str, target: str) -> Optional[str]:
    """Where the link of that name leads; None where nothing stands. An empty folder makes way.

    Raises AgentError("link-in-the-way") for anything else.
    """
    name = os.path.basename(plain)
    try:
        status = os.lstat(name, dir_fd=parent)
        if stat.S_ISLNK(status.st_mode):
            return os.fsdecode(os.readlink(name, dir_fd=parent))
        os.rmdir(name, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError as error:
        path = os.path.join(tree, os.fsdecode(plain))
        raise AgentError("link-in-the-way", path=path, target=target) from error
    return None
