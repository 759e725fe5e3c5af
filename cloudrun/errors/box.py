"""Errors about the box: disk, GPU, packages, sessions."""

from __future__ import annotations

from cloudrun.errors.catalogue import Entry
from cloudrun.errors.exit_codes import Exit
from cloudrun.i18n import N_

ENTRIES: dict[str, Entry] = {
    "data-dir-relative": Entry(
        Exit.CONFIG,
        N_("the data folder {path!r} is no absolute path"),
        N_("cloudrun host set {host_name} --data-dir /root/autodl-tmp"),
    ),
    "data-dir-not-folder": Entry(
        Exit.BOX,
        N_("the data folder {path} cannot be: {stands} is no folder"),
        N_("cloudrun host set {host_name} --data-dir /another/folder"),
    ),
    "data-dir-not-writable": Entry(
        Exit.BOX,
        N_("the data folder {path} cannot be written: you may not write in {stands}"),
        N_("cloudrun host set {host_name} --data-dir /a/folder/of/yours"),
    ),
    "disk-timeout": Entry(
        Exit.BOX,
        N_("the disk of {path} did not answer within {deadline_s} s: a network mount that is gone, most likely"),
        N_("mount it anew on the box, or choose another: cloudrun host set {host_name} --data-dir /another/folder"),
    ),
    "disk-hangs": Entry(
        Exit.BOX,
        N_("{path} cannot be reached: the disk mounted on {mount} ({type}, from {source}) did not answer within {deadline_s} s"),
        N_("mount it anew on the box (umount -l {mount}, then as the provider says), or choose another: "
           "cloudrun host set {host_name} --data-dir /another/folder"),
    ),
    "disk-low": Entry(
        Exit.PREFLIGHT,
        N_("{path} has {free_bytes} free of {total_bytes}, and the run needs {needed_bytes}{largest}"),
        N_("cloudrun ps --archived   (what is over can go: cloudrun rm RUN; or set min_free lower in cloudrun.toml)"),
    ),
    "disk-low-for-checkpoints": Entry(
        Exit.PREFLIGHT,
        N_("{path} has {free_bytes} free of {total_bytes}, and two more checkpoints of {run} need {needed_bytes}{largest}"),
        N_("cloudrun ps --archived   (what is over can go: cloudrun rm RUN)"),
    ),
    "inodes-low": Entry(
        Exit.PREFLIGHT,
        N_("{path} has room for {free_inodes} more files only, of {total_inodes} (a run needs {needed_inodes})"),
        N_("Pack or delete folders of many small files on the box, then: cloudrun doctor"),
    ),
    "gpu-not-installed": Entry(
        Exit.PREFLIGHT,
        N_("the run asks for GPU {wanted}, and the box has no nvidia-smi: no GPU was rented, or no driver is there"),
        N_("Start the box with a GPU, or leave `gpus` out of cloudrun.toml; then: cloudrun gpu"),
    ),
    "gpu-no-device": Entry(
        Exit.PREFLIGHT,
        N_("the run asks for GPU {wanted}, and the box has none now (started without its GPU?)"),
        N_("Start the box with its GPU from the provider's page, or leave `gpus` out; then: cloudrun gpu"),
    ),
    "gpu-driver-mismatch": Entry(
        Exit.PREFLIGHT,
        N_("the run asks for GPU {wanted}, and the box's driver and its library are of different versions: {detail}"),
        N_("Restart the box from the provider's page, then: cloudrun gpu"),
    ),
    "gpu-driver-unreachable": Entry(
        Exit.PREFLIGHT,
        N_("the run asks for GPU {wanted}, and the box's driver does not answer: {detail}"),
        N_("Restart the box from the provider's page, then: cloudrun gpu"),
    ),
    "gpu-device-unknown": Entry(
        Exit.PREFLIGHT,
        N_("the run asks for GPU {wanted}, and the container has lost its access to the cards: {detail}"),
        N_("Restart the box from the provider's page, then: cloudrun gpu"),
    ),
    "gpu-gpu-lost": Entry(
        Exit.PREFLIGHT,
        N_("the run asks for GPU {wanted}, and a card has fallen off the bus: {detail}"),
        N_("Ask the provider for another machine, or restart the box; then: cloudrun gpu"),
    ),
    "gpu-timeout": Entry(
        Exit.PREFLIGHT,
        N_("the run asks for GPU {wanted}, and nvidia-smi hangs: {detail}"),
        N_("Restart the box from the provider's page, then: cloudrun gpu"),
    ),
    "gpu-error": Entry(
        Exit.PREFLIGHT,
        N_("the run asks for GPU {wanted}, and nvidia-smi failed: {detail}"),
        N_("cloudrun gpu"),
    ),
    "gpu-index": Entry(
        Exit.PREFLIGHT,
        N_("the run asks for GPU {missing}, and the box has these only: {there}"),
        N_("Set `gpus` in cloudrun.toml to cards that are there: cloudrun gpu"),
    ),
    "box-os-error": Entry(
        Exit.BOX,
        N_("the box refused: {reason} {path}"),
        N_("cloudrun doctor"),
    ),
    "install-no-manager": Entry(
        Exit.PREFLIGHT,
        N_("{program} is missing on the box, and none of {managers} is there to install it"),
        N_("The same launch with --backend detached needs no session program"),
    ),
    "install-needs-root": Entry(
        Exit.PREFLIGHT,
        N_("{program} is missing on the box, you are not root there, and there is no sudo to install it"),
        N_("as root on the box: {command}; or the same launch with --backend detached"),
    ),
    "install-sudo-password": Entry(
        Exit.PREFLIGHT,
        N_("{program} is missing on the box, and sudo asks for a password there, which nobody can type now"),
        N_("on the box: sudo {command}; or the same launch with --backend detached"),
    ),
    "install-locked": Entry(
        Exit.PREFLIGHT,
        N_("{program} could not be installed: another package manager was at work all the time: {holder}"),
        N_("a box that has just booted needs a few minutes; see what it does (on the box: ps aux), then the same command again; "
           "or the same launch with --backend detached"),
    ),
    "install-timeout": Entry(
        Exit.PREFLIGHT,
        N_("{program} could not be installed in time. Tried: {tried}. Last words: {output}"),
        N_("on the box: {command}; or the same launch with --backend detached"),
    ),
    "install-goes-on": Entry(
        Exit.PREFLIGHT,
        N_("{program} is not installed yet: dpkg was still at work when the time was over, and is left to finish (pid {pid}). "
           "Last words: {output}"),
        N_("in a few minutes the same command again; if dpkg was cut off meanwhile, first on the box: dpkg --configure -a"),
    ),
    "install-interrupted": Entry(
        Exit.PREFLIGHT,
        N_("{program} cannot be installed: an earlier installation on the box was cut off in the middle"),
        N_("as root on the box: dpkg --configure -a   (then the same command again; or launch it with --backend detached)"),
    ),
    "install-unreachable": Entry(
        Exit.PREFLIGHT,
        N_("{program} cannot be installed: the box reaches no package server: {output}"),
        N_("the same launch with --backend detached needs nothing installed; or when the box has a way out (on AutoDL: "
           "source /etc/network_turbo), there: {command}"),
    ),
    "install-failed": Entry(
        Exit.PREFLIGHT,
        N_("{program} is not there after installing it. Tried: {tried}. Last words: {output}"),
        N_("on the box: {command}; or the same launch with --backend detached"),
    ),
    "backend-missing": Entry(
        Exit.PREFLIGHT,
        N_("the session program {backend!r} is not on the box"),
        N_("Launch it with --backend auto instead, or install it on the box: apt-get install {backend}"),
    ),
    "session-exists": Entry(
        Exit.REFUSED,
        N_("a {backend} session named {name} lives on the box already (pid {pid})"),
        N_("cloudrun attach {name}   (or: cloudrun stop {name})"),
    ),
    "session-ambiguous": Entry(
        Exit.REFUSED,
        N_("two sessions on the box are named {name} (pids {pids})"),
        N_("Look at both on the box and end the wrong one: kill PID"),
    ),
    "session-start-failed": Entry(
        Exit.BOX,
        N_("the {backend} session did not come up: {detail}"),
        N_("cloudrun doctor   (or launch it in another kind of session: --backend tmux, --backend detached)"),
    ),
    "session-end-failed": Entry(
        Exit.BOX,
        N_("processes of the session {name} cannot be ended (pids {pids}); the kernel may hold them in a device or a dead mount"),
        N_("cloudrun gpu   (a card in trouble holds its processes until the box is restarted)"),
    ),
    "session-folder-refused": Entry(
        Exit.BOX,
        N_("no folder for the socket of session {name} can be made on the box: {reason}"),
        N_("cloudrun doctor   (then make room in, or rights to, ~/.cloudrun on the box)"),
    ),
    "session-not-running": Entry(
        Exit.NO_SUCH_RUN,
        N_("{name} has no live session on the box"),
        N_("cloudrun logs {name}   (or start it with the `cloudrun launch {name} …` it was started with)"),
    ),
    "session-attached-elsewhere": Entry(
        Exit.REFUSED,
        N_("the session of {name} is attached elsewhere"),
        N_("cloudrun attach {name} --shared   (or --take)"),
    ),
    "detached-cannot-attach": Entry(
        Exit.REFUSED,
        N_("{name} runs as a detached process without a terminal: it can only be watched"),
        N_("cloudrun logs -f {name}"),
    ),
    "escape-invalid": Entry(
        Exit.CONFIG,
        N_("screen_escape {escape!r} is not a control key and a letter, or its key belongs to the terminal (C, D, H, I, M, Q, S, Z)"),
        N_("Write it like this in cloudrun.toml: screen_escape = \"^Jj\""),
    ),
    "project-name-taken": Entry(
        Exit.REFUSED,
        N_("another project folder named {project} has its code in {path} on this box"),
        N_("Choose a name of its own: project = \"{project}-2\" in cloudrun.toml. "
           "If it is the same project on another computer, copy the file .cloudrun/project-id from there"),
    ),
    "bad-project-name": Entry(
        Exit.CONFIG,
        N_("{project!r} cannot be a project's folder on the box"),
        N_("Set project = \"name\" in cloudrun.toml: letters, digits, '.', '_' and '-'"),
    ),
    "project-busy": Entry(
        Exit.BOX,
        N_("another launch has been changing {path} for {waited_s} s"),
        N_("cloudrun ps   (then repeat the launch)"),
    ),
    "code-path": Entry(
        Exit.BOX,
        N_("the box refuses the path {path}: it leaves the run's folder, or stands there twice"),
        N_("Leave it at home: add it to .cloudrunignore"),
    ),
    "code-disk-full": Entry(
        Exit.PREFLIGHT,
        N_("the code needs {needed_bytes} on the box's system disk ({path}), which has {free_bytes} free; nothing was changed"),
        N_("Delete what is not needed there (du -xsh {path}/* ~/.cache), or send less: add it to .cloudrunignore"),
    ),
    "code-home-refused": Entry(
        Exit.BOX,
        N_("the code goes into the home on the box, and {path} cannot be written there: {reason}"),
        N_("On the box: ls -ld ~; df -h ~   Or use code that is there already: the same launch with --no-sync --workdir /path/there"),
    ),
    "code-cut": Entry(
        Exit.UNREACHABLE,
        N_("the code did not arrive whole; nothing was changed on the box"),
        N_("cloudrun launch …   (the same command again)"),
    ),
    "code-damaged": Entry(
        Exit.BOX,
        N_("the code that arrived is not what was sent ({detail}); nothing was changed on the box"),
        N_("cloudrun launch …   (the same command again)"),
    ),
    "code-given-up": Entry(
        Exit.REFUSED,
        N_("the sending of the code was given up; nothing was changed on the box"),
        N_("cloudrun launch …   (the same command again)"),
    ),
    "code-changed-on-box": Entry(
        Exit.BOX,
        N_("{path} in the tree of {run} was changed on the box while code was copied from it; nothing was changed"),
        N_("cloudrun launch …   (the same command again)"),
    ),
    "code-through-link": Entry(
        Exit.REFUSED,
        N_("{path} cannot be put into the run's folder: {at} is a link there, and would lead out of it"),
        N_("Leave it at home (add '{at}/' to .cloudrunignore), or remove the link on the box"),
    ),
    "code-journal": Entry(
        Exit.BOX,
        N_("a change of the code that broke off cannot be read any more: {path} ({detail})"),
        N_("Move that file away on the box and launch again: what stands in the way will be put aside, not lost"),
    ),
    "tree-is-link": Entry(
        Exit.REFUSED,
        N_("{path} on the box is a link; the code of a run goes into a folder of its own"),
        N_("Remove the link on the box: rm {path}"),
    ),
    "no-staging": Entry(
        Exit.BOX,
        N_("the code that was sent to {path} is not there any more"),
        N_("cloudrun launch …   (the same command again)"),
    ),
    "link-in-the-way": Entry(
        Exit.REFUSED,
        N_("{path} on the box is a real file or folder with content, where a link to {target} is to stand"),
        N_("Move it there yourself (on the box: mv {path} {path}.old), or take it out of links/outputs in cloudrun.toml"),
    ),
    "link-target": Entry(
        Exit.CONFIG,
        N_("the link {name} leads to {target!r}, which is no absolute path on the box"),
        N_("In cloudrun.toml: links = {{ {name} = \"/root/autodl-tmp/…\" }}"),
    ),
}
