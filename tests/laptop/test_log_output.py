"""How a log reaches stdout, held against what a terminal would show and what the bytes were."""

from __future__ import annotations

import io
import json
import re
import tracemalloc
from itertools import pairwise

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudrun.cli.log_output import JsonSink, LineSink, Matching, Out, RawSink, Sink, TerminalSink

CUT = ("第 3 轮 损失=0.123\n" * 200).encode()
BLOCK = b"\xe2\x96\x88"
TQDM = (b"\r  0%|          | 0/2 [00:00<?, ?it/s]\r 50%|" + BLOCK * 5 + b"     | 1/2 [00:01<00:01,  1.00s/it]\r100%|" + BLOCK * 10
        + b"| 2/2 [00:02<00:00,  1.00s/it]\n\x1b[32mepoch 1\x1b[0m loss=0.5\x1b[K\n")
GBK = b"\xb5\xda1\xc2\xd6 \xcb\xf0\xca\xa7=0.5\n"
EVIL = b"\x1b]0;title\x07\x1b[6n\x00line\n"


def through(kind: type[Sink], data: bytes, cuts: list[int] | None = None, *more: object) -> bytes:
    """All that the sink wrote for these bytes, given in pieces."""
    out = io.BytesIO()
    sink = kind(Out(out, "utf-8"), *more)
    edges = sorted({0, len(data), *(cut for cut in cuts or [] if cut < len(data))})
    for start, end in pairwise(edges):
        sink.data(1, start, data[start:end])
    sink.close()
    return out.getvalue()


@pytest.mark.parametrize("data", [CUT, TQDM, GBK, EVIL, b"x" * 5_000_000, b"no end"])
def test_raw_is_byte_for_byte(data: bytes) -> None:
    assert through(RawSink, data, [1024, 1025]) == data


@pytest.mark.parametrize(("data", "wanted"), [
    (CUT, CUT.decode()),
    (TQDM, "100%|██████████| 2/2 [00:02<00:00,  1.00s/it]\nepoch 1 loss=0.5\n"),
    (GBK, GBK.decode("utf-8", "replace")),
    (EVIL, "line\n"),
    (b"windows\r\nlines\r\n", "windows\nlines\n"),
    (b"spinner |\b/\b-\n", "spinner |/-\n"),
    (b" 10%\r 20%", " 20%"),
    (b"a\n\n\nb\n", "a\n\n\nb\n"),
    (b"", ""),
], ids=["cut", "tqdm", "gbk", "evil", "crlf", "spinner", "unfinished bar", "empty lines", "nothing"])
@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 400), max_size=8))
def test_into_a_pipe_goes_the_last_state_of_each_line(data: bytes, wanted: str, cuts: list[int]) -> None:
    assert through(LineSink, data, cuts).decode() == wanted


PLAIN = st.lists(st.sampled_from([b"plain line\n", "第 3 轮\n".encode(), b"\n", b"half", b"\tx\n"]), max_size=6)
SPECIAL = st.sampled_from([
    b"", b" 1%\r 2%\n", b"\x1b[32mgreen\x1b[0m\n", b"\x00", "\x9b31m".encode(), b"\xff\n", b"\x7f\n", b"a\b\n", "线".encode()[:2],
])


@settings(max_examples=120, deadline=None)
@given(before=PLAIN, special=SPECIAL, after=PLAIN, cuts=st.lists(st.integers(0, 80), max_size=3),
       pattern=st.sampled_from([None, "e", "^$", "轮"]))
def test_large_pieces_are_shown_as_byte_by_byte(
    before: list[bytes], special: bytes, after: list[bytes], cuts: list[int], pattern: str | None
) -> None:
    """Whole lines of plain text go out at once; nobody may see a difference."""
    data = b"".join([*before, special, *after])

    def shown(edges: list[int]) -> tuple[bytes, int]:
        wanted = Matching(re.compile(pattern)) if pattern is not None else None
        return through(LineSink, data, edges, wanted), wanted.found if wanted else 0

    assert shown(cuts) == shown(list(range(len(data))))


