"""A process of its own, for boxes where neither screen nor tmux can be had. It can be watched, not entered."""

from __future__ import annotations

import os
import select
import signal
import time
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from remote_agent import atomic, layout, processes
from remote_agent.protocol import AgentError, encode
from remote_agent.sessions import ending, environment, places, starting
from remote_agent.sessions.base import Found, Plan, check_escape
from remote_agent.words import _

_MAX_FDS = 65536


class Detached:
    """Sessions without a terminal: only the train window's program runs."""

    name = "detached"

    def version(self) -> Optional[str]:
        return "1"

    def find(self, name: str) -> Optional[Found]:
        for path in _records(name):
            record = layout.read_record(places.Record, path)
            if record is not None and record.lives():
                return Found(str(record.process.pid), record.process.pid, 0)
        return None

    def start(self, plan: Plan, deadline_s: float) -> Found:
        check_escape(plan.escape)
        folder = places.make("detached", plan.name)
        with places.starting(folder, deadline_s):
            starting.refuse_second(self, plan)
            env = environment.clean(dict(starting.env_of(plan), TERM="dumb"))
            record = os.path.join(folder, plan.name + ".json")
            pid = _Child(environment.in_front(plan.train, plan.cwd), env, record, plan.name).start(deadline_s)
            return Found(str(pid), pid, 0)

    def end(self, name: str) -> None:
        found = self.find(name)
        if found is not None and found.pid not in ending.own_line():
            members = ending.family(found.pid)
            ending.send(processes.ref(found.pid), signal.SIGTERM)
            ending.wait_gone(members, ending.GRACE_S, name)
        for path in _records(name):
            os.unlink(path)
        places.tidy("detached")

    def attach_argv(self, name: str, mode: str, term: str) -> Tuple[List[str], Dict[str, str]]:
        raise AgentError("detached-cannot-attach" if self.find(name) else "session-not-running", name=name)

    def leave_keys(self, name: str) -> str:
        raise AgentError("detached-cannot-attach" if self.find(name) else "session-not-running", name=name)


def _records(name: str) -> List[str]:
    """Files of exactly this name, where there are any."""
    paths = (os.path.join(folder, name + ".json") for folder in places.existing("detached"))
    return [path for path in paths if os.path.exists(path)]


@dataclass
class _Child:
    """A process that is nobody's child and in nobody's session, with nothing of ours open.

    It waits for a word before it becomes the program: by then its record lies on the disk, so that no process runs
    that a later look could not find.
    """

    argv: List[str]
    env: Dict[str, str]
    record: str
    name: str

    def start(self, deadline_s: float) -> int:
        """Gives its pid. Raises AgentError "session-start-failed" with the reason, OSError where the record cannot be."""
        ends = time.monotonic() + deadline_s
        go_reader, go_writer = os.pipe()
        word_reader, word_writer = os.pipe()
        middle = os.fork()
        if middle == 0:
            self._become(go_reader, word_writer)
        os.close(go_reader)
        os.close(word_writer)
        os.waitpid(middle, 0)
        try:
            pid = int(_read_line(word_reader, ends) or "0")
            self._write_record(pid)
            os.write(go_writer, b"\n")
            failure = _read_line(word_reader, ends)
        finally:
            os.close(go_writer)
            os.close(word_reader)
        if failure:
            os.unlink(self.record)
            raise AgentError("session-start-failed", backend="detached", detail=failure)
        return pid

    def _write_record(self, pid: int) -> None:
        process = processes.ref(pid)
        if process is None:
            raise AgentError("session-start-failed", backend="detached", detail=_("the process did not begin"))
        atomic.write_json(self.record, encode(places.Record(self.name, process, processes.box_id())), 0o600)

    def _become(self, go_reader: int, word_writer: int) -> None:
        """The life of both children: only calls of the system, for other threads are not here. Never returns."""
        try:
            os.setsid()
            if os.fork() != 0:
                os._exit(0)
            # The leader of its own session, as a login's shell is; it opens no terminal, so none becomes its own.
            os.setsid()
            _only_null_and(go_reader, word_writer)
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.write(word_writer, b"%d\n" % os.getpid())
            if os.read(go_reader, 1):
                os.chdir("/")
                os.execve(self.argv[0], self.argv, self.env)
        except BaseException as error:
            os.write(word_writer, ("%s\n" % error).encode("utf-8", "replace"))
        finally:
            os._exit(127)


def _only_null_and(*kept: int) -> None:
    """The three standard descriptors at /dev/null and everything else closed but these, which close on exec."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    limit = min(os.sysconf("SC_OPEN_MAX"), _MAX_FDS)
    edges = [2, *sorted(kept), max(limit, max(kept) + 1)]
    for i in range(1, len(edges)):
        os.closerange(edges[i - 1] + 1, edges[i])


def _read_line(fd: int, ends: float) -> str:
    """A line, or what there was at the end of the stream. Raises AgentError where the deadline passes."""
    data = b""
    while not data.endswith(b"\n"):
        ready = select.select([fd], [], [], max(0.0, ends - time.monotonic()))[0]
        if not ready:
            raise AgentError("session-start-failed", backend="detached", detail=_("no word from the process in time"))
        piece = os.read(fd, 1)
        if not piece:
            break
        data += piece
    return data.decode("utf-8", "replace").strip()
