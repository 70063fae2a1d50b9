"""Text that a tool returned cannot command the terminal, reorder what is read, or hide."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from dsh_tools.terminal.neutral import CommandOutput, one_line, plain

HOSTILE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e01ff]"
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("two\nlines", "two\nlines"),
        ("windows\r\nlines", "windows\nlines"),
        ("a\tb", "a   b"),
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]52;c;ZXZpbA==\x07", "␛]52;c;ZXZpbA==␇"),
        ("over\rwritten", "over␍written"),
        ("a\x08b\x00\x7f", "a␈b␀␡"),
        ("\x9b31m\x9d0;x", "\\x9b31m\\x9d0;x"),
        ("if admin\u202e } \u2066", "if admin\\u202e } \\u2066"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("hidden \U000e0068\U000e0069", "hidden \\U000e0068\\U000e0069"),
        ("lone \ud83d surrogate", "lone \\ud83d surrogate"),
        ("pass\u200dword", "pass\\u200dword"),
        ("👩\u200d💻 نمی\u200cخواهم", "👩\u200d💻 نمی\u200cخواهم"),
        ("שלום 日本語 é", "שלום 日本語 é"),
    ],
)
def test_what_a_terminal_obeys_or_hides_becomes_visible(text: str, shown: str):
    assert plain(text) == shown


@given(st.text(st.characters(codec=None)))
def test_no_text_stays_hostile(text: str):
    shown = plain(text)
    assert not HOSTILE.search(shown)
    shown.encode()


@given(st.text("abcXYZ 0189_-+*äßñéλжשةहिไทย日本語한국어🙂\n"))
def test_harmless_text_stays_as_it_is(text: str):
    assert plain(text) == text


def test_one_line_shows_line_feeds():
    assert one_line("a\nb\r\nc\n") == "a⏎b⏎c"


def shown_lines(output: str) -> list[str]:
    reader = CommandOutput()
    return [reader.line(line).plain for line in output.split("\n")]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\x1b[2J\x1b[1;1Hcleared", "cleared"),
        ("\x1b[?1049halternate screen", "alternate screen"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil.test\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;ZXZpbA==\x07clipboard", "clipboard"),
        ("\x1bP+q544e\x1b\\terminfo", "terminfo"),
        ("\x1b_graphics\x1b\\image", "image"),
        ("\x1bcreset", "reset"),
        ("\x1b(0charset", "charset"),
        ("\x1b[>4;2mkeyboard", "keyboard"),
        ("\x1b]0;never ends", "0;never ends"),
        ("\x1b[31", "31"),
        ("\x1b", "␛"),
        ("\x9b31mC1", "\\x9b31mC1"),
        (" 10%\r 50%\r100%", "100%"),
        ("100%\r", "100%"),
        ("bell\x07 \x08\u202e", "bell␇ ␈\\u202e"),
        ("\x1b[" + "1" * 6000 + "mhi", "hi"),
    ],
)
def test_command_output_keeps_nothing_but_colours(line: str, shown: str):
    assert shown_lines(line) == [shown]


def test_colours_survive_and_go_on_over_lines():
    reader = CommandOutput()
    first, second = reader.line("\x1b[1;31mred"), reader.line("still\x1b[0m not")
    assert [str(span.style) for span in first.spans] == ["bold color(1)"]
    assert [(span.start, span.end, str(span.style)) for span in second.spans][0] == (0, 5, "bold color(1)")


def test_nothing_is_concealed_and_nothing_blinks():
    line = CommandOutput().line("\x1b[8;5mpassword\x1b[0m")
    (span,) = line.spans
    assert isinstance(span.style, Style)
    assert not span.style.conceal
    assert not span.style.blink


@given(
    st.lists(
        st.sampled_from(["\x1b", "[", "]", "31", ";", "m", "\x07", "\\", "P", "\r", "x", "\x9b", "8", "²", "?"]),
        max_size=40,
    )
)
def test_any_mixture_of_sequences_is_harmless(pieces: list[str]):
    line = CommandOutput().line("".join(pieces))
    assert not HOSTILE.search(line.plain)
