"""Names of ~/.ssh/config, asked through the real `ssh -G`."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_without_openssh_the_simple_reader_serves_and_says_so(
    config: Path, laptop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(laptop))
    said: list[str] = []
    config.write_text("\ufeffInclude x\nHost gpu2\n    HostName 10.0.0.2\n    Port 2200\n    User root\n")
    found = resolve(Asked("gpu2", config=config), said.append)
    assert (found.hostname, found.port, found.user) == ("10.0.0.2", 2200, "root")
    assert "Include" in said[0]
