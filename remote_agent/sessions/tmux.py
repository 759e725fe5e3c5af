"""tmux: one server per run, on a socket of its own. Sessions are named by `=name`, which tmux matches whole.

On Python 3.10 and newer libtmux makes the session and its windows; below that the same commands go by argv. Both ways every
command runs through one door (`_Door`), which gives it a deadline and the environment of a session.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Protocol, Tuple

from remote_agent import processes, programs
from remote_agent.protocol import AgentError
from remote_agent.sessions import ending, environment, places, starting, terminal
from remote_agent.sessions.base import Found, Plan, check_escape
from remote_agent.words import _

_ASK_S = 10.0
_LISTING = "#{pid} #{session_attached} #{session_name}"


@dataclass
class Row:
    """One session of a server: the server's pid, how many clients are on it, its name."""

    pid: int
    clients: int
    name: str


def parse_listing(text: str) -> List[Row]:
    """The answer to `list-sessions -F '#{pid} #{session_attached} #{session_name}'`."""
    rows = []
    for line in text.splitlines():
        pid, __, rest = line.partition(" ")
        clients, __, name = rest.partition(" ")
        if pid.isdigit() and clients.isdigit() and name:
            rows.append(Row(int(pid), int(clients), name))
    return rows


def parse_version(text: str) -> Optional[str]:
    """"3.3a" of `tmux -V`; a development version is "next-3.4"."""
    match = re.search(r"tmux (\S+)", text)
    return match.group(1) if match else None


@dataclass
class _Door:
    """The way to one server: every command with a deadline, and with the environment a session may see."""

    path: str
    socket: str
    env: Dict[str, str]
    conf: str = "/dev/null"
    deadline_s: float = _ASK_S

    def ask(self, *command: str) -> programs.Finished:
        return programs.run([self.path, "-u", "-f", self.conf, "-S", self.socket, *command], self.deadline_s, self.env)


class _Maker(Protocol):
    """Makes a session with its first window, and further windows behind it."""

    def session(self, name: str, window: str, command: str) -> str:
        """Gives what tmux complained of."""

    def window(self, name: str, window: str, command: str) -> str:
        """Gives what tmux complained of."""


class _ByArgv:
    def __init__(self, door: _Door) -> None:
        self._door = door

    def session(self, name: str, window: str, command: str) -> str:
        return self._door.ask("new-session", "-d", "-s", name, "-n", window, command).text

    def window(self, name: str, window: str, command: str) -> str:
        return self._door.ask("new-window", "-d", "-t", "=%s:" % name, "-n", window, command).text


class _ByLibtmux:
    """The same through libtmux's objects, whose commands are led through the door."""

    def __init__(self, door: _Door) -> None:
        from libtmux import Server, exc
        from libtmux.common import tmux_cmd

        class Finished(tmux_cmd):
            """A command's end as libtmux expects it. Its own runner knows neither deadline nor environment."""

            def __init__(self, *command: Any) -> None:
                self.cmd = [str(word) for word in command]
                done = door.ask(*self.cmd)
                self.returncode = 124 if done.returncode is None else done.returncode
                self.stdout = done.stdout.decode("utf-8", "backslashreplace").splitlines()
                said = done.stderr.decode("utf-8", "backslashreplace").splitlines()
                late = _("no answer within {seconds:g} s").format(seconds=door.deadline_s)
                self.stderr = said or ([late] if done.timed_out else [])

        class DoorServer(Server):
            def cmd(self, cmd: str, *args: Any, target: Any = None) -> tmux_cmd:
                return Finished(cmd, *(() if target is None else ("-t", target)), *args)

        self._server = DoorServer(socket_path=door.socket, config_file=door.conf, tmux_bin=door.path)
        self._failure = exc.LibTmuxException

    def session(self, name: str, window: str, command: str) -> str:
        try:
            self._server.new_session(name, window_name=window, window_command=command)
        except (self._failure, IndexError) as error:  # IndexError: a session that was gone before tmux printed it
            return str(error)
        except ValueError:  # it cannot read what tmux printed where a folder's name has a line break; the session is there
            pass
        return ""

    def window(self, name: str, window: str, command: str) -> str:
        # By the server: a Session would be looked up again, past the door, and is not to be had after a ValueError.
        return "\n".join(self._server.cmd("new-window", "-d", "-n", window, command, target="=%s:" % name).stderr)


def _libtmux_is_there() -> bool:
    """Whether libtmux can serve: Python 3.10 or newer, and it lies beside the agent or, in development, is installed."""
    if sys.version_info < (3, 10):
        return False
    vendor = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "vendor")
    if vendor not in sys.path:
        sys.path.append(vendor)
    try:
        import libtmux  # noqa: F401
    except ImportError:
        return False
    return True


