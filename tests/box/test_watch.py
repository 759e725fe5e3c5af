"""`--watch` over a connection that is lost: it comes back by itself and says one quiet line."""

from __future__ import annotations

import json
import select
import signal
import subprocess

import pytest

from tests.support.cli import Laptop
from tests.support.sshd import SshBox


def next_answer(watching: subprocess.Popen[bytes]) -> dict[str, object]:
    assert watching.stdout is not None
    assert select.select([watching.stdout], [], [], 30)[0], "no answer within 30 s"
    return dict(json.loads(watching.stdout.readline()))


@pytest.mark.parametrize("words", [("ps", "--watch"), ("gpu", "--watch")])
def test_a_watch_outlives_its_connection(box: SshBox, cloudrun: Laptop, words: tuple[str, ...]) -> None:
    cloudrun.know(box)
    watching = cloudrun.start(*words, "--json", bufsize=0)
    try:
        first = next_answer(watching)
        box.drop_connections()
        assert next_answer(watching) == first
        assert next_answer(watching) == first
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == 0
        assert watching.stderr is not None
        said = watching.stderr.read().decode()
    finally:
        watching.kill()
        watching.communicate()
    assert said.startswith("reconnected after ")
    assert said.count("\n") == 1
