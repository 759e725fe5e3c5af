"""GNU screen. Its exit codes mean nothing: what is true stands in the listing, where a name is matched whole."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from remote_agent import processes, programs
from remote_agent.protocol import AgentError
from remote_agent.sessions import ending, environment, places, starting, terminal
from remote_agent.sessions.base import Found, Plan, check_escape

_ASK_S = 10.0
_DEAD = re.compile(r"\((?:Dead|Unreachable|Remote or dead)\b[^)]*\)\s*\Z")
_ATTACHED = re.compile(r"\((?:Attached|Multi, attached)\)\s*\Z")


@dataclass
class Row:
    """One line of `screen -ls`. `id` is the full `<pid>.<name>`, the only thing screen may be addressed by."""

    id: str
    pid: int
    name: str
    alive: bool
    attached: bool


def parse_listing(text: str) -> List[Row]:
    """`screen -ls` by its tabs: the date may be missing or in any language, a name may hold dots and spaces."""
    rows = []
    for line in text.splitlines():
        columns = line.rstrip("\r").split("\t")
        if len(columns) < 3 or columns[0].strip():
            continue
        pid, dot, name = columns[1].partition(".")
        if pid.isdigit() and dot:
            rows.append(Row(id=columns[1], pid=int(pid), name=name, alive=not _DEAD.search(columns[-1]),
                            attached=bool(_ATTACHED.search(columns[-1]))))
    return rows


def parse_version(text: str) -> Optional[str]:
    """"4.09.00" of `screen --version`."""
    match = re.search(r"Screen version (\S+)", text)
    return match.group(1) if match else None


class Screen:
    """Sessions of screen, in folders of our own."""

    name = "screen"

    def version(self) -> Optional[str]:
        path = environment.program("screen")
        if path is None:
            return None
        return parse_version(programs.run([path, "--version"], _ASK_S, environment.clean({})).text)

    def find(self, name: str) -> Optional[Found]:
        seen = self._seen(name)
        if len(seen) > 1:
            raise AgentError("session-ambiguous", name=name, pids=[row.pid for _, row in seen])
        for _, row in seen:
            return Found(row.id, row.pid, int(row.attached))
        return None

    def start(self, plan: Plan, deadline_s: float) -> Found:
        check_escape(plan.escape)
        path, ends = environment.need("screen"), time.monotonic() + deadline_s
        folder = places.make("screen", plan.name)
        with places.starting(folder, deadline_s):
            starting.refuse_second(self, plan)
            self._wipe(plan.name)
            nonce = starting.nonce()
            term = terminal.window_term(path)
            env = _env(folder, dict(starting.env_of(plan), TERM=term, **{environment.NONCE: nonce}))
            argv = [path, "-U", "-T", term, "-c", plan.screenrc, *(["-e", plan.escape] if plan.escape else []),
                    "-dmS", plan.name, "-t", "train", *environment.in_front(plan.train, plan.cwd)]
            said = programs.run(argv, deadline_s, env)
            start = starting.Start(self, plan, nonce, ends, said.text)
            found = start.seen()
            self._add_windows(start, found, _Ask(path, folder, env, found.id))
            return found

    def end(self, name: str) -> None:
        for folder, row in self._rows(name):
            if not row.alive:
                continue
            server = processes.ref(row.pid)
            members = ending.family(row.pid)
            programs.run([environment.need("screen"), "-S", row.id, "-X", "quit"], ending.QUIT_S, _env(folder, {}))
            ending.after_quit(server, members, name)
        self._wipe(name)
        places.tidy("screen")

    def attach_argv(self, name: str, mode: str, term: str) -> Tuple[List[str], Dict[str, str]]:
        for folder, row in self._seen(name):
            how = {"plain": ["-r"], "take": ["-d", "-r"], "shared": ["-x"]}[mode]
            # -p 0: the train window first, and not the one that was made last.
            return [environment.need("screen"), "-U", *how, row.id, "-p", "0"], _env(folder, {"TERM": term})
        raise AgentError("session-not-running", name=name)

    def leave_keys(self, name: str) -> str:
        for _, row in self._seen(name):
            return "Ctrl-%s d" % _escape_letter(row.pid)
        raise AgentError("session-not-running", name=name)

    def _add_windows(self, start: starting.Start, found: Found, ask: "_Ask") -> None:
        """The windows beside the train window."""
        train = start.first_child(found.pid)
        for number, (title, argv) in enumerate((("monitor", start.plan.monitor), ("log", start.plan.log)), 1):
            inside = environment.beside(argv, start.plan.cwd, train.pid, train.start_ticks)
            ask.create(title, number, inside, start.left_s())
        start.await_children(found.pid, 3)

    def _seen(self, name: str) -> List[Tuple[str, Row]]:
        return [(folder, row) for folder, row in self._rows(name) if row.alive and processes.start_ticks(row.pid)]

    def _rows(self, name: str) -> List[Tuple[str, Row]]:
        """Every row of exactly this name. Screen is asked only where a socket of that name lies."""
        found: List[Tuple[str, Row]] = []
        for folder in places.existing("screen"):
            if not any(entry.partition(".")[2] == name for entry in os.listdir(folder)):
                continue
            said = programs.run([environment.need("screen"), "-ls"], _ASK_S, _env(folder, {}))
            found.extend((folder, row) for row in parse_listing(said.text) if row.name == name)
        return found

    def _wipe(self, name: str) -> None:
        """Takes away the sockets of this name whose server is gone; others' are left alone."""
        for folder in places.existing("screen"):
            for entry in os.listdir(folder):
                pid, _, of = entry.partition(".")
                if of == name and pid.isdigit() and processes.start_ticks(int(pid)) is None:
                    os.unlink(os.path.join(folder, entry))


@dataclass
class _Ask:
    """Commands to one session by its full id."""

    path: str
    folder: str
    env: Dict[str, str]
    id: str

    def create(self, title: str, number: int, argv: List[str], deadline_s: float) -> None:
        """A window. Sent the way `screen` inside a session sends it: `-X screen …` would expand `$` and `^` in argv."""
        programs.run([self.path, "-U", "-t", title, str(number), *argv], deadline_s, dict(self.env, STY=self.id))


def _env(folder: str, more: Dict[str, str]) -> Dict[str, str]:
    """For every call of screen: our sockets, nobody's settings but ours."""
    return environment.clean(dict(more, SCREENDIR=folder, SYSSCREENRC="/dev/null", SCREENRC="/dev/null"))


def _escape_letter(pid: int) -> str:
    """From the server's own command line, which is what it really uses."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as stream:
            argv = stream.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return "a"
    before = argv[:argv.index("-dmS")] if "-dmS" in argv else []
    escape = check_escape(before[before.index("-e") + 1]) if "-e" in before[:-1] else None
    return escape[0] if escape else "a"
