"""Logging in: keys that mislead, the agent, passphrases, old servers, passwords and questions."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from cloudrun.errors import CloudrunError
from cloudrun.transport import connect
from cloudrun.transport.base import Address, Secret
from cloudrun.transport.legacy import SHA1_NAME, LegacyRsaKey
from tests.support.connecting import Answering, address, options
from tests.support.cutting import Cutting
from tests.support.sshd import SshBox, program


def make_key(path: Path, *words: str, passphrase: str = "") -> Path:
    small = ["-b", "2048"] if "rsa" in words else []
    subprocess.run([program("ssh-keygen"), "-q", *words, *small, "-N", passphrase, "-f", str(path)], check=True)
    return path


def authorize(box: SshBox, key: Path) -> None:
    with (box.folder / "authorized_keys").open("a") as file:
        file.write(key.with_name(key.name + ".pub").read_text())


def failure(where: Address, laptop: Path, asker: Answering | None = None) -> CloudrunError:
    with pytest.raises(CloudrunError) as caught:
        connect(where, options(laptop, asker or Answering(), accept_new=True))
    return caught.value


def test_each_misleading_key_file_is_called_what_it_is(box: SshBox, laptop: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "notes.txt").write_text("my keys\n")
    (tmp_path / "k.ppk").write_text("PuTTY-User-Key-File-3: ssh-ed25519\n")
    torn = tmp_path / "torn"
    torn.write_text(box.key.read_text()[:120] + "\n-----END OPENSSH PRIVATE KEY-----\n")
    public = box.key.with_suffix(".pub")
    for file, code in {
        tmp_path / "missing": "key-unreadable", tmp_path / "empty": "key-empty", public: "key-is-public",
        tmp_path / "notes.txt": "key-not-a-key", tmp_path / "k.ppk": "key-putty", torn: "key-broken",
    }.items():
        error = failure(address(box, keys=(file,)), laptop)
        assert error.code == code
        assert str(file) in error.message
    assert failure(address(box, keys=(public,)), laptop).hint.endswith(f"--key {box.key}")


def test_a_good_key_that_the_server_does_not_know_is_the_servers_refusal(box: SshBox, laptop: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path / "ckrsa", "-t", "rsa", "-m", "PEM")
    error = failure(address(box, keys=(key,)), laptop)
    assert error.code == "login-refused"
    assert str(key) in error.message
    assert box.user in error.message


@pytest.mark.parametrize("words", [("-t", "ed25519"), ("-t", "rsa", "-m", "PEM")])
def test_a_passphrase_is_asked_for(box: SshBox, laptop: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    key = make_key(tmp_path / "ckp", *words, passphrase="secret")
    authorize(box, key)
    where = address(box, keys=(key,))
    asker = Answering(passwords=["wrong", "secret"])
    connect(where, options(laptop, asker, accept_new=True)).close()
    assert str(key) in asker.prompts[0]
    error = failure(where, laptop, Answering(passwords=["a", "b", "c"]))
    assert error.code == "key-passphrase"
    assert failure(where, laptop).code == "key-locked"
    assert "secret" not in repr(where) + repr(error)


@pytest.fixture
def agent(tmp_path: Path, laptop: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A real ssh-agent; SSH_AUTH_SOCK points at it."""
    path = tmp_path / "agent.sock"
    running = subprocess.Popen([program("ssh-agent"), "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    from tests.support.waiting import wait_for

    wait_for(path.exists)
    yield path
    running.terminate()
    running.wait(5)


def test_the_agent_opens_the_box_and_spares_the_passphrase(box: SshBox, laptop: Path, tmp_path: Path, agent: Path) -> None:
    locked = make_key(tmp_path / "locked", "-t", "rsa", passphrase="secret")
    authorize(box, locked)
    (tmp_path / "askpass").write_text("#!/bin/sh\necho secret\n")
    (tmp_path / "askpass").chmod(0o700)
    env = {**os.environ, "SSH_ASKPASS": str(tmp_path / "askpass"), "SSH_ASKPASS_REQUIRE": "force"}
    subprocess.run([program("ssh-add"), "-q", str(locked)], check=True, env=env)
    connect(address(box, keys=()), options(laptop)).close()  # the agent's own
    connect(address(box, keys=(locked,), identities_only=True), options(laptop)).close()  # named, and in the agent
    other = make_key(tmp_path / "other", "-t", "ed25519")
    error = failure(address(box, keys=(other,), identities_only=True), laptop)  # the agent's is not named: not offered
    assert error.code == "login-refused"


def test_the_usual_files_are_tried_and_more_keys_than_the_server_bears(box: SshBox, laptop: Path, tmp_path: Path) -> None:
    (laptop / ".ssh").mkdir()
    make_key(laptop / ".ssh" / "id_rsa", "-t", "rsa")
    make_key(laptop / ".ssh" / "id_ed25519", "-t", "ed25519")
    authorize(box, laptop / ".ssh" / "id_rsa")
    strangers = tuple(make_key(tmp_path / f"k{number}", "-t", "ed25519") for number in range(7))  # sshd bears six
    connect(address(box, keys=strangers), options(laptop)).close()


# --------------------------------------------------------------------------- passwords: a real SSH server of our own


class Typing(paramiko.ServerInterface):
    """Opens to one password, or to two questions."""

    def __init__(self, methods: str) -> None:
        self.methods = methods
        self.seen: list[str] = []
        self.key = ""

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        if key.get_base64() != self.key:
            return paramiko.AUTH_FAILED
        self.seen.append("key")
        return paramiko.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:
        return self.methods

    def check_auth_password(self, username: str, password: str) -> int:
        self.seen.append(password)
        return paramiko.AUTH_SUCCESSFUL if password == "hunter2" else paramiko.AUTH_FAILED

    def check_auth_interactive(self, username: str, submethods: str) -> paramiko.InteractiveQuery:
        return paramiko.InteractiveQuery("", "", ("Password:", False), ("Code:", True))

    def check_auth_interactive_response(self, responses: list[str]) -> int:
        self.seen.extend(responses)
        return paramiko.AUTH_SUCCESSFUL if responses == ["hunter2", "123456"] else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED


@contextmanager
def typing_box(
    methods: str, make: Callable[[socket.socket], paramiko.Transport] = paramiko.Transport
) -> Iterator[tuple[Address, Typing]]:
    key = paramiko.ECDSAKey.generate()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10)
    server = Typing(methods)
    opened: list[paramiko.Transport] = []

    def serve() -> None:
        try:
            while True:
                transport = make(listener.accept()[0])
                transport.add_server_key(key)
                opened.append(transport)
                transport.start_server(event=threading.Event(), server=server)
        except OSError:
            return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield Address("127.0.0.1", listener.getsockname()[1], "root"), server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for transport in opened:
            transport.close()
        thread.join(5)


def test_a_password_is_asked_for_where_nothing_else_is_left(laptop: Path) -> None:
    with typing_box("password,publickey") as (where, server):
        asker = Answering(passwords=["wrong", "hunter2"])
        transport = connect(where, options(laptop, asker, accept_new=True))
        assert server.seen == ["wrong", "hunter2"]
        assert where.shown in asker.prompts[0]
        transport.close()
        error = failure(where, laptop, Answering(passwords=["x", "y", "z"]))
        assert error.code == "password-wrong"
        assert failure(where, laptop).code == "password-wanted"  # nobody to ask: it ends, it does not hang
        for text in (repr(transport), repr(error), error.message, error.hint):
            assert "hunter2" not in text


@pytest.mark.parametrize("methods", ["password,publickey", "password"])
def test_wrong_passwords_are_said_though_keys_were_tried_before(laptop: Path, tmp_path: Path, methods: str) -> None:
    """The box neither "takes no keys" nor merely "refused the login": the password is what was wrong."""
    key = make_key(tmp_path / "stranger", "-t", "ed25519")
    with typing_box(methods) as (where, server):
        error = failure(replace(where, keys=(key,)), laptop, Answering(passwords=["x", "y", "z"]))
        assert (error.code, server.seen) == ("password-wrong", ["x", "y", "z"])


def test_a_broken_key_is_said_before_a_password_is_asked(laptop: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    with typing_box("password,publickey") as (where, _server):
        asker = Answering(passwords=["hunter2"])
        assert failure(replace(where, keys=(tmp_path / "empty",)), laptop, asker).code == "key-empty"
        assert asker.prompts == []


def test_a_password_given_beforehand_is_sent_once_and_never_to_a_jump_host(laptop: Path) -> None:
    with typing_box("password,publickey") as (where, server):
        connect(where, options(laptop, accept_new=True, password=Secret("hunter2"))).close()
        with pytest.raises(CloudrunError) as wrong:
            connect(where, options(laptop, accept_new=True, password=Secret("xyz")))
        assert wrong.value.code == "password-wrong"
        assert server.seen == ["hunter2", "xyz"]
        with pytest.raises(CloudrunError) as wanted:
            connect(replace(where, jumps=(where,)), options(laptop, accept_new=True, password=Secret("hunter2")))
        assert wanted.value.code == "password-wanted"
        assert server.seen == ["hunter2", "xyz"]
        assert "hunter2" not in repr(options(laptop, password=Secret("hunter2")))


def test_a_password_given_beforehand_answers_the_servers_first_hidden_question(laptop: Path) -> None:
    with typing_box("keyboard-interactive") as (where, server):
        asker = Answering(passwords=["123456"])
        connect(where, options(laptop, asker, accept_new=True, password=Secret("hunter2"))).close()
        assert server.seen == ["hunter2", "123456"]


def test_the_servers_own_questions_are_answered(laptop: Path) -> None:
    with typing_box("keyboard-interactive") as (where, server):
        asker = Answering(passwords=["hunter2", "123456"])
        connect(where, options(laptop, asker, accept_new=True)).close()
        assert server.seen == ["hunter2", "123456"]
        assert [prompt.split()[-1] for prompt in asker.prompts] == ["Password:", "Code:"]


class OldTransport(paramiko.Transport):
    """A server of 2015: RSA with SHA-1 is all it takes."""

    _preferred_pubkeys = (SHA1_NAME,)
    _key_info = {**paramiko.Transport._key_info, SHA1_NAME: LegacyRsaKey}  # type: ignore[attr-defined]


@pytest.mark.parametrize("says_so", [True, False])
def test_an_old_server_that_takes_sha1_signatures_only(laptop: Path, tmp_path: Path, says_so: bool) -> None:
    key = make_key(tmp_path / "rsa", "-t", "rsa")
    said: list[str] = []
    with typing_box("publickey", lambda sock: OldTransport(sock, server_sig_algs=says_so)) as (where, server):
        server.key = key.with_name("rsa.pub").read_text().split()[1]
        wanted = options(laptop, Answering(), accept_new=True, say=said.append)
        connect(replace(where, keys=(key,)), wanted).close()
        assert server.seen == ["key"]
        assert len(said) == 1


@pytest.mark.parametrize("manner", ["reset", "end"])
def test_a_link_that_is_cut_in_the_middle_of_a_login_is_no_refusal(box: SshBox, laptop: Path, manner: str) -> None:
    """Cut at every place from the keys' agreement to the login's end: the same key opens it on the next connection."""
    with Cutting(box.port) as link:
        link.manner = manner
        where = address(box, port=link.port)
        connect(where, options(laptop)).close()  # its host key is known
        for count in range(1500, 4200, 180):
            link.cut_after("down" if count % 360 else "up", count)
            connect(where, options(laptop)).close()
