"""The code goes from a folder at home to a tree on a real box: over sshd, to the agent, under the oldest Python too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cloudrun.agent import archive
from cloudrun.agent import code as sender
from cloudrun.agent.client import AgentClient
from cloudrun.errors import CloudrunError
from cloudrun.project.manifest import build_manifest
from cloudrun.transport import connect
from cloudrun.transport.base import Address, Options, Transport
from remote_agent.protocol import Spec
from tests.support.agentdir import oldest_python
from tests.support.codebox import Link, Script, on_disk
from tests.support.sshd import SshBox

PYTHONS = [sys.executable, *filter(None, [oldest_python()])]


class Nobody:
    def accept_host_key(self, host: str, key_type: str, fingerprint: str, known: str = "") -> bool:
        return True

    def password(self, prompt: str) -> str:
        raise AssertionError(prompt)


@dataclass
class Way:
    """A project at home, a box, and a connection between them."""

    box: SshBox
    project: Path
    python: str
    transport: Transport
    client: AgentClient

    def send(self, run: str = "exp", *, allow_large: bool = False) -> list[tuple[int, int]]:
        """Sends and applies; gives the progress that was told."""
        told: list[tuple[int, int]] = []
        staging = self.stage(run, lambda sent, total: told.append((sent, total)), allow_large=allow_large)
        self.apply(run, staging)
        return told

    def stage(self, run: str, progress: sender.Progress, *, allow_large: bool = False) -> str:
        spec = Spec(run, "proj", "p-1", "true", ".")
        return sender.send_code(self.client, build_manifest(self.project), spec, progress, allow_large=allow_large)

    def apply(self, run: str, staging: str) -> None:
        """What `launch` does with it, in a process of the box's Python."""
        agent = self.box.home / ".cloudrun/agent" / archive.installed().sha12
        work = ("import sys; sys.path.insert(0, sys.argv[1]); from remote_agent import code; "
                "code.apply('proj', 'p-1', sys.argv[2], sys.argv[3])")
        subprocess.run([self.python, "-I", "-c", work, str(agent), run, staging], check=True, timeout=60,
                       env={"HOME": str(self.box.home), "PATH": os.environ["PATH"], "LC_ALL": "C"})

    def tree(self, run: str = "exp") -> Path:
        return self.box.home / "cloudrun/proj" / run

    def stagings(self) -> list[str]:
        return os.listdir(self.box.home / "cloudrun/proj/.staging")


