"""Cards as they look: snapshots at three widths with and without colour, and what holds for any card."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.unit.terminal.gallery import CODE, COMMAND, gallery

from dsh_tools.content import JsonBlock, TextBlock
from dsh_tools.terminal import Card, Limits, make_console, render_call, render_result
from dsh_tools.tools.cards import (
    DiffCall,
    DiffResult,
    FileDiff,
    FileMatches,
    GenericCall,
    GenericResult,
    LineMatch,
    Location,
    ReadLine,
    ReadResult,
    ResultView,
    SearchMatches,
    SearchPaths,
    TerminalCall,
    TerminalResult,
    WebFetch,
    WebSearch,
    WebSource,
)

SNAPSHOTS = Path(__file__).parent / "snapshots"
# Set it to write the snapshots again; look at the difference before you keep it.
WRITE = os.environ.get("DSH_TOOLS_WRITE_SNAPSHOTS") == "1"
SGR = re.compile(r"\x1b\[[0-9;]*m")
FORBIDDEN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def printed(card: Card, *, width: int = 80, colour: bool = False) -> str:
    file = io.StringIO()
    make_console(file, width=width, colour=colour).print(card)
    return file.getvalue()


@pytest.mark.parametrize("colour", [False, True], ids=["plain", "colour"])
@pytest.mark.parametrize("width", [60, 80, 140])
def test_cards_look_as_they_did(width: int, colour: bool, monkeypatch: pytest.MonkeyPatch):
    # PIPE-209, 210, 211, 212, 213, 215, 216, 217
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    parts = [f"── {name}\n{printed(card, width=width, colour=colour)}" for name, card in gallery().items()]
    text = "\n".join(parts).replace("\x1b", "\\e")
    path = SNAPSHOTS / f"cards-{width}-{'colour' if colour else 'plain'}.txt"
    if WRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_colours_do_not_change_the_words():
    for name, card in gallery().items():
        assert SGR.sub("", printed(card, colour=True)) == printed(card), name


# ── what holds for any card ────────────────────────────────────────────────────

TEXT = st.text(st.characters(codec=None), max_size=60) | st.sampled_from(
    [
        "\x1b]0;x\x07",
        "\x1b[2J\x1b[31mred",
        "\u202ertl",
        "日本語" * 30,
        "a\u0301" * 90,
        "\r\n\r",
        "\ttab",
        "\x9b1m",
        "👩\u200d💻" * 20,
    ]
)
TITLE = st.none() | TEXT
DIFF = st.builds(FileDiff, TEXT, st.none() | TEXT, TEXT)
CALLS = st.one_of(
    st.none(),
    st.builds(
        GenericCall,
        TEXT,
        raw_input=TEXT | st.dictionaries(TEXT, TEXT, max_size=2),
        locations=st.tuples(st.builds(Location, TEXT)),
    ),
    st.builds(TerminalCall, TEXT, TITLE, TITLE),
    st.builds(DiffCall, TEXT, st.tuples(DIFF, DIFF)),
)
RESULTS: st.SearchStrategy[ResultView | None] = st.one_of(
    st.none(),
    st.builds(GenericResult, TITLE, st.none() | st.tuples(st.builds(TextBlock, TEXT), st.builds(JsonBlock, TEXT))),
    st.builds(TerminalResult, TITLE, TITLE, st.none() | st.integers()),
    st.builds(TerminalResult, TITLE, TITLE, signal=TEXT),
    st.builds(DiffResult, st.tuples(DIFF), TITLE),
    st.builds(SearchMatches, st.tuples(st.builds(FileMatches, TEXT, st.tuples(st.builds(LineMatch, st.integers(), TEXT)))), st.booleans(), st.integers()),
    st.builds(SearchPaths, st.tuples(TEXT, TEXT), st.booleans(), st.integers(), TITLE),
    st.builds(ReadResult, TEXT, st.integers(), st.tuples(st.builds(ReadLine, st.integers(), TEXT)), st.integers(), lang=st.sampled_from(["python", "json", "no-such-language"])),
    st.builds(WebSearch, st.tuples(st.builds(WebSource, TEXT, TITLE, TITLE, TITLE)), st.booleans(), TITLE, TITLE),
    st.builds(WebFetch, TEXT, st.integers(), st.booleans()),
)  # fmt: skip


def check(card: Card, width: int) -> None:
    text = printed(card, width=width)
    assert not FORBIDDEN.search(text)
    assert max(map(cell_len, text.split("\n"))) <= width
    coloured = printed(card, width=width, colour=True)
    assert not FORBIDDEN.search(SGR.sub("", coloured))
    assert SGR.sub("", coloured) == text
    coloured.encode()


@given(CALLS, TEXT, st.sampled_from([16, 60, 140]))
def test_any_call_is_printed_harmlessly_and_fits(view: Any, name: str, width: int):
    check(render_call(view, name=name, arguments=name), width)


@given(RESULTS, CALLS, TEXT, st.booleans(), st.sampled_from([16, 60, 140]))
def test_any_result_is_printed_harmlessly_and_fits(view: Any, call: Any, text: str, is_error: bool, width: int):
    card = render_result(
        view, name=text, arguments={text: text}, content=(TextBlock(text),), is_error=is_error, call=call
    )
    check(card, width)


# ── titles and fallbacks ───────────────────────────────────────────────────────


def settled(view: ResultView | None, **more: Any) -> str:
    options: dict[str, Any] = {"name": "t", "arguments": {"a": 1}, "content": (TextBlock("body"),), "is_error": False}
    return printed(render_result(view, **options | more))


def test_without_views_the_name_the_arguments_and_the_content_are_shown():
    # PIPE-205
    assert printed(render_call(None, name="t", arguments={"a": 1})) == '○ t\n│ {\n│   "a": 1\n│ }\n'
    assert settled(None) == '✓ t\n│ {"a":1}\n│ body\n'
    assert settled(None, is_error=True) == '✗ t\n│ {"a":1}\n│ body\n'


def test_the_pending_title_stays_until_the_result_has_one():
    # PIPE-212
    pending = GenericCall("Pending title")
    assert settled(GenericResult(), call=pending).startswith("✓ Pending title · t\n")
    assert settled(GenericResult("New title"), call=pending).startswith("✓ New title · t\n")
    assert settled(TerminalResult(exit_code=0), call=COMMAND).startswith('✓ $ python -c " · t\n│ > print(1 + 1)\n')


def test_a_completed_diff_stands_on_its_own():
    # PIPE-214
    diffs = (FileDiff("a", "x", "y"),)
    assert settled(DiffResult(diffs), call=DiffCall("Edit a", diffs)) == "✓ Edit a · t\n│ a\n│ - x\n│ + y\n╰ +1 -1\n"


def test_pending_searches_reads_and_fetches_are_generic():
    # PIPE-218
    for kind in ("search", "read", "fetch"):
        assert printed(render_call(GenericCall("Look", kind), name="t", arguments={})) == "○ Look · t\n"


# ── limits ─────────────────────────────────────────────────────────────────────


def test_long_results_are_cut_with_a_marker():
    lines = "\n".join(f"line {number}" for number in range(2000))
    shown = settled(None, arguments={}, content=(TextBlock(lines),), limits=Limits(lines=3))
    assert shown == "✓ t\n│ line 0\n│ line 1\n│ line 2\n│ ⋯ 1,997 more lines\n"


def test_of_a_long_output_the_end_is_shown_too():
    output = "\n".join(f"line {number}" for number in range(2000))
    shown = settled(TerminalResult("x", output), limits=Limits(lines=10)).splitlines()
    assert shown[1] == "│ line 0"
    assert shown[9] == "│ ⋯ 1,990 more lines"
    assert shown[-1] == "│ line 1999"


def test_a_long_line_is_cut_with_a_marker():
    limits = Limits(line_length=10)
    assert "aaaaaaaaaa… 4,999,990 more characters" in settled(
        None, content=(TextBlock("a" * 5_000_000),), limits=limits
    )
    for output in ("\x1b[31m" + "a" * 500, "a" * 5_000_000):
        shown = settled(TerminalResult("x", output), limits=limits)
        assert "│ aaaaaaaaaa… " in shown
        assert "more characters" in shown
    # What is cut off may be all that is visible.
    assert "more characters" in settled(TerminalResult("x", "\x1b[m" * 100_000 + "end"), limits=limits)


def test_very_deep_values_are_shown_on_one_line():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    shown = settled(None, arguments=deep, content=(JsonBlock(deep),))
    assert shown.count("more characters") == 2


def test_code_is_coloured_by_its_language():
    lines = tuple(ReadLine(number, line) for number, line in enumerate(CODE.split("\n"), 1))
    for language, coloured in [("python", True), ("no-such-language", False), (None, False)]:
        card = render_result(
            ReadResult("a.py", 1, lines, 6, lang=language), name="t", arguments={}, content=(), is_error=False
        )
        assert ("\x1b[94;49mdef" in printed(card, colour=True)) is coloured


def test_a_terminal_with_ascii_alone_gets_ascii():
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    make_console(file, width=60, colour=False).print(render_result(
        ReadResult("a.py", 1, (ReadLine(1, "é…"),), 1), name="t", arguments={}, content=(), is_error=False
    ))  # fmt: skip
    file.flush()
    assert raw.getvalue().decode() == "+ a.py - t\n| 1  \\xe9~\n` lines 1-1 of 1\n"
