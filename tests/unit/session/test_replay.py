"""Calls as the log tells them, without running anything."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from tests.support.sessions import answer, begin, call, new_log, settle

from dsh_tools.content import text
from dsh_tools.messages import tool_result_message
from dsh_tools.session import EventLog, Replace, replay_calls
from dsh_tools.session.events import ToolResultRecord
from dsh_tools.tools.result import ErrorInfo


def started() -> EventLog:
    log = new_log()
    begin(log)
    return log


def test_a_call_is_told_by_its_arguments_and_its_persisted_result():
    # PIPE-208, HOST-121
    log = started()
    called = call(log, "c1", "read", '{"path": "a"}')
    ended = settle(log, called, "body", meta={"lines": 3})
    (card,) = replay_calls(log.events)
    assert (card.call_id, card.name, card.arguments) == ("c1", "read", {"path": "a"})
    assert (card.content, card.is_error, card.meta, card.error) == (text("body"), False, {"lines": 3}, None)
    assert (card.call_seq, card.result_seq) == (called.seq, ended.seq)
    assert (card.started_at, card.finished_at) == (called.time, ended.time)
    assert not hasattr(card, "value")
    with pytest.raises(TypeError):
        card.arguments["path"] = "b"


def test_a_failure_shows_its_code_if_it_has_one():
    # HOST-120: is_error says that it failed; error is there for typed errors only.
    log = started()
    settle(log, call(log, "c1"), is_error=True)
    settle(log, call(log, "c2"), is_error=True, error=ErrorInfo("E", "CODE"))
    denied, typed = replay_calls(log.events)
    assert (denied.is_error, denied.error, denied.meta) == (True, None, UNSET)
    assert (typed.is_error, typed.error) == (True, ErrorInfo("E", "CODE"))


@pytest.mark.parametrize("arguments", ['{"a": 1', '{"a":1}{"b":2}', "NaN", '{"a": -0.0}'])
def test_text_that_does_not_parse_has_no_card(arguments: str):
    # PIPE-208
    log = started()
    settle(log, call(log, "c1", arguments=arguments))
    settle(log, call(log, "c2"))
    assert [card.call_id for card in replay_calls(log.events)] == ["c2"]


@pytest.mark.parametrize("arguments", ["", "  "])
def test_blank_text_is_no_arguments(arguments: str):
    # HOST-145
    log = started()
    settle(log, call(log, "c1", arguments=arguments))
    assert replay_calls(log.events)[0].arguments == {}


def test_a_call_without_a_result_has_no_card():
    # PIPE-208
    log = started()
    call(log, "c1")
    answer(log, "", ("c2", "t", "{}"))
    assert replay_calls(log.events) == []


def test_calls_that_share_an_id_stay_apart():
    # HOST-163
    log = started()
    one, two = call(log, "c1", arguments='{"x":1}'), call(log, "c1", arguments='{"x":2}')
    settle(log, two, "second")
    settle(log, one, "first")
    assert [(card.arguments["x"], card.content) for card in replay_calls(log.events)] == [
        (1, text("first")),
        (2, text("second")),
    ]


def test_a_replacement_is_the_models_view_only():
    log = started()
    result = settle(log, call(log, "c1"), "long")
    record = ToolResultRecord(1, 1, tool_result_message("c1", text("short"), False))
    log.append("tool/result", record, Replace(result.seq, result.seq), [result.seq])
    assert [card.content for card in replay_calls(log.events)] == [text("long")]


def test_calls_of_programs_are_told_with_their_family():
    log = started()
    called = call(log, "c1", "run_code")
    data: dict[str, Any] = {"rootCallId": "c1", "parentCallId": "c1", "name": "t"}
    for number in (1, 2):
        log.append("tool/code-dispatch-start", {**data, "subCallId": f"c1:code:{number}", "arguments": [number]})
    for number in (2, 1):
        content = [{"type": "text", "text": f"r{number}"}]
        log.append(
            "tool/code-dispatch",
            {**data, "subCallId": f"c1:code:{number}", "arguments": [number], "isError": False, "content": content},
        )
    settle(log, called)
    outer, one, two = replay_calls(log.events)
    assert (outer.root_call_id, one.root_call_id, one.parent_call_id) == (None, "c1", "c1")
    assert (one.call_id, one.arguments, one.content) == ("c1:code:1", [1], text("r1"))
    assert (two.call_id, two.arguments, two.content) == ("c1:code:2", [2], text("r2"))


def test_a_damaged_record_costs_its_card_only():
    log = started()
    settle(log, call(log, "c1"))
    settle(log, call(log, "c2"))
    events = list(log.events)
    events[2] = msgspec.structs.replace(events[2], data={"nonsense": True})
    assert [card.call_id for card in replay_calls(events)] == ["c2"]
