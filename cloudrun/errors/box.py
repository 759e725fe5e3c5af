"""Errors about the box: disk, GPU, packages, sessions."""

from __future__ import annotations

from cloudrun.errors.catalogue import Entry
from cloudrun.errors.exit_codes import Exit
from cloudrun.i18n import N_

ENTRIES: dict[str, Entry] = {
    "data-dir-relative": Entry(
        Exit.CONFIG,
        N_("the data folder {path!r} is no absolute path"),
        N_("cloudrun host set NAME --data-dir /root/autodl-tmp"),
    ),
    "data-dir-not-folder": Entry(
        Exit.BOX,
        N_("the data folder {path} cannot be: {stands} is no folder"),
        N_("cloudrun host set NAME --data-dir /another/folder"),
    ),
    "data-dir-not-writable": Entry(
        Exit.BOX,
        N_("the data folder {path} cannot be written: you may not write in {stands}"),
        N_("cloudrun host set NAME --data-dir /a/folder/of/yours"),
    ),
    "disk-timeout": Entry(
        Exit.BOX,
        N_("the disk of {path} did not answer within {deadline_s:g} s: a network mount that is gone, most likely"),
        N_("mount it anew on the box, or choose another: cloudrun host set NAME --data-dir /another/folder"),
    ),
    "install-no-manager": Entry(
        Exit.PREFLIGHT,
        N_("{program} is missing on the box, and none of {managers} is there to install it"),
        N_("cloudrun launch RUN --backend detached"),
    ),
    "install-needs-root": Entry(
        Exit.PREFLIGHT,
        N_("{program} is missing on the box, and installing it needs root or sudo without a password"),
        N_("as root on the box: {manager} install -y {program}; or: cloudrun launch RUN --backend detached"),
    ),
    "install-locked": Entry(
        Exit.PREFLIGHT,
        N_("{program} could not be installed: another package manager was at work all the time. {holder}"),
        N_("a box that has just booted needs a few minutes; then the same command again"),
    ),
    "install-timeout": Entry(
        Exit.PREFLIGHT,
        N_("{program} could not be installed in time. Tried: {tried}. Last words: {output}"),
        N_("on the box: {manager} install -y {program}; or: cloudrun launch RUN --backend detached"),
    ),
    "install-failed": Entry(
        Exit.PREFLIGHT,
        N_("{program} is not there after installing it. Tried: {tried}. Last words: {output}"),
        N_("on the box: {manager} install -y {program}; or: cloudrun launch RUN --backend detached"),
    ),
}
