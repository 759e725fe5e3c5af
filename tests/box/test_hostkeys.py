"""Host keys against a real sshd: first contact, changed, other ports, other key types, revoked, through a jump."""

from __future__ import annotations

import base64
import hashlib
import json
import stat
import subprocess
from pathlib import Path

import pytest

from cloudrun.errors import CloudrunError, Exit
from cloudrun.transport import connect
from cloudrun.transport.base import Address
from cloudrun.transport.hostkeys import matches, parse
from cloudrun.transport.running import run
from tests.box.test_host_commands import on_a_terminal
from tests.support.connecting import Answering, address, options
from tests.support.sshd import SshBox, program


def public(box: SshBox) -> str:
    """`type base64` of the box's host key."""
    return " ".join(box.host_key.with_suffix(".pub").read_text().split()[:2])


def fingerprint(key: str) -> str:
    blob = base64.b64decode(key.split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def another_key(folder: Path, kind: str = "ed25519") -> str:
    path = folder / f"other_{kind}"
    subprocess.run([program("ssh-keygen"), "-q", "-t", kind, "-N", "", "-f", str(path)], check=True)
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


def known_hosts(laptop: Path, text: str) -> Path:
    path = laptop / "config" / "known_hosts"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_first_contact_asks_with_the_fingerprint_and_remembers_host_and_port(box: SshBox, laptop: Path) -> None:
    asker = Answering()
    connect(address(box), options(laptop, asker)).close()
    name = f"[127.0.0.1]:{box.port}"
    assert asker.keys_shown == [(name, "ssh-ed25519", fingerprint(public(box)))]
    path = laptop / "config" / "known_hosts"
    assert path.read_text() == f"{name} {public(box)}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    silent = Answering(accepts=False)
    connect(address(box), options(laptop, silent)).close()
    assert silent.keys_shown == []


def test_a_key_that_is_not_accepted_sends_nothing(box: SshBox, laptop: Path) -> None:
    with pytest.raises(CloudrunError) as caught:
        connect(address(box), options(laptop, Answering(accepts=False)))
    assert caught.value.exit_code == Exit.HOST_KEY_UNKNOWN
    assert not (laptop / "config" / "known_hosts").exists()
    assert "userauth" not in box.log.read_text()
    assert "Accepted" not in box.log.read_text()


@pytest.mark.parametrize("by_script", [False, True])
def test_a_changed_key_refuses_and_tells_the_one_command(box: SshBox, laptop: Path, tmp_path: Path, by_script: bool) -> None:
    name = f"[127.0.0.1]:{box.port}"
    old = another_key(tmp_path)
    neighbour = f"[127.0.0.1]:{box.port + 1} {old}\n"
    path = known_hosts(laptop, f"{neighbour}{name} {old}\n")
    before = path.read_text()
    asker = Answering()
    with pytest.raises(CloudrunError) as caught:
        connect(address(box), options(laptop, asker, accept_new=by_script))
    error = caught.value
    assert error.exit_code == Exit.HOST_KEY_CHANGED
    for shown in (name, fingerprint(old), fingerprint(public(box))):
        assert shown in error.message
    assert error.hint.endswith(f"cloudrun host trust '{name}'")
    assert asker.keys_shown == []
    assert path.read_text() == before
    assert "Accepted" not in box.log.read_text()
    connect(address(box), options(laptop, asker, replace_key_of=name, accept_new=by_script)).close()
    assert asker.keys_replaced == [f"{fingerprint(old)} (ssh-ed25519)"]  # asked in scripts too: it is no first contact
    assert asker.keys_shown == [(name, "ssh-ed25519", fingerprint(public(box)))]
    assert path.read_text() == f"{neighbour}{name} {public(box)}\n"  # the neighbour's port is untouched


def test_the_trust_command_replaces_that_entry(
    box: SshBox, laptop: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    from cloudrun.cli.main import run as cloudrun

    name = f"[127.0.0.1]:{box.port}"
    old = another_key(tmp_path)
    path = known_hosts(laptop, f"{name} {old}\n")
    login = ["host", "add", "box", box.login, "--key", str(box.key), "--json"]
    assert cloudrun(login) == Exit.HOST_KEY_CHANGED
    shown = capfdbinary.readouterr()
    assert json.loads(shown.out)["error"]["code"] == "host-key-changed"
    assert b"It is stored" in shown.err
    for nobody_to_ask in ([], ["--accept-new"]):
        assert cloudrun(["host", "trust", name, *nobody_to_ask]) == Exit.HOST_KEY_CHANGED
    assert path.read_text() == f"{name} {old}\n"
    screen, code = on_a_terminal(laptop, ["host", "trust", "box"], [("[y/N]", "yes")])
    assert code == 0
    assert screen.index(fingerprint(old)) < screen.index(fingerprint(public(box)))
    assert "First contact" not in screen
    assert path.read_text() == f"{name} {public(box)}\n"
    capfdbinary.readouterr()
    assert cloudrun(login) == 0
    assert json.loads(capfdbinary.readouterr().out)["reached"] is True


def test_a_key_is_replaced_in_scripts_by_the_fingerprint_of_the_providers_page(
    box: SshBox, laptop: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from cloudrun.cli.main import run as cloudrun

    name = f"[127.0.0.1]:{box.port}"
    old = another_key(tmp_path)
    path = known_hosts(laptop, f"{name} {old}\n")
    assert cloudrun(["host", "add", "box", box.login, "--key", str(box.key)]) == Exit.HOST_KEY_CHANGED
    said = capfd.readouterr().err
    assert "often takes over an old address" in said
    assert cloudrun(["host", "trust", name, "--fingerprint", fingerprint(old)]) == Exit.HOST_KEY_CHANGED  # not what it shows
    assert path.read_text() == f"{name} {old}\n"
    assert cloudrun(["host", "trust", name, "--fingerprint", fingerprint(public(box))]) == 0
    assert path.read_text() == f"{name} {public(box)}\n"


def test_another_port_of_the_same_host_decides_nothing(box: SshBox, laptop: Path, tmp_path: Path) -> None:
    known_hosts(laptop, f"[127.0.0.1]:{box.port + 1} {another_key(tmp_path)}\n127.0.0.1 {another_key(tmp_path, 'ecdsa')}\n")
    asker = Answering()
    connect(address(box), options(laptop, asker)).close()
    assert len(asker.keys_shown) == 1


def test_a_server_with_several_keys_shows_the_one_we_know(tmp_path: Path, laptop: Path) -> None:
    rsa = tmp_path / "host_rsa"
    subprocess.run([program("ssh-keygen"), "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", str(rsa)], check=True)
    box = SshBox(tmp_path / "box", settings=f"HostKey {rsa}").start()
    try:
        known_hosts(laptop, f"[127.0.0.1]:{box.port} {' '.join(rsa.with_suffix('.pub').read_text().split()[:2])}\n")
        asker = Answering()
        connect(address(box), options(laptop, asker)).close()
        assert asker.keys_shown == []
    finally:
        box.stop()


def test_the_users_own_file_is_read_never_written_and_odd_lines_hide_nothing(box: SshBox, laptop: Path, tmp_path: Path) -> None:
    name = f"[127.0.0.1]:{box.port}"
    theirs = laptop / ".ssh" / "known_hosts"
    theirs.parent.mkdir()
    theirs.write_text(f"odd line\n@cert-authority * {another_key(tmp_path)}\n{name} {public(box)}\n|1|broken\n")
    subprocess.run([program("ssh-keygen"), "-q", "-H", "-f", str(theirs)], check=False, capture_output=True)
    hashed = theirs.read_bytes()
    asker = Answering()
    connect(address(box), options(laptop, asker)).close()
    assert asker.keys_shown == []
    assert theirs.read_bytes() == hashed
    assert not (laptop / "config" / "known_hosts").exists()
    theirs.write_text(f"@revoked * {public(box)}\n{name} {public(box)}\n")
    with pytest.raises(CloudrunError) as caught:
        connect(address(box), options(laptop, asker))
    assert caught.value.code == "host-key-revoked"


def test_a_hashed_entry_is_matched(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(f"[h.example]:2200 {another_key(tmp_path)}\n")
    subprocess.run([program("ssh-keygen"), "-q", "-H", "-f", str(path)], check=True, capture_output=True)
    (line,) = parse(path.read_text())
    assert line.hosts.startswith("|1|")
    assert matches(line.hosts, "[h.example]:2200")
    assert not matches(line.hosts, "h.example")
    assert matches("*.example,!b.example", "a.example")
    assert not matches("*.example,!b.example", "b.example")


def test_each_jump_host_is_checked_like_any_other(box: SshBox, laptop: Path, tmp_path: Path) -> None:
    inner = SshBox(tmp_path / "inner").start()
    try:
        behind = Address("127.0.0.1", inner.port, inner.user, (inner.key,), jumps=(address(box),))
        asker = Answering()
        transport = connect(behind, options(laptop, asker))
        assert [shown[0] for shown in asker.keys_shown] == [f"[127.0.0.1]:{box.port}", f"[127.0.0.1]:{inner.port}"]
        assert run(transport, "echo $HOME").output.decode().strip() == str(inner.home)
        assert len(run(transport, "head -c 3000000 /dev/zero").output) == 3_000_000
        transport.close()
        known_hosts(laptop, f"[127.0.0.1]:{box.port} {another_key(tmp_path)}\n")
        with pytest.raises(CloudrunError) as caught:
            connect(behind, options(laptop, asker))
        assert caught.value.code == "host-key-changed"
        assert str(box.port) in caught.value.hint
    finally:
        inner.stop()


def test_a_chain_of_two_jump_hosts_and_a_changed_key_in_its_middle(box: SshBox, laptop: Path, tmp_path: Path) -> None:
    middle, inner = SshBox(tmp_path / "middle").start(), SshBox(tmp_path / "inner").start()
    try:
        behind = address(inner, jumps=(address(box), address(middle)))
        transport = connect(behind, options(laptop))
        assert run(transport, "echo $HOME").output.decode().strip() == str(inner.home)
        transport.close()
        known = laptop / "config" / "known_hosts"
        known.write_text(known.read_text().replace(public(middle), another_key(tmp_path)))
        before = inner.log.read_text()
        with pytest.raises(CloudrunError) as caught:
            connect(behind, options(laptop))
        assert caught.value.code == "host-key-changed"
        assert f"[127.0.0.1]:{middle.port}" in caught.value.message
        assert inner.log.read_text() == before  # nobody came that far
        assert middle.log.read_text().count("Accepted") == 1
    finally:
        middle.stop()
        inner.stop()


def test_a_proxy_command_is_the_way(box: SshBox, laptop: Path) -> None:
    import sys

    code = (
        "import socket,sys,threading,os\n"
        "s=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
        "def up():\n"
        "    while d:=os.read(0,65536): s.sendall(d)\n"
        "    s.shutdown(1)\n"
        "threading.Thread(target=up,daemon=True).start()\n"
        "while d:=s.recv(65536): os.write(1,d)\n"
    )
    script = laptop / "proxy.py"
    script.write_text(code)
    command = f"{sys.executable} {script} 127.0.0.1 {box.port}"
    where = Address("no-such-name.invalid", box.port, box.user, (box.key,), proxy_command=command)
    transport = connect(where, options(laptop))
    assert run(transport, "echo through").output == b"through\n"
    transport.close()
    with pytest.raises(CloudrunError) as caught:
        connect(Address("x", 1, "r", proxy_command="exit 1"), options(laptop, connect_timeout_s=0.5))
    assert caught.value.code == "unreachable"
