"""Names of ~/.ssh/config, asked through the real `ssh -G`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cloudrun.config.hosts import Host, address_of
from cloudrun.errors import CloudrunError
from cloudrun.transport.sshconfig import Asked, look_up, parse_answer, resolve
from tests.support.sshd import program

CONFIG = """\
Include {folder}/conf.d/*.conf
Host autodl-*
    HostName region-9.example.net
    Port 23456
    User root
    IdentityFile {folder}/id_ed25519_%h
    IdentityFile "{folder}/my keys/work"
    IdentityFile {folder}/not-there
    IdentitiesOnly yes
    ProxyJump ops@bastion.example.net:2200,[2001:db8::9]:2201
Host behind
    HostName gpu.example.net
    ProxyCommand nc -X 5 -x 127.0.0.1:1080 %h %p
Match host *.example.net exec "test -f {folder}/vpn-up"
    ProxyCommand nc -X 5 -x 127.0.0.1:1081 %h %p
Host loop
    ProxyJump loop
Match final all
    ServerAliveInterval 20
Host *
    Port 22
"""


@pytest.fixture
def config(tmp_path: Path, laptop: Path) -> Path:
    program("ssh")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "my keys").mkdir()
    for key in ("id_ed25519_region-9.example.net", "my keys/work"):
        (tmp_path / key).write_text("")
    (tmp_path / "conf.d" / "gpu.conf").write_text("Host gpu1\n    HostName 127.0.0.1\n    Port 2299\n    User root\n")
    path = tmp_path / "config"
    path.write_text(CONFIG.format(folder=tmp_path))
    return path


def test_an_included_host_is_found(config: Path) -> None:
    found = resolve(Asked("gpu1", config=config))
    assert (found.hostname, found.port, found.user, found.keys) == ("127.0.0.1", 2299, "root", ())


def test_keys_tokens_and_jumps_come_resolved(config: Path) -> None:
    found = resolve(Asked("autodl-7", config=config))
    assert (found.hostname, found.port, found.user, found.identities_only) == ("region-9.example.net", 23456, "root", True)
    assert [key.name for key in found.keys] == ["id_ed25519_region-9.example.net", "work"]  # the missing one is dropped
    first, second = found.jumps
    assert (first.user, first.hostname, first.port) == ("ops", "bastion.example.net", 2200)
    assert (second.hostname, second.port) == ("2001:db8::9", 2201)


def test_match_applies_only_where_it_matches(config: Path) -> None:
    assert resolve(Asked("behind", config=config)).proxy_command == "nc -X 5 -x 127.0.0.1:1080 gpu.example.net 22"
    assert resolve(Asked("other.example.net", config=config)).proxy_command is None
    (config.parent / "vpn-up").write_text("")
    assert resolve(Asked("other.example.net", config=config)).proxy_command == "nc -X 5 -x 127.0.0.1:1081 other.example.net 22"


def test_what_the_user_gives_wins(config: Path) -> None:
    found = resolve(Asked("gpu1", user="joe", port=77, config=config))
    assert (found.user, found.port) == ("joe", 77)


def test_a_configuration_that_ssh_refuses_is_an_error_of_its_own(config: Path) -> None:
    config.write_text("Host x\n    NoSuchThing yes\n")
    with pytest.raises(CloudrunError) as caught:
        look_up(Asked("x", config=config))
    assert caught.value.code == "ssh-config-wrong"
    assert "nosuchthing" in caught.value.message.lower()


def test_jumps_in_a_circle_end(config: Path) -> None:
    config.write_text("Host a\n    ProxyJump b\nHost b\n    ProxyJump a\n")
    with pytest.raises(CloudrunError) as caught:
        resolve(Asked("a", config=config))
    assert caught.value.code == "ssh-config-jumps"


def test_the_answer_of_ssh_is_read_purely() -> None:
    found = parse_answer("hostname h\nport 22\nproxyjump none\nidentityfile ~/.ssh/id_rsa\nidentityfile ~/.ssh/id_ed25519\n")
    assert (found.jumps, found.identity_files) == ((), ())  # all of them ssh's own defaults
    mixed = parse_answer("hostname h\nport 22\nidentityfile ~/.ssh/id_rsa\nidentityfile /k\n")
    assert mixed.identity_files == ("~/.ssh/id_rsa", "/k")


def test_time_limits_of_the_configuration_count(config: Path) -> None:
    config.write_text("Host a\n  ConnectTimeout 1m30s\n  ServerAliveInterval 4\n  ServerAliveCountMax 2\nHost b\n  Port 1\n")
    found = resolve(Asked("a", config=config))
    assert (found.connect_timeout_s, found.alive_s) == (90.0, 8.0)
    plain = resolve(Asked("b", config=config))
    assert (plain.connect_timeout_s, plain.alive_s) == (None, None)


def test_a_login_command_with_a_port_is_looked_up_too(
    laptop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with ssh itself: what `Host` says counts beside what is typed, and what is typed wins."""
    config = tmp_path / "config"
    config.write_text("Host *.example\n    ProxyJump ops@bastion.test:22\n    Port 9\n    User nobody\n")
    wrapper = tmp_path / "bin" / "ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {program("ssh")} -F {config} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    found = address_of(Host("box", "ssh -p 23456 root@gpu.example"))
    assert found.shown == "root@gpu.example:23456"
    assert [hop.shown for hop in found.jumps] == ["ops@bastion.test:22"]
    assert address_of(Host("box", "ssh -p 23456 -J none root@gpu.example")).jumps == ()
    given = address_of(Host("box", "ssh -p 23456 -o 'ProxyCommand=nc %h %p # 100%%' root@gpu.example"))
    assert (given.proxy_command, given.jumps) == ("nc gpu.example 23456 # 100%", ())


WITHOUT = """\
\ufeffInclude conf.d/*.conf
Host gpu2
    HostName 10.0.0.2
    Port = 2200
    User root
    IdentityFile "~/my keys/work"
Match tagged lab
    Port 1
    User nobody
match Host gpu2 exec "true"
    HostName evil.example
Host *
    ConnectTimeout 7
Match final all
    ServerAliveInterval 20
match all
    ServerAliveInterval 5
"""


def test_without_openssh_lines_that_cannot_be_judged_are_named_and_do_not_count(
    config: Path, laptop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(laptop))
    said: list[str] = []
    config.write_bytes(WITHOUT.replace("\n", "\r\n").encode() + b"# \xff odd byte\n")
    found = resolve(Asked("gpu2", config=config), said.append)
    assert (found.hostname, found.port, found.user) == ("10.0.0.2", 2200, "root")
    assert (found.connect_timeout_s, found.alive_s) == (7.0, 15.0)
    (words,) = said
    for number, line in ((1, "Include conf.d/*.conf"), (7, "Match tagged lab"), (10, 'match Host gpu2 exec "true"'),
                         (14, "Match final all")):
        assert f"{config}:{number}: {line}" in words
    assert ":16:" not in words  # `Match all` is plain enough
