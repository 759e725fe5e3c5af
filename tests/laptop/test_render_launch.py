"""What a launch says when it stands."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cloudrun.cli.render.launch import launched_words
from remote_agent.protocol import Launched, RunInfo


@pytest.mark.parametrize("local", [False, True])
def test_a_lid_is_closed_only_where_the_box_is_another_machine(local: bool) -> None:
    run = RunInfo("exp", "net", "p", "running", "/d/exp", attempt=1, backend="screen", session="exp")
    out = io.StringIO()
    Console(file=out, width=120).print(launched_words(Launched("started", run), "box", str, local=local))
    assert ("you can close the lid" in out.getvalue()) is not local
    assert ("it goes on when this terminal is closed" in out.getvalue()) is local
