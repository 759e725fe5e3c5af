"""Errors about cloudrun.toml, code and the run's script."""

from __future__ import annotations

from cloudrun.errors.catalogue import Entry
from cloudrun.errors.exit_codes import Exit
from cloudrun.i18n import N_

ENTRIES: dict[str, Entry] = {
    "project-file": Entry(
        Exit.CONFIG,
        N_("{path}: {detail}"),
        N_("Mend it there; `cloudrun init --show` prints a commented example."),
    ),
    "nothing-to-run": Entry(
        Exit.CONFIG,
        N_("nothing says what run {run} is: {folder} has no [runs.{run}] in a cloudrun.toml and no run.sh, and no command was given"),
        N_("cloudrun launch {run} -- python train.py   (or `cloudrun init` and fill in [runs.{run}], or put a run.sh into the folder)"),
    ),
    "env-file": Entry(
        Exit.CONFIG,
        N_("environment file {path}: {detail}"),
        N_("Lines are NAME=value; mend the file, or take {named_by} out."),
    ),
    "no-sync-workdir": Entry(
        Exit.USAGE,
        N_("--no-sync says that the code is on the box already, but not where"),
        N_("cloudrun launch {run} --no-sync --workdir /absolute/path/on/the/box"),
    ),
    "workdir": Entry(
        Exit.CONFIG,
        N_("workdir {workdir} is outside the project: the code lands in {tree}"),
        N_("Give a folder inside the project, or an absolute path on the box."),
    ),
    "init-exists": Entry(
        Exit.REFUSED,
        N_("{path} is there already and was left as it is"),
        N_("cloudrun init --show"),
    ),
    "env-name": Entry(
        Exit.CONFIG,
        N_("env: {name} cannot be set for a run: no name that bash exports, or one that bash or cloudrun keeps for itself"),
        N_("Choose another name in [runs.….env], or set it in the command: env NAME=value python train.py"),
    ),
    "nul-character": Entry(
        Exit.CONFIG,
        N_("a NUL character cannot be part of a command, an argument or a variable: {value}"),
        N_("Take it out and launch again."),
    ),
    "template-missing": Entry(
        Exit.INTERNAL,
        N_("the file {name} of this installation is missing: {folder}"),
        N_("pip install --force-reinstall cloudrun-gpu"),
    ),
    "run-name-empty": Entry(Exit.USAGE, N_("a run's name may not be empty"), N_("cloudrun launch resnet50_cifar10_1201 -- python train.py")),
    "run-name-long": Entry(
        Exit.USAGE, N_("run name {name} has {length} characters; 63 are allowed"), N_("Choose a shorter one: task_model_date."),
    ),
    "run-name-character": Entry(
        Exit.USAGE,
        N_("run name {name!r}: character {position} is {character!r}; allowed are letters, digits, '_' and '-', a letter or digit first"),
        N_("cloudrun launch {suggestion} …   (the rest as it was)"),
    ),
    "code-unreadable": Entry(
        Exit.CONFIG,
        N_("{path} cannot be read, so the project cannot be sent: {reason}"),
        N_("Give yourself the right to read it (chmod u+r), or leave it at home: add it to .cloudrunignore"),
    ),
    "code-too-many-files": Entry(
        Exit.CONFIG,
        N_("{folder} holds {files} files to send, more than {limit}; most of them lie in {largest}"),
        N_("Leave what the run does not need at home: echo '{largest}/' >> .cloudrunignore"),
    ),
    "project-is-home": Entry(
        Exit.CONFIG,
        N_("{folder} is no project's folder: the home and the root are never sent to a box, nor marked as a project"),
        N_("Go into the project's folder first: cd PROJECT && cloudrun launch …"),
    ),
    "project-not-writable": Entry(
        Exit.CONFIG,
        N_("the project's id cannot be kept in {path}: {reason}"),
        N_("Make the folder writable: chmod u+w {folder}"),
    ),
    "code-too-large": Entry(
        Exit.REFUSED,
        N_("{size} of code would be sent, more than {limit}. The largest files:\n{largest}"),
        N_("Leave data and weights at home (echo 'FOLDER/' >> .cloudrunignore), or send all of it: --allow-large"),
    ),
    "code-changing": Entry(
        Exit.REFUSED,
        N_("{path} was written to while it was being sent"),
        N_("Repeat the launch when nothing writes there any more, or leave it at home: add it to .cloudrunignore"),
    ),
}
