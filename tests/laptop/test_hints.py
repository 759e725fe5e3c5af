"""Hints are typed as they stand: they name the host and what is known, and never a command that would not do."""

from __future__ import annotations

import pytest

from cloudrun.cli.context import Context, naming
from cloudrun.errors import CloudrunError
from cloudrun.errors.assembled import CATALOGUE
from tests.support.cli import Laptop


def add(cloudrun: Laptop, *names: str) -> None:
    for name in names:
        cloudrun.run("host", "add", name, "ssh -p 1 root@127.0.0.1", "--no-connect")


def test_an_error_of_a_host_names_it(cloudrun: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloudrun.cli.context.CONNECT_TIMEOUT_S", 0.5)  # the port refuses; nothing boots there
    add(cloudrun, "box")
    assert 'cloudrun host set box "ssh' in cloudrun.run("ps", code=10).err
    assert 'cloudrun host set box "ssh' in cloudrun.run("logs", "x", code=10).err
    assert 'cloudrun host add gpu "ssh' in cloudrun.run("host", "add", "gpu", "root@", code=2).err
    assert 'cloudrun host set box "ssh' in cloudrun.run("host", "set", "box", "root@", code=2).err
    assert "--backend auto" in cloudrun.run("host", "add", "gpu", "root@x", "--backend", "zellij", code=2).err


def test_no_hint_has_a_name_to_fill_in_that_is_known_where_it_arises() -> None:
    for code, entry in CATALOGUE.items():
        assert "host set NAME" not in entry.hint, code
        assert "host add NAME" not in entry.hint or code == "local-needs-posix", code
        assert "cloudrun launch RUN" not in entry.hint, code
    assert "host set NAME --key" in CloudrunError("key-empty", file="x").hint
    with pytest.raises(CloudrunError) as caught, naming("box"):
        raise CloudrunError("data-dir-not-writable", path="/x", stands="/")
    assert "host set box --data-dir" in caught.value.hint


def test_a_hint_goes_to_the_host_that_was_meant_where_another_would_be(cloudrun: Laptop) -> None:
    hint = "cloudrun logs -f exp   (or: cloudrun stop exp; cloudrun doctor --host box)"
    with_host = "cloudrun logs -H box -f exp   (or: cloudrun stop -H box exp; cloudrun doctor --host box)"
    add(cloudrun, "box")
    context = Context()
    context.host("box")
    assert context.here(hint) == hint
    add(cloudrun, "other")
    assert context.here(hint) == with_host
    cloudrun.run("host", "use", "box")
    assert context.here(hint) == hint
    cloudrun.run("host", "use", "other")
    assert context.here(hint) == with_host
    context.host(None)
    assert context.here(hint) == hint


def test_a_hint_does_not_pretend_to_know_the_command(cloudrun: Laptop) -> None:
    done = cloudrun.run("launch", "a b", "--", "python", "train.py", code=2)
    assert "cloudrun launch a_b …" in done.err
    assert CloudrunError("launch-again", run="x").hint.startswith("cloudrun launch x …")


def test_what_is_not_there_is_not_said(cloudrun: Laptop) -> None:
    assert CloudrunError("no-such-run", name="x", near=[]).message == "there is no run x here"
    assert CloudrunError("no-such-run", name="x", near=["y", "z"]).message == "there is no run x here; near it: y, z"
    assert cloudrun.json("ps", "-H", "x", code=7)["error"]["message"] == "there is no host 'x'"
    assert CloudrunError("no-terminal", what="attach", run="").hint == "cloudrun logs -f"


def test_a_pipe_gets_whole_lines_without_blanks_at_their_ends(cloudrun: Laptop) -> None:
    cloudrun.env["COLUMNS"] = "30"
    login = "ssh -p 1 -i /a/very/long/path/of/a/key/that/is/wider/than/this root@127.0.0.1"
    cloudrun.run("host", "add", "box", login, "--no-connect")
    add(cloudrun, "b")
    lines = cloudrun.run("host", "ls").out.splitlines()
    assert [line.split()[0] for line in lines] == ["name", "box", "b"]
    assert all(line == line.rstrip() for line in lines)


def test_only_what_takes_much_of_a_disk_is_named() -> None:
    taken = [{"path": "/data/set", "size_bytes": 40 * 10**9}, {"path": "/data/x", "size_bytes": 135_000}]
    params = {"path": "/data", "free_bytes": 10**9, "total_bytes": 271 * 10**9, "needed_bytes": 5 * 10**9}
    assert CloudrunError("disk-low", **params, largest=taken).message.endswith("needs 5 GB; most is taken by: /data/set (40 GB)")
    assert CloudrunError("disk-low", **params, largest=taken[1:]).message.endswith("needs 5 GB")


def test_a_secrets_file_of_the_table_is_not_blamed_on_an_option(cloudrun: Laptop) -> None:
    (cloudrun.project / "cloudrun.toml").write_text('[runs.exp]\ncommand = "true"\nenv_file = ".env"\n')
    assert "--env-file" not in cloudrun.run("launch", "exp", "-H", "local", code=7).err
    (cloudrun.project / ".env").write_text("")
    assert "--env-file" in cloudrun.run("launch", "exp", "-H", "local", "--env-file", "none", code=7).err
