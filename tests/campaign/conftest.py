"""What the long repetitions came to, in lines that docs/RELIABILITY.md takes over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

_FIGURES: list[str] = []


@pytest.fixture
def figure() -> Iterator[Callable[[str], None]]:
    """Keeps one line of result; the time the test took is added."""
    began = time.monotonic()
    lines: list[str] = []
    yield lines.append
    _FIGURES.extend(f"| {line} | {time.monotonic() - began:.0f} s |" for line in lines)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _FIGURES:
        terminalreporter.section("figures of the campaign")
        for line in _FIGURES:
            terminalreporter.write_line(line)
