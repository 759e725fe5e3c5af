"""What the user wants of a run. It lies in the run's folder, or, where that disk takes no more files, in the home."""

from __future__ import annotations

import os
from typing import List

from remote_agent import atomic, layout
from remote_agent.protocol import Desired, encode


def write(run: layout.Run, desired: Desired) -> None:
    """Raises OSError where the run's disk does not take it; what the home holds is forgotten when it does."""
    atomic.write_json(run.desired, encode(desired))
    forget_aside(run)


def write_aside(run: layout.Run, desired: Desired) -> None:
    """In the home: a full data disk must not make a stop look like a killed session. Raises OSError."""
    home = layout.Home.of_user()
    layout.private_folder(home.root)
    layout.private_folder(home.wishes)
    atomic.write_json(home.wish(run.path), encode(desired), 0o600)


def places(run: layout.Run) -> List[str]:
    """Files that may hold the word, the newer first: the home's is there only since the run's disk refused one."""
    return [layout.Home.of_user().wish(run.path), run.desired]


def wants_stop(run: layout.Run) -> bool:
    found = next((desired for desired in (layout.read_record(Desired, path) for path in places(run)) if desired), None)
    return found is not None and found.want == "stop"


def forget_aside(run: layout.Run) -> None:
    try:
        os.unlink(layout.Home.of_user().wish(run.path))
    except OSError:
        pass