@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 400), max_size=8))
def test_a_terminal_shows_the_bars_and_the_colours(cuts: list[int]) -> None:
    screen = pyte.Screen(80, 5)
    shown = through(TerminalSink, TQDM + EVIL, cuts).decode()
    pyte.Stream(screen).feed(shown.replace("\n", "\r\n"))
    assert [row.rstrip() for row in screen.display[:3]] == [
        "100%|██████████| 2/2 [00:02<00:00,  1.00s/it]", "epoch 1 loss=0.5", "line"]
    assert screen.buffer[1][0].fg == "green"
    assert shown.endswith("\x1b[0m")  # a colour that the run left on does not stay


def test_a_line_without_an_end_is_given_back_whole_in_bounded_memory() -> None:
    line = "损".encode() * 1_700_000
    tracemalloc.start()
    out = io.BytesIO()
    sink = LineSink(Out(out, "utf-8"))
    for start in range(0, len(line), 65_536):
        sink.data(1, start, line[start:start + 65_536])
        out_size = out.tell()
        assert start - out_size < 1 << 21
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    sink.close()
    assert out.getvalue() == line
    assert peak < 40 << 20  # the output itself among it


def test_a_bar_that_draws_for_days_keeps_its_last_state_only() -> None:
    out = io.BytesIO()
    sink = JsonSink(Out(out, "utf-8"))
    offset = 0
    for step in range(40_000):
        state = b"\r%6d/40000 [%s]" % (step, b"#" * 60)
        sink.data(1, offset, state)
        offset += len(state)
    sink.data(1, offset, b"\nnext\n")
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"attempt": 1, "offset": 0, "line": " 39999/40000 [" + "#" * 60 + "]"},
        {"attempt": 1, "offset": offset + 1, "line": "next"}]


def test_json_lines_carry_the_offset_of_their_first_byte() -> None:
    out = io.BytesIO()
    sink = JsonSink(Out(out, "utf-8"), None, kept=True)
    data = "第一\r\n\x1b[31m二\x1b[0m\n三".encode()
    for at in range(len(data)):
        sink.data(2, 100 + at, data[at:at + 1])
    sink.close()
    assert sink.kept == [
        {"attempt": 2, "offset": 100 + data.index(start), "line": line}
        for start, line in (("第".encode(), "第一"), (b"\x1b[31m", "二"), ("三".encode(), "三"))]
    assert out.getvalue() == b""


def test_grep_sees_lines_as_a_reader_does() -> None:
    data = TQDM + b"loss=\x1b[1m0.5\x1b[0m\n" + GBK
    wanted = Matching(re.compile(r"^loss=0\.5$|^100%|=0.5$"))
    assert through(LineSink, data, [], wanted).decode() == (
        "100%|██████████| 2/2 [00:02<00:00,  1.00s/it]\nepoch 1 loss=0.5\nloss=0.5\n" + GBK.decode("utf-8", "replace"))


def test_the_last_matches_wait_until_they_are_known_and_later_ones_do_not() -> None:
    out = io.BytesIO()
    sink = LineSink(Out(out, "utf-8"), Matching(re.compile("loss"), last=2))
    sink.data(1, 0, b"".join(b"loss %d\nnoise\n" % number for number in range(50_000)))
    assert out.getvalue() == b""
    sink.release()
    assert out.getvalue() == b"loss 49998\nloss 49999\n"
    sink.data(1, 10**6, b"loss x\n")
    assert out.getvalue().endswith(b"49999\nloss x\n")


def test_an_encoding_that_cannot_say_it_replaces_it() -> None:
    out = io.BytesIO()
    LineSink(Out(out, "ascii")).data(1, 0, "损失 1\n".encode())
    assert out.getvalue() == b"?? 1\n"


@pytest.mark.parametrize("kind", [TerminalSink, RawSink])
def test_talk_begins_on_a_line_of_its_own(kind: type[TerminalSink] | type[RawSink]) -> None:
    stream = io.BytesIO()
    sink = kind(Out(stream, "utf-8"))
    sink.data(1, 0, b"\r 12%|#   |")
    sink.aside()
    sink.aside()
    assert stream.getvalue() == b"\r 12%|#   |\n"
    sink.data(1, 11, b"\r100%|####|\n")
    sink.aside()
    assert stream.getvalue().endswith(b"100%|####|\n")
