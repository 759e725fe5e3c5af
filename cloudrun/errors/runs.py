"""Errors about runs: launching, watching, ending."""

from __future__ import annotations

from cloudrun.errors.catalogue import Entry
from cloudrun.errors.exit_codes import Exit
from cloudrun.i18n import N_

ENTRIES: dict[str, Entry] = {
    "attach-unsupported": Entry(
        Exit.USAGE, N_("attach does not work on Windows yet"), N_("cloudrun logs -f {run}   (or run cloudrun inside WSL)"),
    ),
    "attach-declined": Entry(Exit.REFUSED, N_("{run} was left to whoever is attached"), N_("cloudrun attach {run} --shared   (or --take)")),
    "bad-pattern": Entry(
        Exit.USAGE,
        N_("--grep {pattern!r} is no regular expression: {detail}"),
        N_("Put a backslash before what is meant literally, for example --grep 'loss \\(train\\)'"),
    ),
    "launch-name-missing": Entry(
        Exit.USAGE, N_("the name is missing: cloudrun launch NAME -- {command}"), N_("cloudrun launch resnet50_cifar10_1201 -- {command}"),
    ),
    "run-died": Entry(
        Exit.RUN_FAILED,
        N_("{run} failed at once: {ending}"),
        N_("cloudrun logs {run}   (mend it, then launch it again)"),
    ),
    "launch-unknown": Entry(
        Exit.UNKNOWN_OUTCOME,
        N_("the connection to {host} ended before the box said how the launch of {run} came out"),
        N_("cloudrun launch {run} …   (the same command again is safe: it ends in one run)"),
    ),
    "bad-run-name": Entry(
        Exit.USAGE,
        N_("{run!r} cannot be a run's name: {character!r} is not allowed there"),
        N_("Letters, digits, - and _, at most 63, the first a letter or a digit: cloudrun launch resnet50_cifar10_1201"),
    ),
    "no-such-run": Entry(Exit.NO_SUCH_RUN, N_("there is no run {name} here{near}"), N_("cloudrun ps")),
    "no-such-attempt": Entry(
        Exit.NO_SUCH_RUN, N_("{run} has no attempt {attempt}; its newest is attempt {newest}"), N_("cloudrun logs {run}"),
    ),
    "no-runs": Entry(
        Exit.NO_SUCH_RUN, N_("there is no run here yet (looked in {data_dir})"), N_("cloudrun launch NAME -- python train.py   (what other projects have here: cloudrun ps)"),
    ),
    "run-name-taken": Entry(
        Exit.REFUSED,
        N_("the run {run} on this box belongs to another project, {project} ({run_dir})"),
        N_("Choose another name: cloudrun launch {run}_2 …   (what is there: cloudrun ps)"),
    ),
    "run-damaged": Entry(
        Exit.REFUSED,
        N_("the folder of {run} is damaged: whose it is cannot be read ({run_dir}/run.json)"),
        N_("cloudrun launch {run} --fresh …   (the rest as before; puts the old folder aside and deletes nothing)"),
    ),
    "run-live": Entry(
        Exit.REFUSED,
        N_("{run} is {state}: attempt {attempt}, launched {age_s} ago"),
        N_("cloudrun attach {run}   (or end it: cloudrun stop {run})"),
    ),
    "run-differs": Entry(
        Exit.REFUSED,
        N_("{run} is {state} (attempt {attempt}, launched {age_s} ago), and this launch is another: {differing}"),
        N_("cloudrun attach {run}   (or end it: cloudrun stop {run}; or launch beside it: cloudrun launch {run}_2 …)"),
    ),
    "run-half-alive": Entry(
        Exit.REFUSED,
        N_("the supervisor of {run} is gone, but processes of the run go on without it"),
        N_("cloudrun stop {run}   (then launch it again; it goes on from its checkpoints)"),
    ),
    "session-of-another": Entry(
        Exit.REFUSED,
        N_("a run named {run} on another data disk of this box lives (its {backend} session, pid {pid})"),
        N_("cloudrun host show   (says which data disk is used; or launch under another name)"),
    ),
    "run-not-live": Entry(Exit.REFUSED, N_("{run} has no session to attach to: it is {state}"), N_("cloudrun logs {run}")),
    "run-busy": Entry(
        Exit.REFUSED,
        N_("another launch, stop or removal of {run} is at work on the box, for {waited_s} s and longer"),
        N_("cloudrun ps   (then the same command again)"),
    ),
    "launch-again": Entry(
        Exit.REFUSED,
        N_("another launch of {run} came between this one's preparation and its start; nothing was started by this one"),
        N_("cloudrun launch {run} …   (the same command again)"),
    ),
    "launch-silent": Entry(
        Exit.UNKNOWN_OUTCOME,
        N_("the session of {run} lives, but its supervisor has said nothing for {waited_s} s"),
        N_("cloudrun attach {run}   (or end it: cloudrun stop {run})"),
    ),
    "archive-full": Entry(
        Exit.BOX,
        N_("the old folder of {run} could not be put aside: every name for this second is taken in {path}"),
        N_("cloudrun launch {run} --fresh …   (the same command again)"),
    ),
    "bad-secret": Entry(
        Exit.CONFIG,
        N_("the secret {name!r} cannot be set: its name is no variable's name, or its value holds a NUL character"),
        N_("Mend the env_file, then the same launch again"),
    ),
    "stop-left": Entry(
        Exit.BOX,
        N_("{run} was ended, but processes {pids} are stuck in the kernel and cannot be killed"),
        N_("cloudrun stop {run}   (again later; a hanging disk or driver holds them, in the end only the box's off and on helps)"),
    ),
    "rm-declined": Entry(Exit.REFUSED, N_("{run} was left as it is"), N_("cloudrun rm {run} --yes")),
}
