"""Cards: the JSON form of each, and that reading it back gives the same record."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_tools.content import JsonBlock, TextBlock
from dsh_tools.tools import cards
from dsh_tools.tools.cards import (
    CallView,
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
    call_view_from_json,
    result_view_from_json,
    view_to_json,
)

CALLS: list[tuple[CallView, dict[str, Any]]] = [
    # PIPE-209
    (GenericCall("Think"), {"card": "generic", "title": "Think"}),
    (
        GenericCall(
            "Read a.py",
            kind="read",
            raw_input={"path": "a.py"},
            content=(TextBlock("hello"),),
            locations=(Location("a.py", 3), Location("b.py")),
        ),
        {
            "card": "generic",
            "title": "Read a.py",
            "kind": "read",
            "rawInput": {"path": "a.py"},
            "content": [{"type": "text", "text": "hello"}],
            "locations": [{"path": "a.py", "line": 3}, {"path": "b.py"}],
        },
    ),
    # PIPE-210
    (TerminalCall("ls"), {"card": "terminal", "title": "ls"}),
    (
        TerminalCall("ls", description="List", cwd="src"),
        {"card": "terminal", "title": "ls", "description": "List", "cwd": "src"},
    ),
    # PIPE-211: null says that there is no old text; it is never left out
    (
        DiffCall("Edit", (FileDiff("a", None, "x"), FileDiff("b", "y", "z")), locations=(Location("a", 1),)),
        {
            "card": "diff",
            "title": "Edit",
            "diffs": [
                {"path": "a", "oldText": None, "newText": "x"},
                {"path": "b", "oldText": "y", "newText": "z"},
            ],
            "locations": [{"path": "a", "line": 1}],
        },
    ),
]

RESULTS: list[tuple[ResultView, dict[str, Any]]] = [
    # PIPE-212
    (GenericResult(), {"card": "generic"}),
    (
        GenericResult("Done", (JsonBlock({"a": 1}),)),
        {"card": "generic", "title": "Done", "content": [{"type": "json", "value": {"a": 1}}]},
    ),
    # PIPE-213
    (TerminalResult(output="", exit_code=0), {"card": "terminal", "output": "", "exitCode": 0}),
    (
        TerminalResult("ls", "x", signal="SIGKILL"),
        {"card": "terminal", "title": "ls", "output": "x", "signal": "SIGKILL"},
    ),
    # PIPE-214
    (
        DiffResult((FileDiff("a", None, ""),), "Wrote a"),
        {"card": "diff", "diffs": [{"path": "a", "oldText": None, "newText": ""}], "title": "Wrote a"},
    ),
    # PIPE-215: the discriminant is shape, and false and 0 are written out
    (
        SearchMatches((FileMatches("a", (LineMatch(1, "x"),)),), truncated=False, total=1),
        {
            "card": "search",
            "shape": "matches",
            "files": [{"path": "a", "matches": [{"lineNumber": 1, "line": "x"}]}],
            "truncated": False,
            "total": 1,
        },
    ),
    (
        SearchPaths((), truncated=False, total=0),
        {"card": "search", "shape": "paths", "paths": [], "truncated": False, "total": 0},
    ),
    # PIPE-216: the offset is kept when there are no lines
    (
        ReadResult("a.py", 900, (), 12, lang="python", content=(TextBlock("past the end"),)),
        {
            "card": "read",
            "path": "a.py",
            "offset": 900,
            "lines": [],
            "totalLines": 12,
            "lang": "python",
            "content": [{"type": "text", "text": "past the end"}],
        },
    ),
    (
        ReadResult("a", 2, (ReadLine(2, "x"),), 2),
        {"card": "read", "path": "a", "offset": 2, "lines": [{"number": 2, "text": "x"}], "totalLines": 2},
    ),
    # PIPE-217
    (
        WebSearch((WebSource("https://x.test", published_at="2024-01-02"),), truncated=True, answer="42"),
        {
            "card": "web",
            "kind": "search",
            "sources": [{"url": "https://x.test", "publishedAt": "2024-01-02"}],
            "truncated": True,
            "answer": "42",
        },
    ),
    (
        WebFetch("https://x.test/end", 200, truncated=False, title="X"),
        {
            "card": "web",
            "kind": "fetch",
            "url": "https://x.test/end",
            "statusCode": 200,
            "truncated": False,
            "title": "X",
        },
    ),
]


@pytest.mark.parametrize(("view", "document"), CALLS, ids=lambda value: type(value).__name__)
def test_call_views_have_their_wire_form(view: CallView, document: dict[str, Any]):
    assert view_to_json(view) == document
    assert json.loads(msgspec.json.encode(view)) == document
    assert call_view_from_json(json.loads(json.dumps(document))) == view


@pytest.mark.parametrize(("view", "document"), RESULTS, ids=lambda value: type(value).__name__)
def test_result_views_have_their_wire_form(view: ResultView, document: dict[str, Any]):
    assert view_to_json(view) == document
    assert json.loads(msgspec.json.encode(view)) == document
    assert result_view_from_json(json.loads(json.dumps(document))) == view


def test_every_kind_of_card_is_covered():
    assert {type(view) for view, _ in CALLS} == set(get_args(CallView))
    assert {type(view) for view, _ in RESULTS} == set(get_args(ResultView))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
BLOCKS = st.lists(st.builds(TextBlock, st.text()) | st.builds(JsonBlock, JSON)).map(tuple)
TITLES = st.none() | st.text()
RESULT_VIEWS = st.one_of(
    st.builds(GenericResult, TITLES, st.none() | BLOCKS),
    st.builds(TerminalResult, TITLES, output=TITLES, exit_code=st.none() | st.integers(0, 255)),
    st.builds(TerminalResult, signal=st.text()),
    st.builds(DiffResult, title=TITLES),
    st.builds(SearchMatches, title=TITLES),
    st.builds(SearchPaths, title=TITLES),
    st.builds(ReadResult, title=TITLES, lang=TITLES, content=st.none() | BLOCKS),
    st.builds(WebSearch, title=TITLES, answer=TITLES),
    st.builds(WebFetch, title=TITLES),
)
CALL_VIEWS = st.one_of(
    st.builds(GenericCall, raw_input=JSON, content=st.none() | BLOCKS),
    st.from_type(TerminalCall),
    st.from_type(DiffCall),
)


@given(RESULT_VIEWS)
def test_any_result_view_survives_the_round_trip(view: ResultView):
    assert result_view_from_json(view_to_json(view)) == view


@given(CALL_VIEWS)
def test_any_call_view_survives_the_round_trip(view: CallView):
    assert call_view_from_json(view_to_json(view)) == view


def test_raw_input_may_be_as_deep_as_arguments_may_be():
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    document = view_to_json(GenericCall("x", raw_input=deep))
    view = call_view_from_json(document)
    assert isinstance(view, GenericCall)
    assert view.raw_input is deep


def test_cards_are_immutable():
    with pytest.raises(AttributeError):
        GenericCall("a").title = "b"  # type: ignore[misc]


def test_a_process_ends_in_one_way():
    # PIPE-213
    with pytest.raises(ValueError, match="not both"):
        TerminalResult(exit_code=1, signal="SIGTERM")
    with pytest.raises(ValueError, match="not both"):
        result_view_from_json({"card": "terminal", "exitCode": 1, "signal": "SIGTERM"})


@pytest.mark.parametrize(
    ("document", "where"),
    [
        (None, r"\$"),
        ([], r"\$"),
        ({}, r"\$\.card"),
        ({"card": "frob"}, r"\$\.card"),
        ({"card": ["generic"]}, r"\$\.card"),
        ({"card": "search"}, r"\$\.shape"),
        ({"card": "search", "shape": "lines"}, r"\$\.shape"),
        ({"card": "search", "kind": "paths"}, r"\$\.shape"),
        ({"card": "web", "kind": "scrape"}, r"\$\.kind"),
        (
            {"card": "search", "shape": "paths", "paths": ["a", 5], "truncated": False, "total": 1},
            r"\$\.paths",
        ),
        ({"card": "read", "path": "a", "offset": "1", "lines": [], "totalLines": 0}, r"\$\.offset"),
    ],
)
def test_what_is_not_a_result_card_is_refused_with_its_place(document: object, where: str):
    with pytest.raises(msgspec.ValidationError, match=where):
        result_view_from_json(document)


def test_results_have_cards_that_calls_have_not():
    # PIPE-218
    for card in ("search", "read", "web"):
        with pytest.raises(msgspec.ValidationError, match=r"\$\.card"):
            call_view_from_json({"card": card, "title": "x"})
    assert {"search", "read", "fetch"} <= set(get_args(cards.CallKind))
