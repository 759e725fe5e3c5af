"""A box with the real apt and dpkg, without screen and tmux, and one package source of the test's own: overlays in a mount
namespace. What is installed there never reaches this machine."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

#: Takes screen and tmux away, as an image without them has it: programs, and dpkg's knowledge of them.
_STRIP = """\
import os, re
status = open("/var/lib/dpkg/status").read().split("\\n\\n")
open("/var/lib/dpkg/status", "w").write("\\n\\n".join(one for one in status if not re.match("Package: (screen|tmux)\\n", one)))
for path in ("/usr/bin/screen", "/usr/bin/tmux"):
    if os.path.exists(path):
        os.unlink(path)
"""


@dataclass
class Package:
    """`preinst`, `postinst`: shell lines that dpkg runs before it unpacks and when it configures; `conffile`: what the package
    wants in /etc/<name>.conf."""

    name: str
    preinst: str = ""
    postinst: str = ""
    conffile: str = ""


def source(folder: Path, *packages: Package) -> str:
    """A package source; gives its line for sources.list. The program in a package is this machine's own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Packages").write_text("\n".join(_build(folder, package) for package in packages))
    return f"deb [trusted=yes] file:{folder} ./"


def mounts(folder: Path, sources: str) -> str:
    """Shell lines for a mount namespace: /usr, /var and /etc take writes that stay in memory. No list was ever fetched."""
    (folder / "strip.py").write_text(_STRIP)
    (folder / "sources.list").write_text(sources + "\n")
    return (
        f"mkdir -p {folder}/over && mount -t tmpfs t {folder}/over\n"
        f"for part in usr var etc; do mkdir -p {folder}/over/$part/up {folder}/over/$part/work\n"
        f"mount -t overlay o -o lowerdir=/$part,upperdir={folder}/over/$part/up,workdir={folder}/over/$part/work /$part; done\n"
        "rm -rf /etc/apt/sources.list* /etc/apt/apt.conf.d/* /var/lib/apt/lists/*\n"
        f"cp {folder}/sources.list /etc/apt/sources.list\npython3 {folder}/strip.py\n"
    )


def _build(folder: Path, package: Package) -> str:
    """The entry of one package in the source's index."""
    tree = folder / package.name
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/bin").mkdir(parents=True)
    shutil.copy(f"/usr/bin/{package.name}", tree / "usr/bin")
    control = f"Package: {package.name}\nVersion: 99\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a session program\n"
    (tree / "DEBIAN/control").write_text(control)
    for step, lines in (("preinst", package.preinst), ("postinst", package.postinst)):
        (tree / "DEBIAN" / step).write_text("#!/bin/sh\nset -e\n" + lines)
        (tree / "DEBIAN" / step).chmod(0o755)
    if package.conffile:
        (tree / "etc").mkdir()
        (tree / f"etc/{package.name}.conf").write_text(package.conffile)
        (tree / "DEBIAN/conffiles").write_text(f"/etc/{package.name}.conf\n")
    file = folder / f"{package.name}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", str(tree), str(file)], check=True, stdout=subprocess.DEVNULL)
    data = file.read_bytes()
    return f"{control}Filename: ./{file.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
