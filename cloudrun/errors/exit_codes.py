"""Exit codes of the command: one table, unique, the same that the README documents."""

from __future__ import annotations

from enum import IntEnum

from cloudrun.i18n import N_


class Exit(IntEnum):
    """What a script may rely on."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    RUN_FAILED = 3
    NO_SUCH_RUN = 4
    REFUSED = 5
    PREFLIGHT = 6
    CONFIG = 7
    UNREACHABLE = 10
    AUTHENTICATION = 11
    HOST_KEY_CHANGED = 12
    HOST_KEY_UNKNOWN = 13
    AGENT = 14
    UNKNOWN_OUTCOME = 15
    BOX = 16
    DOCTOR_WARNING = 20
    DOCTOR_FAILURE = 21
    INTERRUPTED = 130


MEANINGS: dict[Exit, str] = {
    Exit.OK: N_("done; for `logs -f`: the run succeeded"),
    Exit.INTERNAL: N_("a defect in cloudrun itself"),
    Exit.USAGE: N_("the command line is not right, or a terminal is needed and there is none"),
    Exit.RUN_FAILED: N_("the run failed (its own code is in the closing line and in JSON)"),
    Exit.NO_SUCH_RUN: N_("there is no such run"),
    Exit.REFUSED: N_("refused: something else stands there (a live run, another project's name)"),
    Exit.PREFLIGHT: N_("the box is not ready for the run (disk, inodes, GPU, session program)"),
    Exit.CONFIG: N_("host or project settings are missing or wrong"),
    Exit.UNREACHABLE: N_("the box cannot be reached (this says nothing about the runs on it)"),
    Exit.AUTHENTICATION: N_("the box refused the login"),
    Exit.HOST_KEY_CHANGED: N_("the box's host key is not the one that is known"),
    Exit.HOST_KEY_UNKNOWN: N_("the box's host key is not known and was not accepted"),
    Exit.AGENT: N_("the agent could not be started on the box"),
    Exit.UNKNOWN_OUTCOME: N_("the connection ended before the answer came; look before repeating"),
    Exit.BOX: N_("the box refused or failed an operation (disk, permissions, processes)"),
    Exit.DOCTOR_WARNING: N_("doctor: the worst finding is a warning"),
    Exit.DOCTOR_FAILURE: N_("doctor: the worst finding is a failure"),
    Exit.INTERRUPTED: N_("interrupted by Ctrl-C; a run on the box goes on"),
}
