"""Questions of a connection: what was typed once serves the next connection, and a terminal that is taken is left alone."""

from __future__ import annotations

import pytest

from cloudrun.cli import asking
from cloudrun.cli.asking import TerminalAsker
from cloudrun.errors import CloudrunError


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a person would type, in this order, on a terminal."""
    answers: list[str] = []
    monkeypatch.setattr(asking, "_has_terminal", lambda: True)
    monkeypatch.setattr(asking.getpass, "getpass", lambda prompt, stream: answers.pop(0))
    return answers


def test_a_password_is_typed_once_and_again_where_it_was_wrong(typed: list[str]) -> None:
    memory: dict[str, str] = {}
    typed += ["wrong", "right"]
    first = TerminalAsker(memory)
    assert [first.password("p: "), first.password("p: ")] == ["wrong", "right"]
    assert TerminalAsker(memory, silent=True).password("p: ") == "right"
    typed += ["newer"]
    later = TerminalAsker(memory)
    assert [later.password("p: "), later.password("p: ")] == ["right", "newer"]


def test_a_terminal_that_is_taken_is_not_asked(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    typed += ["never"]
    asker = TerminalAsker({}, silent=True)
    for ask in (lambda: asker.password("p: "), lambda: asker.accept_host_key("box", "ssh-ed25519", "SHA256:x")):
        with pytest.raises(CloudrunError):
            ask()
    assert capsys.readouterr() == ("", "")
    assert typed == ["never"]
