"""Field cases on history and sessions, at the layer of the log, its stores and its replay."""

from __future__ import annotations

import socket
from collections import deque
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.sessions import answer, begin, call, end, new_log, settle

from dsh_tools.content import ImageBlock, JsonBlock, TextBlock, text
from dsh_tools.errors import HarnessError, LossyJsonError
from dsh_tools.json_value import parse_json, snapshot
from dsh_tools.kernel import NEVER
from dsh_tools.messages import MessageSource, ToolCallBlock, record_json, tool_result_message, user_message
from dsh_tools.model import AnswerCollector, ModelRequest, ScriptedModel
from dsh_tools.model import call as scripted_call
from dsh_tools.session import (
    EventLog,
    SqliteStore,
    dump_jsonl,
    load_jsonl,
    record_call,
    record_result,
    repair_log,
    replay_calls,
)
from dsh_tools.testing.store_conformance import refused
from dsh_tools.tools.result import ToolSuccess

pytestmark = pytest.mark.usefixtures("no_leaks")


async def stored_and_read(log: EventLog, folder: Path) -> EventLog:
    """The log after a trip through SQLite and through an export."""
    store = SqliteStore(folder / "s.sqlite")
    await (await store.create(log.header, tuple(log.events))).close()
    stored = await store.read(log.id)
    await store.close()
    exported = load_jsonl(dump_jsonl(stored.header, stored.events))
    copy = new_log()
    copy.load(exported.events)
    return copy


def verdict(raw: str) -> Any:
    try:
        return parse_json(raw)
    except HarnessError:
        return "error"


@pytest.mark.field("field-005")
@pytest.mark.parametrize(
    "raw", ['{"path":"/q.py","view_range": \\n[1,2]\\n}', '{"a":1,}', '{"a":1}{"b":2}', "", '{"a":1}']
)
async def test_raw_arguments_get_the_same_verdict_live_and_on_replay(raw: str, tmp_path: Path):
    """field-005: the raw text is kept byte for byte, and a replay judges it as the live run did."""
    live = verdict(raw)
    log = new_log()
    begin(log)
    answer(log, "", ("c1", "view", raw))
    record_result(
        log,
        ToolCallBlock("c1", "view", raw),
        record_call(log, ToolCallBlock("c1", "view", raw)),
        ToolSuccess(1, text("x")),
    )
    copy = await stored_and_read(log, tmp_path)
    (event,) = [event for event in copy.events if event.type == "tool/call"]
    assert event.data["arguments"] == raw
    (block,) = copy.derive_messages()[0].tool_calls
    assert block.arguments == raw
    cards = replay_calls(copy.events)
    assert (cards[0].arguments if cards else "error") == live


async def test_integers_are_exact_in_logs_and_replay(tmp_path: Path):
    """field-012: integers beyond 2**53 survive the log, the store, the export and the replay."""
    log = new_log()
    begin(log)
    settle(log, call(log, "c1", arguments='{"id": 9007199254740993}'), meta={"id": 1234567890123456789})
    copy = await stored_and_read(log, tmp_path)
    (card,) = replay_calls(copy.events)
    assert card.arguments == {"id": 9007199254740993}
    assert card.meta == {"id": 1234567890123456789}


@pytest.mark.field("field-018")
async def test_lone_surrogates_are_written_and_read(tmp_path: Path):
    """field-018: a lone surrogate in a result or in arguments costs no log line and no turn."""
    log = new_log()
    begin(log)
    settle(log, call(log, "c1", arguments='{"t":"\ud800"}'), "a\ud835b", meta={"k\udc00": "\ud800"})
    log.append("tool/code-dispatch-start", {
        "rootCallId": "c1", "parentCallId": "c1", "subCallId": "c1:code:1", "name": "t", "arguments": {"t": "\ud800"},
    })  # fmt: skip
    copy = await stored_and_read(log, tmp_path)
    assert tuple(copy.events) == tuple(log.events)
    assert copy.derive_messages()[0].content[0].content == text("a\ud835b")