class Tmux:
    """Sessions of tmux. `by_libtmux` None: as the interpreter allows."""

    name = "tmux"

    def __init__(self, by_libtmux: Optional[bool] = None) -> None:
        self._by_libtmux = by_libtmux

    def version(self) -> Optional[str]:
        path = environment.program("tmux")
        if path is None:
            return None
        return parse_version(programs.run([path, "-V"], _ASK_S, environment.clean({})).text)

    def find(self, name: str) -> Optional[Found]:
        seen = [(socket, row) for socket, row in self._rows(name) if processes.start_ticks(row.pid)]
        if len(seen) > 1:
            raise AgentError("session-ambiguous", name=name, pids=[one[1].pid for one in seen])
        for socket, row in seen:
            return Found(socket, row.pid, row.clients)
        return None

    def start(self, plan: Plan, deadline_s: float) -> Found:
        keys = check_escape(plan.escape)
        path, ends = environment.need("tmux"), time.monotonic() + deadline_s
        folder = places.make("tmux", plan.name)
        with places.starting(folder, deadline_s):
            starting.refuse_second(self, plan)
            nonce = starting.nonce()
            env = environment.clean(dict(starting.env_of(plan), **_settings(path, keys), **{environment.NONCE: nonce}))
            door = _Door(path, os.path.join(folder, plan.name), env, plan.tmux_conf, deadline_s)
            make: _Maker = _ByLibtmux(door) if self._with_libtmux() else _ByArgv(door)
            said = make.session(plan.name, "train", _command(environment.in_front(plan.train, plan.cwd)))
            start = starting.Start(self, plan, nonce, ends, said)
            found = start.seen()
            self._add_windows(start, found, make)
            door.ask("set-option", "-g", "default-shell", environment.user_shell())
            return found

    def end(self, name: str) -> None:
        for socket, row in self._rows(name):
            server = processes.ref(row.pid)
            members = ending.family(row.pid)
            _door(socket, ending.QUIT_S).ask("kill-server")
            ending.after_quit(server, members, name)
            if os.path.lexists(socket):
                os.unlink(socket)
        places.tidy("tmux")

    def attach_argv(self, name: str, mode: str, term: str) -> Tuple[List[str], Dict[str, str]]:
        found = self._living(name)
        how = ["-d"] if mode == "take" else []
        argv = [environment.need("tmux"), "-u", "-f", "/dev/null", "-S", found.id, "attach-session", *how, "-t", "=" + name]
        return argv, environment.clean({"TERM": term})

    def leave_keys(self, name: str) -> str:
        prefix = _door(self._living(name).id).ask("show-options", "-gv", "prefix").stdout.decode("utf-8", "replace").strip()
        return "%s d" % re.sub(r"\AC-", "Ctrl-", prefix or "C-b")

    def _add_windows(self, start: starting.Start, found: Found, make: _Maker) -> None:
        """The windows beside the train window, which stays the one that is shown."""
        train = start.first_child(found.pid)
        for title, argv in (("monitor", start.plan.monitor), ("log", start.plan.log)):
            inside = environment.beside(argv, start.plan.cwd, train.pid, train.start_ticks)
            start.said += make.window(start.plan.name, title, _command(inside))
        start.await_children(found.pid, 3)

    def _with_libtmux(self) -> bool:
        return _libtmux_is_there() if self._by_libtmux is None else self._by_libtmux

    def _living(self, name: str) -> Found:
        found = self.find(name)
        if found is None:
            raise AgentError("session-not-running", name=name)
        return found

    def _rows(self, name: str) -> List[Tuple[str, Row]]:
        """Sessions of exactly this name. tmux is asked only where a socket of that name lies."""
        found: List[Tuple[str, Row]] = []
        for folder in places.existing("tmux"):
            socket = os.path.join(folder, name)
            if os.path.lexists(socket):
                said = _door(socket).ask("list-sessions", "-F", _LISTING).stdout.decode("utf-8", "replace")
                found.extend((socket, row) for row in parse_listing(said) if row.name == name)
        return found


def _door(socket: str, deadline_s: float = _ASK_S) -> _Door:
    return _Door(environment.need("tmux"), socket, environment.clean({}), deadline_s=deadline_s)


def _command(argv: List[str]) -> str:
    """tmux hands one text to a shell; it is /bin/sh, see `_settings`."""
    return "exec " + " ".join(shlex.quote(word) for word in argv)


def _settings(path: str, keys: Optional[Tuple[str, str]]) -> Dict[str, str]:
    """What the fixed words of tmux.conf ask of the environment. SHELL: what tmux runs commands with (not any user's fish)."""
    letter, literal = keys or ("b", "b")
    return {
        "SHELL": "/bin/sh",
        "CLOUDRUN_TMUX_TERM": terminal.window_term(path),
        "CLOUDRUN_TMUX_PREFIX": "C-" + letter,
        "CLOUDRUN_TMUX_LITERAL": literal if keys else "C-b",
    }
