"""hosts.toml, and the host commands from outside."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import pytest

from cloudrun.app.hosts import Wanted, add_host, list_hosts, remove_host, set_host, use_host
from cloudrun.config import paths
from cloudrun.config.hosts import load_hosts
from cloudrun.errors import CloudrunError


def add(name: str, target: str = "ssh -p 23456 root@h.example", **rest: str) -> None:
    add_host(name, Wanted(target, **rest), None)


def test_a_host_is_stored_privately_and_without_its_password(laptop: Path) -> None:
    (laptop / ".ssh").mkdir()
    (laptop / ".ssh" / "k").touch()
    stored = add_host("box", Wanted("ssh -p 23456 root@h.example\npassword: hunter2", key="~/.ssh/k"), None)
    path = paths.hosts_file()
    assert stored.notes
    assert "hunter2" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    (host,) = load_hosts()
    assert host.target == "ssh -p 23456 root@h.example"
    assert host.address.keys == (laptop / ".ssh" / "k",)
    assert (host.address.user, host.address.hostname, host.address.port) == ("root", "h.example", 23456)


@pytest.mark.parametrize(("wrong", "code"), [
    ({"data_dir": "data"}, "data-dir-relative"), ({"data_dir": "./data"}, "data-dir-relative"), ({"key": "/nope"}, "key-missing"),
])
def test_what_can_never_serve_is_refused_at_once_and_nothing_stored(laptop: Path, wrong: dict[str, str], code: str) -> None:
    for change in (add, lambda name, **rest: set_host(name, Wanted(**rest))):
        with pytest.raises(CloudrunError) as caught:
            change("box", **wrong)
        assert caught.value.code == code
    assert load_hosts() == []


def test_changes_keep_comments_and_what_was_not_given(laptop: Path) -> None:
    add("box", data_dir="/data", backend="tmux")
    path = paths.hosts_file()
    path.write_text(path.read_text().replace("[hosts.box]", "# the big one\n[hosts.box]  # rented"))
    set_host("box", Wanted("ssh -p 5 root@h2"))
    use_host("box")
    add("other")
    set_host("box", Wanted(data_dir=""))
    text = path.read_text()
    assert "# the big one" in text
    assert "# rented" in text
    hosts, default = list_hosts()
    assert default == "box"
    assert [(host.name, host.target, host.data_dir, host.backend) for host in hosts] == [
        ("box", "ssh -p 5 root@h2", None, "tmux"), ("other", "ssh -p 23456 root@h.example", None, "auto"),
    ]
    remove_host("box")
    assert list_hosts()[1] is None
    assert [host.name for host in load_hosts()] == ["other"]


def test_a_host_is_not_overwritten_by_another_of_its_name(laptop: Path) -> None:
    add("box")
    add("box")  # the same again is no quarrel
    with pytest.raises(CloudrunError) as caught:
        add("box", "root@elsewhere:22")
    assert caught.value.code == "host-exists"
    assert "host set box" in caught.value.hint


@pytest.mark.parametrize(("text", "place"), [
    ('[hosts.box]\ntarget = "h"\nport = 3\n', "port"),
    ('[hosts.box]\ntarget = 3\n', "$.hosts[...].target"),
    ('[hosts.box]\ntarget = "h"\nbackend = "byobu"\n', "$.hosts[...].backend"),
    ("[hosts.box\n", "line 1"),
])
def test_a_file_that_is_wrong_is_refused_with_the_place_and_left_alone(laptop: Path, text: str, place: str) -> None:
    path = paths.hosts_file()
    path.parent.mkdir(parents=True)
    path.write_text(text)
    for act in (load_hosts, lambda: add("new")):
        with pytest.raises(CloudrunError) as caught:
            act()
        assert caught.value.code == "hosts-file-wrong"
        assert place in caught.value.message
    assert path.read_text() == text


def test_two_writers_lose_nothing(laptop: Path) -> None:
    names = [f"box{number}" for number in range(12)]
    writers = [threading.Thread(target=add, args=(name,)) for name in names]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(20)
    assert sorted(host.name for host in load_hosts()) == sorted(names)


@pytest.mark.parametrize(("name", "shown"), [
    ("my box", "' '"), ("-x", "'-'"), ("盒子", "'盒'"), ("a" * 64, "63"), ("", "1 to 63"),
])
def test_names_are_checked_and_the_wrong_character_named(laptop: Path, name: str, shown: str) -> None:
    with pytest.raises(CloudrunError) as caught:
        add(name)
    assert shown in caught.value.message
    assert not paths.hosts_file().exists()


def test_the_commands_from_outside(laptop: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    from cloudrun.cli.main import run

    def said(*words: str) -> tuple[int, dict[str, object]]:
        code = run(["host", *words, "--json"])
        return code, json.loads(capfdbinary.readouterr().out)

    code, answer = said("add", "box", "ssh -p 23456 root@h.example", "--no-connect", "--backend", "screen")
    entry = {
        "name": "box", "target": "ssh -p 23456 root@h.example", "key": None, "data_dir": None, "backend": "screen",
        "python": None,
    }
    assert (code, answer) == (0, {"host": {**entry, "default": False}, "reached": None, "problem": None, "own_key": None})
    assert said("use", "box")[0] == 0
    assert said("ls") == (0, {"hosts": [{**entry, "default": True}]})
    code, answer = said("show", "box")
    assert answer["host"]["address"]["port"] == 23456  # type: ignore[index]
    code, answer = said("rm", "box")  # nobody to ask
    assert (code, answer["error"]["code"]) == (2, "nobody-to-ask")  # type: ignore[index]
    assert said("rm", "box", "--yes") == (0, {"removed": "box"})
    assert said("ls") == (0, {"hosts": []})
    assert said("add", "x", "ssh root@h ls")[0] == 2
