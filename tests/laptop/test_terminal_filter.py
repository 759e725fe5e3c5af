"""What reaches the user's terminal: text and colours always, what acts on the terminal never, however it is cut."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cloudrun.cli.terminal_filter import LONGEST_STRING, TerminalFilter, last_state, plain

TQDM = ("\r  0%|          | 0/2 [00:00<?, ?it/s]\r 50%|█████     | 1/2 [00:01<00:01,  1.00s/it]"
        "\r100%|██████████| 2/2 [00:02<00:00,  1.00s/it]\n\x1b[32mepoch 1\x1b[0m loss=0.5\x1b[K\n")
EVIL = "\x1b]0;title\x07\x1b[6n\x00line\n"

#: Sequences and pieces of them, to be mixed with text by chance.
PIECES = st.sampled_from([
    "\x1b", "\x1b[", "\x1b]0;t", "\x07", "\x1b\\", "\x9b", "\x9c", "[31m", "\x1b[31m", "\x1b[?1049h",
    "\x1b]52;c;aGk=\x07", "\x1bP", "\x1b[6n",
    "\x1bk", "\x1b(B", "\x00", "\r", "\n", "100%|██|", "损失", "m", "0;1", "\x1b[1A", "\x1b[2K", "\x18", "\x9d", "\x90q", " ",
])
MIXED = st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=30).map("".join)


def shown(text: str) -> str:
    whole = TerminalFilter()
    return whole.feed(text) + whole.flush()


@pytest.mark.parametrize(("given_", "wanted"), [
    (EVIL, "line\n"),
    (TQDM, TQDM),
    ("\x1b[1A\x1b[2K\x1b[38;2;1;2;3mx\x1b[0m\x1b[0J\b\t", "\x1b[1A\x1b[2K\x1b[38;2;1;2;3mx\x1b[0m\x1b[0J\b\t"),
    ("a\x1b]52;c;aGVsbG8=\x1b\\b", "ab"),  # clipboard
    ("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
    ("a\x1bP$q\"p\x1b\\b\x1b_Gx\x1b\\c\x1b^pm\x1b\\d\x1bXs\x1b\\e", "abcde"),  # DECRQSS, APC, PM, SOS
    ("\x1b[c\x1b[>c\x1b[=c\x1b[5n\x1b[?6n\x1b[?2026$p\x1b[x\x1b[18t\x1b[21t", ""),  # queries
    ("\x1b[?1049h\x1b[?1000h\x1b[?2004h\x1b=\x1b>\x1b[?25l\x1b[4h\x1b[20l\x1b[>4;2m\x1b[!p", ""),  # modes
    ("\x1bc\x1b(0\x1b#8\x1b7\x1b8\x1bZ\x0e\x0f\x05\x07", ""),  # reset, character sets, answerback, bell
    ("\x1b[2J\x1b[3J\x1b[H\x1b[5;5H\x1b[r\x1b[1;5r\x1b[s\x1b[u", ""),
    ("a\x9b31mb\x9b6nc\x9d0;t\x9cd\x90q\x9ce\x85\x84f", "a\x1b[31mbcdef"),  # C1
    ("\x1bktitle\x1b\\x", "x"),  # screen's title
    ("\x1b]0;cut off by the crash\nTraceback\n", "]0;cut off by the crash\nTraceback\n"),
    ("\x1b]0;never ends", "]0;never ends"),
    ("\x1b[31", "[31"),
    ("\x1b[3损失", "[3损失"),
    ("\x1b\x1b]0;t\x07[31mx", "[31mx"),  # what is taken out may not join its neighbours to a new sequence
    ("\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\x", "Ptmux;x"),
    ("\x1b]" + "a" * (LONGEST_STRING + 1) + "\x07", "]" + "a" * (LONGEST_STRING + 1)),
])
def test_text_colours_and_bars_pass_and_nothing_that_acts(given_: str, wanted: str) -> None:
    assert shown(given_) == wanted


@settings(max_examples=60, deadline=None)
@given(MIXED, st.lists(st.integers(0, 200), max_size=20))
@example(EVIL + TQDM, [3, 4, 9, 10, 11, 14])
def test_any_cut_into_pieces_gives_the_same(text: str, cuts: list[int]) -> None:
    piecewise, at, out = TerminalFilter(), 0, ""
    for cut in sorted(cuts):
        out += piecewise.feed(text[at:cut])
        at = max(at, cut)
    assert out + piecewise.feed(text[at:]) + piecewise.flush() == shown(text)


@settings(max_examples=60, deadline=None)
@given(MIXED)
def test_a_terminal_is_never_made_to_answer_or_change(text: str) -> None:
    answers: list[str] = []

    class Screen(pyte.Screen):
        def write_process_input(self, data: str) -> None:
            answers.append(data)

    screen = Screen(80, 24)
    modes = set(screen.mode)
    pyte.Stream(screen).feed(shown(text))
    assert not answers
    assert (screen.title, screen.icon_name, screen.mode) == ("", "", modes)


@settings(max_examples=60, deadline=None)
@given(MIXED)
def test_what_is_plain_holds_no_control(text: str) -> None:
    assert not set(plain(text)) & ({chr(c) for c in range(0x20)} - set("\t\n\r\b") | {chr(c) for c in range(0x7f, 0xa0)})
    assert plain(shown(text)) == plain(text)


def test_text_outside_sequences_is_kept_whole() -> None:
    text = "第 3 轮 损失=0.123 ✓ é \t x\n" * 50
    assert shown(text) == plain(text) == text


def test_what_is_held_is_bounded() -> None:
    held = TerminalFilter()
    given_ = "\x1b]" + "x" * 100_000
    assert len(given_) - len(held.feed(given_)) <= LONGEST_STRING + 2


@pytest.mark.parametrize(("line", "wanted"), [
    ("no bar", "no bar"), (" 0%\r 50%\r100%", "100%"), ("windows line\r", "windows line"), ("\r\r", ""), ("a\r\r", "a"),
])
def test_the_last_state_of_a_bar(line: str, wanted: str) -> None:
    assert last_state(line) == wanted
