"""History in the order providers insist on, ids they take, and their errors in our words."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_tools.content import TextBlock, text
from dsh_tools.json_value import snapshot
from dsh_tools.messages import (
    AssistantMessage,
    Message,
    ToolCallBlock,
    tool_result_message,
    user_message,
)
from dsh_tools.model.exported import ToolExporter
from dsh_tools.model.failures import failure_of_kind, failure_of_status, retry_after, transport_failure
from dsh_tools.model.pairing import Said, Spoken, paired
from dsh_tools.tools.registered import ToolSchema


def speak(*ids: str, words: str = "") -> AssistantMessage:
    calls = tuple(ToolCallBlock(each, "t", "{}") for each in ids)
    return AssistantMessage((*((TextBlock(words),) if words else ()), *calls))


def result(call_id: str, words: str = "r") -> Message:
    return tool_result_message(call_id, text(words), False)


def shape(messages: list[Message]) -> list[Any]:
    found: list[Any] = []
    for exchange in paired(messages):
        if isinstance(exchange, Said):
            found.append("".join(block.text for block in exchange.content))
        else:
            found.append([(answer.wire_id, answer.content[0].text) for answer in exchange.answers])
    return found


def test_results_stand_behind_their_calls_in_their_order():
    # HOST-152, 153
    messages = [user_message("q"), speak("a", "b"), result("b", "2"), user_message("note"), result("a", "1")]
    assert shape(messages) == ["q", [("a", "1"), ("b", "2")], "note"]


@pytest.mark.field("field-078")
def test_calls_that_share_an_id_are_paired_by_place():
    # HOST-163: in one answer, and again in the next turn
    messages = [
        speak("c1", "c1"),
        result("c1", "1"),
        result("c1", "2"),
        user_message("q"),
        speak("c1"),
        result("c1", "3"),
    ]
    assert shape(messages) == [[("c1", "1"), ("c1_2", "2")], "q", [("c1_3", "3")]]


def test_a_call_without_a_result_gets_one_that_says_so():
    missing = "Error: no result of this tool call was recorded"
    assert shape([speak("a", "b"), result("b")]) == [[("a", missing), ("b", "r")]]
    assert shape([speak("a"), speak("b"), result("b")]) == [[("a", missing)], [("b", "r")]]


def test_a_result_without_a_call_is_said_in_words():
    shown = "[result of an earlier tool call]\nr"
    assert shape([result("a"), speak("b"), result("b"), result("b")]) == [shown, [("b", "r")], shown]


def test_what_says_nothing_is_left_out():
    assert paired([user_message(()), AssistantMessage(())]) == []


@given(st.lists(st.sampled_from(["a", "b", "a b", "\ud800", "x" * 60, "", "a_2"]), max_size=8))
def test_ids_are_unique_and_safe(ids: list[str]):
    (spoken, *_) = paired([speak(*ids, words="x")])
    assert isinstance(spoken, Spoken)
    wire = [block.id for block in spoken.blocks if isinstance(block, ToolCallBlock)]
    assert len(wire) == len(set(wire)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,40}", each) for each in wire)
    assert [answer.wire_id for answer in spoken.answers] == wire
    assert paired([speak(*ids, words="x")]) == [spoken]


def test_exports_are_remembered_and_refusals_reported_once(caplog: pytest.LogCaptureFixture):
    good = ToolSchema("a.b", "x", snapshot({"type": "object", "properties": {}}))
    exporter = ToolExporter("openai-chat")
    first = exporter.export((good,))
    assert exporter.export((good,)) is first
    assert first.wire_name("a.b") == "a_b"
    assert first.wire_name("gone") == "gone"
    assert first.call("c", "a_b", '{"x"') == ToolCallBlock("c", "a.b", '{"x"')
    assert first.call("c", "other", "") == ToolCallBlock("c", "other", "")
    twice = ToolSchema("t", "x", snapshot({"type": "object", "properties": {}}))
    for _ in range(2):
        assert len(exporter.export((good, twice, twice)).records) == 2
        exporter.export(())
    assert caplog.text.count('tool "t" is not offered to the model') == 1


def test_arguments_in_a_changed_form_come_back_in_ours():
    # A union at the root is sent wrapped; the call's arguments are unwrapped again.
    union = {
        "type": "object",
        "oneOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
        ],
    }
    exported = ToolExporter("openai-chat").export((ToolSchema("t", "x", snapshot(union)),))
    (record,) = exported.records
    assert "oneOf" not in record["function"]["parameters"]
    assert exported.call("c", "t", '{"input": {"a": "1"}}').arguments == '{"a":"1"}'
    assert exported.call("c", "t", '{"input": {"a"').arguments == '{"input": {"a"'


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_retry_after_is_read(headers: dict[str, str], seconds: float | None):
    assert retry_after(headers) == seconds


def test_retry_after_may_be_a_date():
    when = datetime.now(UTC) + timedelta(seconds=60)
    seconds = retry_after({"retry-after": format_datetime(when, usegmt=True)})
    assert seconds is not None
    assert 55 < seconds <= 61


def test_messages_of_failures_are_short_and_on_one_line():
    failure = failure_of_status(418, "a\n  b " + "x" * 5000)
    assert failure.message.startswith("a b xxx")
    assert len(failure.message) == 600
    assert (failure.code, failure.retryable) == ("INVALID_REQUEST", False)
    assert failure_of_status(599, "x").code == "PROVIDER_ERROR"
    assert failure_of_status(500, "x", ("insufficient_quota",)).retryable
    assert failure_of_kind("x", (None, "rate_limit_error")).code == "RATE_LIMITED"
    assert failure_of_kind("x", ("never heard of",)).retryable
    assert transport_failure(ValueError("x")).code == "MODEL_ERROR"