@pytest.fixture(params=PYTHONS, ids=lambda path: Path(path).name)
def way(box: SshBox, laptop: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(laptop / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(laptop / "settings"))
    options = Options(asker=Nobody(), known_hosts=laptop / "known_hosts", accept_new=True)
    transport = connect(Address("127.0.0.1", box.port, box.user, keys=(box.key,)), options)
    project = laptop / "project"
    project.mkdir()
    yield Way(box, project, request.param, transport, AgentClient.open(transport, request.param))
    transport.close()


newest = pytest.mark.parametrize("way", PYTHONS[:1], indirect=True, ids=["python"])


def fill(project: Path) -> None:
    (project / "pkg/deep").mkdir(parents=True)
    (project / "train.py").write_text("print('训练')\n" * 1000)
    (project / "run.sh").write_text("#!/bin/bash\n")
    (project / "run.sh").chmod(0o755)
    (project / "pkg/deep/数据.bin").write_bytes(bytes(range(256)) * 4000)
    (project / "pkg/empty.py").write_text("")
    (project / "new\nline -x").write_text("odd")
    Path(os.fsdecode(os.fsencode(project) + b"/latin-\xe9")).write_text("odd too")
    (project / "link").symlink_to("pkg/deep")
    (project / "away").symlink_to("/nowhere")
    (project / ".gitignore").write_text("*.log\n")
    (project / "x.log").write_text("stays home")


def test_the_tree_is_the_project_and_only_what_is_new_travels(way: Way) -> None:
    fill(way.project)
    told = way.send()
    at_home = on_disk(way.project)
    del at_home["x.log"]
    assert on_disk(way.tree()) == at_home
    assert at_home["link"] == Link("pkg/deep")
    assert isinstance(at_home["run.sh"], Script)
    total = sum(len(content) for content in at_home.values() if isinstance(content, bytes)) + len("#!/bin/bash\n")
    assert told[-1] == (total, total)
    assert [sent for sent, _ in told] == sorted(sent for sent, _ in told)

    assert way.send() == []
    (way.project / "train.py").write_text("new")
    (way.project / "pkg/empty.py").unlink()
    assert way.send("second") == [(3, 3)]
    assert not (way.tree("second") / "pkg/empty.py").exists()
    assert on_disk(way.tree()) == at_home
    assert way.stagings() == []


@newest
def test_too_much_is_refused_with_the_largest_files_and_leaves_nothing(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "LARGE_BYTES", 5_000_000)
    (way.project / "weights\x1b.pt").write_bytes(os.urandom(4_000_000))
    (way.project / "data.npy").write_bytes(os.urandom(2_000_000))
    (way.project / "small").write_text("x")
    told: list[int] = []
    with pytest.raises(CloudrunError) as caught:
        way.stage("exp", lambda sent, _: told.append(sent))
    assert caught.value.code == "code-too-large"
    lines = caught.value.message.splitlines()
    assert lines[0].startswith("6.0 MB of code would be sent, more than 5 MB")
    assert [" ".join(line.split()) for line in lines[1:]] == ["4 MB weights\\x1b.pt", "2 MB data.npy", "1 B small"]
    assert (told, way.stagings()) == ([], [])
    assert way.send(allow_large=True)[-1] == (6_000_001, 6_000_001)


@newest
def test_a_file_that_changes_while_it_is_sent_is_noticed(way: Way) -> None:
    for name in ("a", "b", "c"):
        (way.project / name).write_bytes(os.urandom(300_000))
    way.send()
    before = on_disk(way.tree())
    for name in ("a", "b", "c"):
        (way.project / name).write_bytes(os.urandom(300_000))
    changing = way.project / "c"
    for change in (lambda: changing.write_bytes(os.urandom(300_000)), changing.unlink,
                   lambda: changing.write_bytes(b"shorter"), lambda: changing.write_bytes(bytes(400_000))):
        changing.write_bytes(os.urandom(300_000))

        def progress(sent: int, _: int, change: Callable[[], object] = change) -> None:
            if sent == 300_000:
                change()

        with pytest.raises(CloudrunError) as caught:
            way.stage("exp", progress)
        assert caught.value.code == "code-changing"
        assert caught.value.params["path"].endswith("/c")
        assert way.stagings() == []
    assert on_disk(way.tree()) == before
    way.send()  # the same connection goes on
    assert on_disk(way.tree()) == on_disk(way.project)


@newest
def test_a_box_that_cannot_take_it_stops_the_sender(way: Way) -> None:
    for number in range(200):
        (way.project / f"f{number}").write_bytes(os.urandom(100_000))
    told: list[int] = []

    def progress(sent: int, total: int) -> None:
        told.append(sent)
        if len(told) == 2:
            for name in way.stagings():
                (way.box.home / "cloudrun/proj/.staging" / name / "blobs").rename(way.box.folder / "elsewhere")

    with pytest.raises(CloudrunError) as caught:
        way.stage("exp", progress)
    assert caught.value.code == "box-os-error"
    assert told[-1] < 20_000_000
    assert way.stagings() == []
    assert way.send()[-1] == (20_000_000, 20_000_000)


@newest
def test_a_lost_connection_leaves_the_old_tree_and_no_staging(way: Way, laptop: Path) -> None:
    (way.project / "a").write_text("old")
    way.send()
    (way.project / "a").write_bytes(os.urandom(3_000_000))

    def progress(sent: int, total: int) -> None:
        if total // 3 < sent < total // 2:
            way.box.drop_connections()

    with pytest.raises(CloudrunError) as caught:
        way.stage("exp", progress)
    assert caught.value.code == "outcome-unknown"
    assert on_disk(way.tree()) == {"a": b"old"}
    options = Options(asker=Nobody(), known_hosts=laptop / "known_hosts", accept_new=True)
    again = connect(way.transport.address, options)
    try:
        way.client = AgentClient.open(again, way.python)
        way.send()
    finally:
        again.close()
    assert on_disk(way.tree()) == on_disk(way.project)
    assert way.stagings() == []
