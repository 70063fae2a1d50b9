from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_tools.code_runtime.deep_json import read_deep_json
from dsh_tools.code_runtime.protocol import (
    CallFrame,
    DoneFrame,
    FaultFrame,
    IdleFrame,
    LogFrame,
    Payload,
    ReadyFrame,
    SleepFrame,
    WakeFrame,
    at_member,
    failure_reply,
    find_inexact_integer,
    greeting,
    parse_frame,
    program_line,
    success_reply,
)
from dsh_tools.code_runtime.seam import BindingNamespace, CodeRunError, ErrorClassSpec
from dsh_tools.errors import JsonTextError, LossyJsonError
from dsh_tools.json_value import snapshot

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def frame(**members: object) -> bytes:
    return json.dumps(members).encode()


def test_each_frame_is_read_in_its_exact_shape():
    # CODE-181, 184
    assert parse_frame(frame(t="ready")) == ReadyFrame()
    assert parse_frame(frame(t="log", text="x")) == LogFrame("x")
    assert parse_frame(frame(t="fault", message="x")) == FaultFrame("x")
    assert parse_frame(frame(t="idle")) == IdleFrame()
    assert parse_frame(frame(t="sleep", id=4, ms=250)) == SleepFrame(4, 250)
    assert parse_frame(frame(t="wake", id=4)) == WakeFrame(4)
    call = parse_frame(b'{"t":"call","id":3,"ns":"tools","name":"echo","args":{"a":[1]}}')
    assert isinstance(call, CallFrame)
    assert (call.id, call.namespace, call.name, call.arguments.value()) == (3, "tools", "echo", {"a": [1]})
    done = parse_frame(b'{"t":"done","value":null}')
    assert isinstance(done, DoneFrame) and done.value is not None and done.value.value() is None
    assert parse_frame(frame(t="done")) == DoneFrame()
    assert parse_frame(frame(t="done", over=True)) == DoneFrame(over=True)


def test_extra_members_are_dropped():
    # CODE-184
    assert parse_frame(frame(t="log", text="x", truncated="yes", extra=[1])) == LogFrame("x")
    assert parse_frame(frame(t="done", over="true")) is None


def test_an_error_wins_over_a_value():
    # CODE-184
    error = {"kind": "exception", "message": "m"}
    assert parse_frame(frame(t="done", value=1, error=error)) == DoneFrame(error=CodeRunError("exception", "m"))


@pytest.mark.parametrize("kind", ["timeout", "abort", "worker-exit", "", "EXCEPTION", None, 5])
def test_a_worker_cannot_name_a_kind_that_is_not_a_programs(kind: object):
    # CODE-181, 184
    assert parse_frame(frame(t="done", error={"kind": kind, "message": "m"})) is None


def test_a_worker_cannot_word_the_limit():
    # CODE-151, 155
    assert parse_frame(frame(t="done", error={"kind": "output-limit", "message": "m"})) == DoneFrame(over=True)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"1",
        b'"done"',
        b"{}",
        b'{"t":1}',
        b'{"t":"nope"}',
        b'{"t":"toString"}',
        b'{"t":"__class__"}',
        b'{"t":"log"}',
        b'{"t":"log","text":1}',
        b'{"t":"log","text":null}',
        b'{"t":"fault"}',
        b'{"t":"call","id":1,"ns":"a","name":"b"}',
        b'{"t":"call","id":"1","ns":"a","name":"b","args":1}',
        b'{"t":"call","id":1.5,"ns":"a","name":"b","args":1}',
        b'{"t":"call","id":-0.0,"ns":"a","name":"b","args":1}',
        b'{"t":"call","id":1e999,"ns":"a","name":"b","args":1}',
        b'{"t":"call","id":true,"ns":"a","name":"b","args":1}',
        b'{"t":"call","id":1,"ns":[],"name":"b","args":1}',
        b'{"t":"call","id":1,"ns":"a","name":null,"args":1}',
        b'{"t":"call","id":1,"ns":"a","name":"b","args":nope}',
        b'{"t":"sleep","id":1}',
        b'{"t":"sleep","ms":1}',
        b'{"t":"sleep","id":"1","ms":1}',
        b'{"t":"sleep","id":1,"ms":"1"}',
        b'{"t":"sleep","id":1,"ms":-1}',
        b'{"t":"sleep","id":1,"ms":2147483648}',
        b'{"t":"sleep","id":1,"ms":1e999}',
        b'{"t":"sleep","id":1,"ms":true,"text":"\\ud800"}',
        b'{"t":"wake"}',
        b'{"t":"wake","id":"1"}',
        b'{"t":"done","error":{}}',
        b'{"t":"done","error":"x"}',
        b'{"t":"done","error":{"kind":"exception"}}',
        b'{"t":"done","error":{"kind":"exception","message":5}}',
        b'{"t":"done","value":}',
        b'{"t":"log","text":"\xff"}',
        b'{"t":"log","text":"a"}{"t":"log","text":"b"}',
        b'{"t":"log","text":"' + b"\\ud800" * 3,
        b'{"t":["\\ud800"],"text":"a"}',
        b'{"t":"call","id":"\\ud800","ns":"a","name":"b","args":1}',
        b'{"t":"done","error":["\\ud800"]}',
        b'["\\ud800"]',
        b'{"t":"done","value":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_not_a_frame_is_dropped(line: bytes):
    # CODE-181, 184
    assert parse_frame(line) is None


