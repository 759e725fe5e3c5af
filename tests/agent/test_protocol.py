"""The protocol: frozen samples, frames, the hello among noise; and the agent stays on Python 3.8."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from remote_agent import protocol

ROOT = Path(__file__).parents[2]
FROZEN = ROOT / "tests" / "frozen"


@pytest.mark.parametrize("path", sorted(FROZEN.glob("*.json")), ids=lambda path: path.stem)
def test_what_was_recorded_is_understood_today(path: Path) -> None:
    """Samples are never edited: a new field gets a new sample. Each decodes, and nothing it says is lost."""
    sample = json.loads(path.read_text("utf-8"))
    kind = getattr(protocol, sample["kind"])
    again = protocol.encode(protocol.decode(kind, sample["value"]))
    assert contains(again, sample["value"])


def contains(whole: object, part: object) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and contains(whole[key], value) for key, value in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(contains, whole, part))
    return whole == part


def test_samples_are_there() -> None:
    kinds = {json.loads(path.read_text("utf-8"))["kind"] for path in FROZEN.glob("*.json")}
    assert {"State", "Spec", "Identity", "Desired", "RunInfo", "LaunchRequest", "FollowRequest", "Progress"} <= kinds


def test_unknown_keys_are_ignored_and_a_wrong_type_is_named_with_its_path() -> None:
    assert protocol.decode(protocol.Desired, {"want": "stop", "of_next_year": 1}) == protocol.Desired("stop")
    for value, path in (({"want": 1}, "$.want"), ({}, "$.want: missing"), ({"want": "run", "grace_s": "x"}, "$.grace_s")):
        with pytest.raises(ValueError, match=path.replace("$", r"\$")):
            protocol.decode(protocol.Desired, value)


@pytest.mark.parametrize("noise", [b"", b"+---AutoDL---+\n\xe7\xb3\xbb \xff\x00\n", b"(base) prompt$ "])
def test_the_hello_is_found_before_glued_to_and_after_noise(noise: bytes) -> None:
    line = noise + protocol.hello_line("n0nce", {"a": 1})
    assert protocol.find_hello(line[:-1], "n0nce") is None
    assert protocol.find_hello(line + b"rest", "n0nce") == ({"a": 1}, b"rest")
    assert protocol.find_hello(line, "another") is None
    with pytest.raises(ValueError, match="protocol 2"):
        protocol.find_hello(line.replace(b"CLOUDRUN/1", b"CLOUDRUN/2"), "n0nce")


def test_frames_carry_any_bytes_and_what_is_no_frame_is_refused() -> None:
    payload = bytes(range(256)) + b"\n{}\n"
    stream = io.BytesIO(protocol.dump_frame({"kind": "data"}, payload) + protocol.dump_frame({"kind": "end"}))
    assert protocol.read_frame(stream) == ({"kind": "data", "length": len(payload)}, payload)
    assert protocol.read_frame(stream) == ({"kind": "end", "length": 0}, b"")
    assert protocol.read_frame(stream) is None
    for junk in (b"[]\n", b"not json\n", b'{"length":-1}\n', b'{"length":99999999999}\n'):
        with pytest.raises(ValueError):
            protocol.read_frame(io.BytesIO(junk))
    with pytest.raises(EOFError):
        protocol.read_frame(io.BytesIO(b'{"length":5}\nabc'))


def test_the_agent_uses_nothing_newer_than_python_3_8() -> None:
    checked = subprocess.run(
        [str(Path(sys.executable).parent / "vermin"), "--quiet", "--no-tips", "--target=3.8-", "--eval-annotations",
         "--violations", str(ROOT / "remote_agent")],
        capture_output=True, text=True, check=False,
    )
    assert checked.returncode == 0, checked.stdout