@pytest.mark.field("field-078")
async def test_one_id_for_several_calls_loses_no_result(tmp_path: Path):
    """field-078: a batch with one id twice, and the id again in the next turn: every result has its call."""
    log = new_log()
    for _ in range(2):
        begin(log)
        answer(log, "", ("c1", "t", '{"x":1}'), ("c1", "t", '{"x":2}'))
        one, two = call(log, "c1", arguments='{"x":1}'), call(log, "c1", arguments='{"x":2}')
        settle(log, two, "second")
        settle(log, one, "first")
        end(log)
    copy = await stored_and_read(log, tmp_path)
    assert repair_log(copy) == []
    assert [(card.arguments["x"], card.content) for card in replay_calls(copy.events)] == [
        (1, text("first")),
        (2, text("second")),
    ] * 2


def test_a_result_from_outside_is_refused():
    """field-089: what was not answered here does not pass for an answer."""
    log = new_log()
    begin(log)
    answer(log, "", ("c1", "pay", "{}"))
    fake = tool_result_message("c1", text("fake result"), False)
    with refused("INVALID_EVENT"):
        log.append("user/message", fake, "append")
    with refused("INVALID_SURFACE"):
        log.append("tool/result", {"turn": 1, "step": 1, "message": record_json(fake)}, "append")


@pytest.mark.field("field-118")
async def test_side_data_of_a_result_survives(tmp_path: Path):
    """field-118: content, metadata and the context a call left behind are equal before and after."""
    content = (TextBlock("shown"), ImageBlock("aGk=", "image/png"), JsonBlock(snapshot({"rows": [1, {"a": None}]})))
    context = user_message("also note", MessageSource("plugin", plugin="linter"))
    result = ToolSuccess({"rows": 2}, content, snapshot({"lines": [1, 2], "deep": {"x": 0.5}}), (context,))
    log = new_log()
    begin(log)
    block = ToolCallBlock("c1", "t", "{}")
    record_result(log, block, record_call(log, block), result)
    log.append("user/message", context, "append")
    copy = await stored_and_read(log, tmp_path)
    assert copy.derive_messages() == log.derive_messages()
    assert copy.derive_messages()[1] == context
    (card,) = replay_calls(copy.events)
    assert (card.content, card.meta) == (content, result.meta)


@pytest.mark.field("field-119")
@pytest.mark.parametrize(
    ("meta", "path"),
    [
        ({"timeout": timedelta(minutes=5)}, "meta.timeout"),
        ({"list": [1, {"set": {1}}]}, r"meta.list\[1\].set"),
        ({"queue": deque()}, "meta.queue"),
        ({"n": float("nan")}, "meta.n"),
    ],
)
async def test_what_cannot_be_kept_fails_once_and_names_its_path(meta: Any, path: str):
    """field-119: no retry, no half-written event; the log goes on."""
    log = new_log()
    begin(log)
    called = call(log, "c1")
    for _ in range(2):
        with pytest.raises(LossyJsonError, match=path):
            settle(log, called, meta=meta)
    assert log.events[-1] is called
    settle(log, called, meta={"timeout": 300})


@pytest.mark.field("field-119")
async def test_arguments_with_a_socket_fail_once():
    """field-119: a host-side value that is no JSON is refused where it would be logged."""
    log = new_log()
    begin(log)
    with (
        socket.socket() as open_socket,
        pytest.raises(LossyJsonError, match=r"arguments\.conn: socket is not a JSON value"),
    ):
        log.append("tool/code-dispatch-start", {
            "rootCallId": "c1", "parentCallId": "c1", "subCallId": "s", "name": "t", "arguments": {"conn": open_socket},
        })  # fmt: skip
    assert len(log.events) == 2


@pytest.mark.parametrize("raw", ["", "   "])
async def test_empty_arguments_stream_and_replay_as_no_arguments(raw: str):
    """field-001: from the model's stream to the card, blank text means no arguments."""
    model = ScriptedModel([scripted_call("ping", raw)])
    collector = AnswerCollector()
    async for event in model.stream(ModelRequest((user_message("x"),)), NEVER):
        collector.feed(event)
    message = collector.message()
    assert message is not None
    (block,) = message.tool_calls
    assert block.arguments == raw
    log = new_log()
    begin(log)
    record_result(log, block, record_call(log, block), ToolSuccess(1, text("pong")))
    assert replay_calls(log.events)[0].arguments == {}