@settings(max_examples=300)
@given(st.binary(max_size=80) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_line_is_ever_more_than_dropped(line: bytes):
    # CODE-179
    assert parse_frame(line) is None or b'"t"' in line


def test_lone_surrogates_arrive_as_they_are():
    # CODE-84
    assert parse_frame(b'{"t":"log","text":"\\ud800x"}') == LogFrame("\ud800x")
    call = parse_frame(b'{"t":"call","id":1,"ns":"a","name":"\\udc00","args":{"\\ud800":["\\udfff"]}}')
    assert isinstance(call, CallFrame) and call.name == "\udc00"
    assert call.arguments.value() == {"\ud800": ["\udfff"]}
    assert parse_frame(b'{"t":"done","error":{"kind":"exception","message":"\\ud800"}}') == DoneFrame(
        error=CodeRunError("exception", "\ud800")
    )


@pytest.mark.parametrize("text", ["-0.0", "1e400", "9007199254740993", "[9007199254740993]", '{"a":-9007199254740993}'])
def test_forged_values_are_checked_again(text: str):
    # CODE-181, 184, 186
    with pytest.raises(LossyJsonError):
        Payload(text, deep=False).value()
    with pytest.raises(LossyJsonError):
        Payload(text, deep=True).value()


@pytest.mark.parametrize(
    "text",
    [
        "9007199254740992",
        "1152921504606846976",
        "18446744073709551616",
        '"9007199254740993"',
        "9007199254740993.0",
        "1e300",
    ],
)
def test_integers_that_a_double_holds_are_taken(text: str):
    # CODE-93, 186: digits inside strings and float forms are exempt
    assert Payload(text, deep=False).value() == json.loads(text)
    assert Payload(text, deep=True).value() == json.loads(text)


def test_integers_too_long_to_read_are_refused():
    # CODE-186
    with pytest.raises(LossyJsonError):
        Payload("9" * 5000, deep=False).value()
    with pytest.raises(LossyJsonError):
        Payload("9" * 5000, deep=True).value()


def test_depth_is_no_obstacle():
    # CODE-84, 182
    value = Payload("[" * 20_000 + "]" * 20_000, deep=True).value()
    depth = 0
    while value:
        value = value[0]  # type: ignore[index, assignment]
        depth += 1
    assert depth == 19_999


@given(JSON)
def test_the_deep_reader_reads_what_others_read(value: object):
    # CODE-182
    text = json.dumps(value, separators=(",", ":"))
    assert read_deep_json(text) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "{",
        '{"a"',
        '{"a":',
        '{"a":1',
        '{"a":1,',
        '{"a":1,}',
        "{1:2}",
        "[1}",
        '{"a":1]',
        "1 ",
        " 1",
        "[1 ]",
    ]
    + ["01", "+1", ".5", "1.", "nan", "NaN", "-", "tru", "truex", '"', '"\\x"', '"a\nb"', "1 2", "[]]", "[,1]", "٣"],
)
def test_the_deep_reader_takes_compact_json_only(text: str):
    # CODE-184
    with pytest.raises(JsonTextError):
        read_deep_json(text)


def test_lines_to_a_worker_are_single_ascii_lines():
    # CODE-183
    namespace = BindingNamespace("tools", {"a\nb\ud800": None}, ErrorClassSpec("ToolCallError", "toolName"))  # type: ignore[dict-item]
    line = program_line("é\n\ud800", [namespace], {"capacity": 5})
    assert line.count(b"\n") == 1 and line.isascii()
    assert json.loads(line) == {
        "program": "é\n\ud800",
        "bindings": [
            {"global": "tools", "functions": ["a\nb\ud800"], "error": {"name": "ToolCallError", "member": "toolName"}}
        ],
        "capacity": 5,
    }
    assert greeting("n") == b'{"nonce":"n"}\n'
    assert json.loads(failure_reply(3, "a\n\ud800")) == {"id": 3, "ok": False, "message": "a\n\ud800"}


def test_a_reply_carries_any_lossless_value():
    # CODE-91, 93
    value = snapshot({"a": [1, 2.5, None, "\ud800\n"], "b": 2**60})
    assert json.loads(success_reply(1, value)) == {"id": 1, "ok": True, "value": value}


def test_integers_that_javascript_cannot_hold_are_refused_with_the_path():
    # CODE-93 (D7)
    with pytest.raises(LossyJsonError) as caught:
        success_reply(1, snapshot({"rows": [{"id": 1}, {"id": 2**53 + 1}]}))
    assert str(caught.value).startswith("rows[1].id: integer 9007199254740993 has no exact double")
    assert find_inexact_integer(snapshot([2**53, 2**60, 2**64, -(2**53)])) is None
    assert find_inexact_integer(10**400) == ("", "integer of that size has no exact double; send it as a string")


def test_a_path_through_a_deep_value_is_spelt_once():
    # CODE-182
    value: object = 2**53 + 1
    for _ in range(5000):
        value = [value]
    found = find_inexact_integer(value)  # type: ignore[arg-type]
    assert found is not None and found[0] == "[0]" * 5000


def test_a_reply_can_carry_a_time():
    assert json.loads(success_reply(1, [2], at_member(5))) == {"id": 1, "ok": True, "at": 5, "value": [2]}
    assert json.loads(failure_reply(1, "no", at_member(None))) == {"id": 1, "ok": False, "at": None, "message": "no"}
