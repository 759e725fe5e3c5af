"""What a session's processes see: the box's environment without what belongs to a terminal or another session."""

from __future__ import annotations

import os
from typing import Dict, List, Optional

from remote_agent import silence
from remote_agent.protocol import AgentError

#: Says whose start a process belongs to while its session is being made; the windows' programs never see it.
NONCE = "CLOUDRUN_SESSION_NONCE"
#: `<pid>:<start ticks>` of the train window's program: the other windows go when it is gone.
TRAIN = "CLOUDRUN_SESSION_TRAIN"

#: Of the multiplexers themselves.
_OURS = (
    "STY", "WINDOW", "TERMCAP", "SCREENDIR", "SCREENRC", "SYSSCREENRC", "TMUX", "TMUX_PANE", "TMUX_TMPDIR",
    "CLOUDRUN_TMUX_TERM", "CLOUDRUN_TMUX_PREFIX", "CLOUDRUN_TMUX_LITERAL", NONCE,
)
#: Of the login that starts the session and will be gone long before it.
_LOGIN = ("SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "LINES", "COLUMNS", "OLDPWD", "PWD", "SHLVL", "_", TRAIN)

#: Of a run that launches another: the new session is no part of it, and its stop must not reach there.
_RUN = (
    "CLOUDRUN_RUN_DIR", "CLOUDRUN_SUPERVISED", "CLOUDRUN_STEP", "CLOUDRUN_ATTEMPT", "CLOUDRUN_LOG", "CLOUDRUN_EXIT_RECORD",
    "CLOUDRUN_DATA_DIR",
)

_UNSET = "unset %s" % " ".join(_OURS)
#: screen pushes the first lines out of sight when it shrinks a window to fit the terminal that attaches, be it as good as
#: empty. Its windows begin lower than any terminal is, so that the first attach lets them grow, which keeps every line.
_LOW = 'test -z "$STY" || printf "\\033[8;10;80t"; '
#: $1 the user's shell, $2 the folder, then the program's argv.
_IN_FRONT = _LOW + _UNSET + '; SHELL="$1"; export SHELL; cd -- "$2" || exit 127; shift 2; exec "$@"'
#: Whether process $train of start time $ticks lives. `kill -0` would not do: tmux may leave a zombie for as long as it has
#: windows, and the windows wait for it to go; and a pid may come again.
_LIVES = ('lives() { read -r said 2>/dev/null <"/proc/$train/stat" || return 1; set -- ${said##*) }; '
          'test "$1" != Z && test "${20}" = "$ticks"; }; ')
#: $1 pid and $2 start time of the train window's program, then $1 … as above. A window whose program dies shows it
#: again a little later; Ctrl-C in it does nothing.
_BESIDE = _LIVES + _LOW + _UNSET + (
    '; trap "" INT QUIT TSTP; train="$1"; ticks="$2"; %s="$1:$2"; export %s; SHELL="$3"; export SHELL; cd -- "$4" || cd /; '
    'shift 4; while lives; do "$@"; code=$?; lives || exit 0; '
    'echo "[this window\'s program ended ($code); it starts again in 5 s]"; sleep 5; done'
) % (TRAIN, TRAIN)


def program(name: str) -> Optional[str]:
    """Path of a program, also where a non-interactive PATH is short."""
    path = os.environ.get("PATH", "") + ":/usr/local/bin:/usr/bin:/bin"
    return silence.which(name, path)


def need(name: str) -> str:
    """Path of a session program. Raises AgentError "backend-missing"."""
    path = program(name)
    if path is None:
        raise AgentError("backend-missing", backend=name)
    return path


def clean(more: Dict[str, str]) -> Dict[str, str]:
    """The environment of this process without what must not leak into a session, and `more` on top."""
    env = {name: value for name, value in os.environ.items() if name not in _OURS + _LOGIN + _RUN}
    env.update(more)
    return env


def user_shell() -> str:
    shell = os.environ.get("SHELL", "")
    if os.path.isabs(shell) and os.access(shell, os.X_OK):
        return shell
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


def in_front(argv: List[str], cwd: str) -> List[str]:
    """The train window's command: the program itself, with the multiplexer's variables gone; its pid is the window's."""
    return ["/bin/sh", "-c", _IN_FRONT, "cloudrun", user_shell(), cwd, *argv]


def beside(argv: List[str], cwd: str, train_pid: int, train_ticks: int) -> List[str]:
    """Another window's command: it outlives its program and goes with the train window's."""
    return ["/bin/sh", "-c", _BESIDE, "cloudrun", str(train_pid), str(train_ticks), user_shell(), cwd, *argv]
