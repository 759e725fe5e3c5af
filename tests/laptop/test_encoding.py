"""Letters that the terminal's encoding lacks: no command fails for them."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from cloudrun.cli.encoding import accept_every_letter


@pytest.mark.parametrize(("encoding", "shown"), [
    ("ascii", "+ ok  2 x warning -> ?? ?"), ("gbk", "+ ok  2 × warning → 训练 ?"), ("utf-8", "✓ ok  2 × warning → 训练 ?"),
    ("cp1252", "+ ok  2 × warning -> ?? ?"),
])
def test_what_cannot_be_written_is_written_as_near_as_can_be(encoding: str, shown: str) -> None:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        accept_every_letter()
        for stream in (out, err):
            stream.write("✓ ok  2 × warning → 训练 \udce4")
            stream.flush()
            assert isinstance(stream.buffer, io.BytesIO)
            assert stream.buffer.getvalue().decode(encoding) == shown
