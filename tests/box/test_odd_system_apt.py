"""Installing with the real apt and dpkg: locked, asking, cut off by a deadline, with servers that are not there."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import aptbox
from tests.support.aptbox import Package
from tests.support.cli import Laptop
from tests.support.namespace import in_mount_namespace
from tests.support.sshd import SshBox

#: Asks by debconf and on its own: nobody is there to answer. A settings file that somebody changed is there already.
ASKING = """\
test "$DEBIAN_FRONTEND" = noninteractive
test "$NEEDRESTART_MODE" = l
if test -z "$DEBIAN_HAS_FRONTEND" && read -r answer; then exit 9; fi
. /usr/share/debconf/confmodule
db_input critical debconf/frontend || :
db_go
"""
HOLD = """\
import fcntl, sys
lock = open("/var/lib/dpkg/lock-frontend", "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[SshBox]:
    """A box without screen and tmux, whose only source knows tmux alone, and which has no list of any package."""
    folder = tmp_path / "box"
    line = aptbox.source(folder / "source", Package("tmux", postinst=ASKING, conffile="new\n"))
    box = SshBox(folder, mounts=aptbox.mounts(folder, line) + "echo mine >/etc/tmux.conf\n").start()
    yield box
    box.stop()


def test_a_locked_apt_is_waited_for_and_what_it_has_serves(bare: SshBox, cloudrun: Laptop) -> None:
    """The holder is named; then the list is fetched once, and of the two programs the one that there is holds the session."""
    cloudrun.know(bare)
    assert bare.process is not None
    there = ["nsenter", "--mount", "--target", str(bare.process.pid), "--wd=/"]
    holding = subprocess.Popen([*there, "python3", "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    launching = cloudrun.start("launch", "exp", "--", "bash", "-c", "echo up; sleep 300")
    try:
        assert holding.stdout is not None
        assert holding.stdout.readline() == b"held\n"
        assert launching.stderr is not None
        said = b""
        while b"is locked by" not in said:
            line = launching.stderr.readline()
            assert line, said.decode()
            said += line
        assert f"locked by python3 (pid {holding.pid}); waiting up to".encode() in said
        holding.communicate(timeout=10)
        more = launching.communicate(timeout=30)[1]
        assert launching.returncode == 0, (said + more).decode()
        assert cloudrun.state("exp")["backend"] == "tmux"
        assert Path(f"/proc/{bare.process.pid}/root/etc/tmux.conf").read_text() == "mine\n"
        cloudrun.run("stop", "exp", "--grace", "1")
    finally:
        for process in (holding, launching):
            process.kill()
            process.communicate()


INSTALL = """
import json, sys
from remote_agent import packages, patience
from remote_agent.protocol import AgentError
def install(program, deadline_s):
    try:
        packages.install(program, lambda kind, **params: None, deadline_s)
        print(json.dumps(["installed", {}]), flush=True)
    except AgentError as error:
        print(json.dumps([error.code, error.params]), flush=True)
"""
AT_WORK = """
import subprocess, time, types
def status(name):
    return subprocess.run(["dpkg-query", "-f", "${Status}", "-W", name], capture_output=True, text=True).stdout
def await_(what):
    ends = time.monotonic() + 10
    while not what():
        assert time.monotonic() < ends
        time.sleep(0.02)
def over_when_there(path):
    late = types.SimpleNamespace(monotonic=lambda: time.monotonic() + (1000 if os.path.exists(path) else 0))
    patience.time = late
subprocess.run(["apt-get", "update"], stdout=subprocess.DEVNULL)
over_when_there("{base}/screen-begun")
patience._ENDING_S, patience.GRACE_S = 0.2, 0.4
install("screen", 60)
at_work = status("screen")
open("{base}/go", "w").close()
await_(lambda: status("screen") == "install ok installed" and packages.dpkg.holder() is None)
print(json.dumps([at_work, os.listdir("/var/lib/dpkg/updates")]))
over_when_there("{base}/tmux-begun")
patience.GRACE_S = 20.0
install("tmux", 60)
print(json.dumps([status("tmux"), os.listdir("/var/lib/dpkg/updates")]))
"""


def test_dpkg_is_never_cut_off_in_the_middle(tmp_path: Path) -> None:
    """The time is over while dpkg is at work: it is left to finish, with its pid; one that finishes soon is waited for."""
    slow = f"echo preparing\ntouch {tmp_path}/screen-begun\nwhile ! test -e {tmp_path}/go; do sleep 0.05; done\n"
    soon = f"touch {tmp_path}/tmux-begun\nsleep 0.7\n"
    line = aptbox.source(tmp_path / "source", Package("screen", preinst=slow), Package("tmux", preinst=soon))
    script = INSTALL + AT_WORK.replace("{base}", str(tmp_path))
    said = in_mount_namespace(tmp_path, aptbox.mounts(tmp_path, line), script, sys.executable)
    first, at_work, second, after = map(json.loads, said.splitlines())
    assert first[0] == "install-goes-on", first
    assert first[1]["pid"] > 0
    assert "preparing" in first[1]["output"]
    assert at_work == ["install reinstreq half-installed", []]
    assert second[0] == "installed", second
    assert after == ["install ok installed", []]


WITHOUT_SERVERS = """
def sources(port):
    with open("/etc/apt/sources.list", "w") as stream:
        stream.write("deb [trusted=yes] http://127.0.0.1:%d/ ./\\n" % port)
sources(1)
install("screen", 30)
sources({port})
install("screen", 1.5)
def working():
    return [name for name in os.listdir("/proc") if name.isdigit() and b"/lib/apt/methods" in cmdline(name)]
def cmdline(pid):
    try:
        return open("/proc/%s/cmdline" % pid, "rb").read()
    except OSError:
        return b""
print(json.dumps(working()))
open("/var/lib/dpkg/updates/0003", "w").close()
install("screen", 30)
"""


def test_servers_that_refuse_and_servers_that_say_nothing(tmp_path: Path) -> None:
    """A refusal is said at once; silence costs the deadline, and nothing of apt's is left. A dpkg that was cut off is named."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        script = INSTALL + WITHOUT_SERVERS.replace("{port}", str(silent.getsockname()[1]))
        said = in_mount_namespace(tmp_path, aptbox.mounts(tmp_path, ""), script, sys.executable)
    refused, hung, left, interrupted = map(json.loads, said.splitlines())
    assert refused[0] == "install-unreachable", refused
    assert "Could not connect to 127.0.0.1:1" in refused[1]["output"]
    assert refused[1]["command"] == "apt-get -y install screen"
    assert hung[0] == "install-timeout", hung
    assert left == []
    assert interrupted[0] == "install-interrupted", interrupted
