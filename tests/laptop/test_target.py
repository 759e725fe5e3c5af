"""TARGET as people paste it, and what nonsense is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudrun.config.target import parse
from cloudrun.errors import CloudrunError

GOOD = [
    ("ssh -p 23456 root@connect.example.com", "ssh -p 23456 root@connect.example.com", ("root", "connect.example.com", 23456)),
    ("$ ssh -p23456 root@h.example", "ssh -p 23456 root@h.example", ("root", "h.example", 23456)),
    ("ssh　-p　23456　root@h", "ssh -p 23456 root@h", ("root", "h", 23456)),
    ("ssh –p 23456 root@h", "ssh -p 23456 root@h", ("root", "h", 23456)),
    ("ssh root@h -p 23456", "ssh -p 23456 root@h", ("root", "h", 23456)),
    ("ssh -4Cp 23456 -l root h", "ssh -p 23456 root@h", ("root", "h", 23456)),
    ("ssh -o StrictHostKeyChecking=no -o 'Port 99' -o User=joe h", "ssh -p 99 joe@h", ("joe", "h", 99)),
    ('"ssh -p 3 root@h"', "ssh -p 3 root@h", ("root", "h", 3)),
    ("登录指令：ssh -p 23456 root@h", "ssh -p 23456 root@h", ("root", "h", 23456)),
    ("root@h:33", "root@h:33", ("root", "h", 33)),
    ("[::1]:2022", "[::1]:2022", ("", "::1", 2022)),
    ("ssh://root@h.example:33/", "root@h.example:33", ("root", "h.example", 33)),
    ("gpu1", "gpu1", ("", "gpu1", None)),
]


@pytest.mark.parametrize(("pasted", "stored", "parts"), GOOD)
def test_a_pasted_target_is_understood_and_stored_in_one_line(pasted: str, stored: str, parts: tuple[object, ...]) -> None:
    found = parse(pasted)
    assert (found.user, found.hostname, found.port) == parts
    assert found.text == stored
    assert parse(found.text).address() == found.address()  # what is stored means the same


def test_keys_jumps_and_proxies_of_a_login_command() -> None:
    found = parse("ssh -i '~/my keys/k' -J ops@bastion:2200,inner -o IdentitiesOnly=yes root@h -p 5")
    assert found.keys == (Path("~/my keys/k"),)
    assert found.jumps == ("ops@bastion:2200", "inner")
    assert found.identities_only
    assert [hop.shown for hop in found.address().jumps] == ["ops@bastion:2200", "inner:22"]
    assert parse("ssh -o 'ProxyCommand=nc -x 127.0.0.1:1080 %h %p' -p 1 h").proxy_command == "nc -x 127.0.0.1:1080 %h %p"
    assert parse(r"ssh -i C:\Users\me\k.pem -p 4 root@h").keys == (Path(r"C:\Users\me\k.pem"),)
    assert parse("ssh -i keys/k -p 4 root@h").anchored(Path("/home/me")).text == "ssh -p 4 -i /home/me/keys/k root@h"


def test_the_ssh_configuration_counts_for_every_target_but_one_with_a_hostname_of_its_own() -> None:
    for text in ("gpu1", "ssh gpu1", "ssh -p 22 gpu1", "root@gpu1:22", "ssh://root@gpu1:22"):
        assert parse(text).lookup, text
    assert not parse("ssh -o HostName=10.0.0.1 gpu1").lookup
    direct = parse("ssh -p 22 -J none gpu1")
    assert direct.direct
    assert parse(direct.text).direct  # as it is stored


@pytest.mark.parametrize("pasted", [
    "ssh -p 5 root@h\npassword: hunter2",
    "ssh -p 5 root@h\n密码：hunter2",
    "ssh -p 5 root@h  密码 hunter2",
    "sshpass -p hunter2 ssh -p 5 root@h",
    "ssh://root:hunter2@h:5",
    "root:hunter2@h:5",
])
def test_a_pasted_password_is_not_kept_and_that_is_said(pasted: str) -> None:
    found = parse(pasted)
    assert (found.user, found.hostname, found.port) == ("root", "h", 5)
    assert found.notes
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(("pasted", "code", "named"), [
    ("", "target-empty", ""),
    ("ssh", "target-no-host", "ssh"),
    ("root@", "target-no-host", "root@"),
    ("ssh root@h nvidia-smi -l", "target-command", "nvidia-smi -l"),
    ("ssh -p x root@h", "target-port", "x"),
    ("h:99999", "target-port", "99999"),
    ("ssh -p", "target-option-value", "-p"),
    ("ssh -Z h", "target-option", "-Z"),
    ("https://h.example", "target-not-ssh", "https://h.example"),
    ("ro ot@h", "target-words", "ot@h"),
    ("a_b!c", "target-host", "!"),
    ("@h", "target-user", ""),
    ("ssh 'root@h", "target-quotes", "root@h"),
    ("ssh -p 22 root@h\nhunter2", "target-lines", "ssh -p 22 root@h"),
])
def test_nonsense_is_named_and_the_next_command_shown(pasted: str, code: str, named: str) -> None:
    with pytest.raises(CloudrunError) as caught:
        parse(pasted)
    assert caught.value.code == code
    assert named in caught.value.message
    assert "ssh" in caught.value.hint
    assert "hunter2" not in caught.value.message + caught.value.hint
