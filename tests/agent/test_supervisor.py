"""The supervisor with real processes: how a command ends, and what is written down of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.agentdir import oldest_python, unpacked_agent
from tests.support.supervised import Setting, Supervised


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_agent(tmp_path_factory.mktemp("agent"))


@pytest.fixture
def launched(tmp_path: Path, agent: Path) -> Iterator[Callable[..., Supervised]]:
    made: list[Supervised] = []

    def launch(command: str, **setting: object) -> Supervised:
        made.append(Supervised(tmp_path, agent, Setting(command, **setting)))  # type: ignore[arg-type]
        return made[-1].start()

    yield launch
    for run in made:
        run.close()


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(("command", "state", "cause", "exit_code", "signal"), [
    ("echo fine", "succeeded", None, 0, None),
    ("echo bad; exit 7", "failed", None, 7, None),
    ("kill -SEGV $$", "failed", "signal", None, 11),
])
def test_end(launched: Callable[..., Supervised], terminal: bool, command: str, state: str, cause: str | None,
             exit_code: int | None, signal: int | None) -> None:
    ended = launched(command, terminal=terminal).ended()
    assert (ended.state, ended.cause, ended.exit_code, ended.signal) == (state, cause, exit_code, signal)
