"""Events as lines of JSON, at any depth, and exports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sessions import answer, begin, call, end, new_log, say, settle

from dsh_tools.errors import SessionError
from dsh_tools.json_value import is_lossless, snapshot
from dsh_tools.session import (
    Event,
    EventLog,
    Replace,
    SessionHeader,
    dump_jsonl,
    load_jsonl,
    read_jsonl,
    write_jsonl,
)
from dsh_tools.session.codec import (
    _read_slowly,
    decode_event,
    decode_header,
    encode_event,
    encode_header,
    read_line,
)
from dsh_tools.testing.store_conformance import AWKWARD, refused

TEXT = st.text(st.characters(codec=None) | st.sampled_from('\ud800\udfff\x00"\\'), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
).filter(is_lossless)


@given(JSON, st.none() | st.lists(st.integers(0, 9), max_size=3), st.booleans())
def test_events_come_back_as_they_were(data: Any, sources: list[int] | None, replaces: bool):
    # HOST-107, 117
    event = Event(
        3,
        7,
        "user/message",
        snapshot(data),
        Replace(1, 2) if replaces else "append",
        *([] if sources is None else [tuple(sources)]),
    )
    line = encode_event(event)
    assert "\n" not in line
    line.encode()  # plain UTF-8: lone surrogates are escaped
    assert decode_event(line) == event
    assert decode_event(line.encode()) == event


@given(JSON)
def test_the_reader_of_deep_text_reads_all_text(data: Any):
    line = encode_event(Event(0, 0, "note", snapshot(data)))
    assert _read_slowly(line)["data"] == data
    assert _read_slowly(" \n" + json.dumps(data, indent=2) + " ") == data


def test_the_wire_form_is_camel_case_and_leaves_absent_keys_out():
    # HOST-107, 109
    line = encode_event(Event(1, 2, "tool/result", {}, "append", (0,), True))
    assert json.loads(line) == {
        "seq": 1,
        "time": 2,
        "type": "tool/result",
        "data": {},
        "surfaceOp": "append",
        "sourceEventSeqs": [0],
        "ignorable": True,
    }
    assert json.loads(encode_event(Event(1, 2, "turn/start", 5))) == {
        "seq": 1,
        "time": 2,
        "type": "turn/start",
        "data": 5,
    }
    replaced = json.loads(encode_event(Event(1, 2, "user/message", 5, Replace(0, 0))))
    assert replaced["surfaceOp"] == {"op": "replace", "start": 0, "end": 0}


def test_the_header_has_these_keys():
    # HOST-116
    full = SessionHeader(
        id="a",
        created_at=1,
        cwd="/w",
        parent_session="p",
        seed_length=3,
        origin="cli",
        delegation_depth=1,
        agent_preset="x",
    )
    assert json.loads(encode_header(full)) == {
        "version": 0,
        "id": "a",
        "createdAt": 1,
        "cwd": "/w",
        "parentSession": "p",
        "seedLength": 3,
        "origin": "cli",
        "delegationDepth": 1,
        "agentPreset": "x",
    }
    assert json.loads(encode_header(SessionHeader(id="a", created_at=1))) == {
        "version": 0,
        "id": "a",
        "createdAt": 1,
    }
    assert decode_header(encode_header(full)) == full
    with refused("CORRUPT_LOG"):
        decode_header('{"version": 1, "id": "a", "createdAt": 1}')


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[1,",
        '{"a"',
        '{"a":1,}',
        "[1}",
        "nul",
        "NaN",
        "[-0.0]",
        "{} {}",
        b"\xff",
        '{"seq": -1, "time": 0, "type": "t", "data": 1}',
        '{"seq": 0, "time": 0, "type": "", "data": 1}',
        '{"seq": 0, "time": 0, "type": "t"}',
        "[" * 3000 + "1" + "]" * 2999,
        '"\\ud800" x',
        '{"\\ud800" 1}',
        "{1:2}",
        '["\\ud800" 1]',
    ],
)
def test_what_is_no_event_is_corrupt(line: str | bytes):
    with refused("CORRUPT_LOG"):
        decode_event(line)


@pytest.mark.parametrize(
    "text", ['["\\ud800"1]', '["\\ud800"}', "{'a':\"\\ud800\"}", '{"a";"\\ud800"}', '["\\ud800"] 1', '["\\ud800", x]']
)
def test_the_reader_of_deep_text_is_strict(text: str):
    with refused("CORRUPT_LOG"):
        read_line(text)


def test_long_integers_and_depth_are_read_exactly():
    big = 10**6000 + 7
    assert read_line(encode_event(Event(0, 0, "n", [big])))["data"][0] == big
    text = "[" * 100_000 + "]" * 100_000
    value, depth = read_line(text), 0
    while value:
        value, depth = value[0], depth + 1
    assert depth == 99_999
    nested = '{"a":' * 5000 + '["\\ud800", 1.5, true, null, "x"]' + "}" * 5000
    value = read_line(nested)
    for _ in range(5000):
        value = value["a"]
    assert value == ["\ud800", 1.5, True, None, "x"]


def conversation() -> EventLog:
    log = new_log()
    say(log, "q \ud835 \u2028 line")
    begin(log)
    answer(log, "a", ("c1", "t", '{"bad'))
    settle(log, call(log, "c1", arguments='{"bad'), meta={**AWKWARD})
    end(log)
    return log


def test_an_export_comes_back_whole(tmp_path: Path):
    log = conversation()
    path = tmp_path / "s.jsonl"
    write_jsonl(path, log.header, log.events)
    assert [each.name for each in tmp_path.iterdir()] == ["s.jsonl"]
    assert path.read_bytes().count(b"\n") == len(log.events) + 1
    found = read_jsonl(path)
    assert (found.header, found.events) == (log.header, tuple(log.events))
    again = new_log()
    again.load(found.events)
    assert again.derive_messages() == log.derive_messages()


def test_a_damaged_export_names_its_line():
    log = conversation()
    lines = list(dump_jsonl(log.header, log.events))
    for damaged, where in (
        ([*lines[:3], lines[3][:-5]], "line 4"),
        ([*lines[:2], *lines[3:]], "line 3: event 2 stands in place 1"),
        ([lines[1]], "line 1: not a session header"),
        (["", " "], "there is no header"),
    ):
        with pytest.raises(SessionError, match=where) as caught:
            load_jsonl(damaged)
        assert caught.value.code == "CORRUPT_LOG"
    assert len(load_jsonl(["", lines[0], "", *lines[1:], ""]).events) == len(log.events)
