"""The code of a project of 2,000 files, brought to the box's tree of it: beside `rsync -az -e ssh`, to the same sshd."""

from __future__ import annotations

import filecmp
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.pairs import Contest, Took
from bench.world import World
from tests.support.sshd import SshBox

FILES = 2_000
FOLDERS = 60
RUN = "exp"


def sync(world: World) -> Iterator[Contest]:
    box = world.box("box")
    world.far("far", box)
    _project(world.laptop.project)
    for name, where in (("box", "loopback"), ("far", world.FAR)):
        both = Both(world, box, name)
        for what, before in (("all", both.nothing_there), ("unchanged", both.leave), ("one changed", both.change_one)):
            yield Contest(f"code of {FILES} files, {what} / `rsync -az -e ssh`, {where}", _after(before, both.by_rsync),
                          _after(before, both.ours), pairs=5)
            both.check()


def _after(before: Callable[[], None], measure: Callable[[], Took]) -> Callable[[], Took]:
    def measured() -> Took:
        before()
        return measure()

    return measured


@dataclass
class Both:
    """The two ways to the same box; each has a tree of its own there."""

    world: World
    box: SshBox
    name: str
    changes: int = 0

    @property
    def mirror(self) -> Path:
        return self.box.home / "mirror"

    @property
    def tree(self) -> Path:
        return self.box.home / "cloudrun" / "net" / RUN

    def by_rsync(self) -> Took:
        return self.world.run(["rsync", "-az", "--delete", "-e", "ssh", f"{self.world.laptop.project}/", f"{self.name}:mirror/"])

    def ours(self) -> Took:
        return self.world.run([sys.executable, "-m", "bench.send", self.name, RUN])

    def leave(self) -> None:
        """The tree stands there as it is at home."""

    def nothing_there(self) -> None:
        for place in (self.mirror, self.tree.parent):
            shutil.rmtree(place, ignore_errors=True)

    def change_one(self) -> None:
        self.changes += 1
        (self.world.laptop.project / "package07" / "module0007.py").write_text(f"CHANGED = {self.changes}\n")

    def check(self) -> None:
        """What ours brought is the project. Raises AssertionError."""
        found = _differences(filecmp.dircmp(self.world.laptop.project, self.tree, ignore=[".cloudrun"]))
        assert not found, found


def _differences(compared: filecmp.dircmp[str]) -> list[str]:
    found = [*compared.left_only, *compared.right_only, *compared.diff_files]
    return found + [name for below in compared.subdirs.values() for name in _differences(below)]


def _project(folder: Path) -> None:
    """Files like those of a repository: 4 KB of text each on average."""
    chance = random.Random(11)
    words = [f"{chance.choice('abcdefgh')}{chance.getrandbits(28):x}" for _word in range(3_000)]
    for number in range(FILES):
        place = folder / f"package{number % FOLDERS:02d}"
        place.mkdir(exist_ok=True)
        lines = [" ".join(chance.choices(words, k=8)) for _line in range(chance.randrange(10, 110))]
        (place / f"module{number:04d}.py").write_text("\n".join(lines) + "\n")
