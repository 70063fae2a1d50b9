"""Message records and their JSON form."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dsh_tools.content import ImageBlock, JsonBlock, TextBlock, text
from dsh_tools.json_value import FrozenDict, snapshot
from dsh_tools.messages import (
    AssistantMessage,
    MessageSource,
    ReasoningBlock,
    ToolCallBlock,
    Usage,
    UserMessage,
    as_message,
    record_json,
    tool_result_message,
    user_message,
)

MESSAGES = [
    user_message("hi"),
    user_message(
        (ImageBlock("aGk=", "image/png"), JsonBlock(snapshot({"a": [1]}))), MessageSource("plugin", plugin="p")
    ),
    user_message("x", MessageSource("job"), id="m1"),
    tool_result_message("c1", text("done"), True, id="r1"),
    AssistantMessage(()),
    AssistantMessage(
        (ReasoningBlock("hm", "sig"), ReasoningBlock("", redacted="x"), TextBlock("a"), ToolCallBlock("c", "t", "{")),
        interrupted=True,
        model="m",
    ),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_come_back_from_json(message: Any):
    # HOST-118, 119
    data = record_json(message)
    assert json.loads(msgspec.json.encode(message)) == data
    assert as_message(data) == message
    assert as_message(snapshot(data)) == message


def test_values_in_blocks_are_neither_copied_nor_walked():
    deep: Any = []
    for _ in range(50_000):
        deep = [deep]
    value = snapshot(deep)
    data = record_json(UserMessage((JsonBlock(value),)))
    assert data["content"][0]["value"] is value
    assert as_message(data).content[0].value is value
    assert type(as_message(snapshot({"role": "user", "content": []}))) is UserMessage
    assert isinstance(snapshot({}), FrozenDict)


def test_defaults_are_left_out_where_the_record_says_so():
    assert record_json(MessageSource("user")) == {"kind": "user"}
    assert record_json(MessageSource("tool", call_id="c")) == {"kind": "tool", "callId": "c"}
    assert record_json(Usage(5)) == {"inputTokens": 5}
    assert record_json(user_message("x"))["source"] == {"kind": "user"}


def test_calls_are_found_in_order():
    message = AssistantMessage((ToolCallBlock("a", "t", ""), TextBlock("x"), ToolCallBlock("b", "t", "")))
    assert [block.id for block in message.tool_calls] == ["a", "b"]


@pytest.mark.parametrize(
    "bad", [None, {}, {"role": "system", "content": []}, {"role": "user", "content": [{"type": "video"}]}]
)
def test_what_is_no_message_is_refused(bad: Any):
    with pytest.raises(msgspec.ValidationError):
        as_message(bad)
