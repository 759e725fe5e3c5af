"""Fixtures of the agent's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agentdir import unpacked_agent
from tests.support.supervised import Setting, Supervised


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent as a box has it."""
    return unpacked_agent(tmp_path_factory.mktemp("agent") / "agent")


@pytest.fixture
def launched(tmp_path: Path, unpacked: Path) -> Iterator[Callable[..., Supervised]]:
    """Launches a run (`Setting`'s fields; `start=False` leaves its supervisor out); kills what is left at the end."""
    made: list[Supervised] = []

    def launch(command: str, *, start: bool = True, folder: Path = tmp_path, **setting: Any) -> Supervised:
        made.append(Supervised(folder, unpacked, Setting(command, **setting)))
        return made[-1].start() if start else made[-1]

    yield launch
    for run in made:
        run.close()
