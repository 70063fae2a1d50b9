"""What a crash leaves out of a log, and how it is put right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from tests.support.sessions import answer, begin, call, end, new_log, say, settle, unanswered

from dsh_tools.session import EventLog, repair_drafts, repair_log
from dsh_tools.testing.store_conformance import refused


def crashed(log: EventLog, length: int | None = None) -> EventLog:
    """The log as another process finds it when the first one died after ``length`` events."""
    copy = new_log()
    copy.load(log.events[: len(log.events) if length is None else length])
    return copy


def shape(events: Any) -> list[tuple[str, Any]]:
    return [(event.type, event.data.get("error", {}).get("code")) for event in events]


def test_calls_that_ran_and_calls_that_did_not_are_told_apart():
    # HOST-128
    log = new_log()
    say(log, "go")
    begin(log)
    answer(log, "", ("c1", "t", "{}"), ("c2", "t", "{}"), ("c3", "t", "{}"))
    one, two = call(log, "c1"), call(log, "c2")
    settle(log, one)
    found = crashed(log)
    repaired = repair_log(found)
    assert shape(repaired) == [
        ("tool/result", "TOOL_OUTCOME_UNKNOWN"),
        ("tool/result", "TOOL_NOT_STARTED"),
        ("step/end", None),
        ("turn/end", None),
    ]
    unknown, not_started, _, turn_end = repaired
    assert unknown.data["error"]["name"] == "ToolOutcomeUnknownError"
    assert unknown.source_event_seqs == (two.seq,)
    assert "outcome is unknown" in unknown.data["message"]["content"][0]["content"][0]["text"]
    assert not_started.data["error"]["name"] == "ToolNotStartedError"
    assert not_started.source_event_seqs is UNSET
    assert "safe to call the tool again" in not_started.data["message"]["content"][0]["content"][0]["text"]
    assert all(event.data["message"]["content"][0]["isError"] for event in (unknown, not_started))
    assert turn_end.data["reason"] == {"kind": "interrupted"}
    assert unanswered(found) == []
    assert (found.turn, found.step) == (None, None)


def test_repair_is_deterministic():
    # HOST-129: times are the last event's, ids come from the call id and the place.
    log = new_log()
    begin(log)
    answer(log, "", ("c1", "t", "{}"))
    one, two = crashed(log), crashed(log)
    assert repair_log(one) == repair_log(two)
    result = one.events[3]
    assert {event.time for event in one.events[3:]} == {log.events[-1].time}
    assert result.data["message"]["id"] == "c1:3"


def test_a_balanced_log_needs_nothing():
    # HOST-129
    log = new_log()
    assert repair_log(crashed(log)) == []
    say(log, "q")
    begin(log)
    settle(log, call(log, "c1"))
    end(log)
    say(log, "waiting for nobody")
    assert repair_log(crashed(log)) == []
    found = crashed(log, 3)
    assert repair_log(found)
    assert repair_log(found) == []


def test_an_open_turn_without_calls_is_closed():
    # HOST-128
    log = new_log()
    log.append("turn/start", {"turn": 1})
    assert shape(repair_log(crashed(log))) == [("turn/end", None)]
    log.append("step/start", {"turn": 1, "step": 1})
    assert shape(repair_log(crashed(log))) == [("step/end", None), ("turn/end", None)]


def test_pending_calls_come_from_the_message_and_end_with_the_step():
    # HOST-129: a call event alone asks for nothing, and a closed step owes nothing.
    log = new_log()
    begin(log)
    call(log, "stray")
    assert shape(repair_log(crashed(log))) == [("step/end", None), ("turn/end", None)]
    answer(log, "", ("c1", "t", "{}"))
    log.append("step/end", {"turn": 1, "step": 1})
    begin(log, turn=False)
    assert shape(repair_log(crashed(log))) == [("step/end", None), ("turn/end", None)]


def test_a_turn_that_waits_for_a_person_is_left_alone():
    # D34
    log = new_log()
    begin(log)
    answer(log, "", ("c1", "pay", "{}"))
    call(log, "c1")
    end(log, "waiting")
    assert repair_log(crashed(log)) == []


def test_what_a_closed_step_owes_is_nobodys_business_until_its_turn_waits():
    # HOST-129, D34: a turn that begins after one that waits is answerable for its calls.
    log = new_log()
    begin(log)
    answer(log, "", ("c1", "t", "{}"))
    log.append("step/end", {"turn": 1, "step": 1})
    assert shape(repair_log(crashed(log))) == [("turn/end", None)]
    data = {"rootCallId": "c1", "parentCallId": "c1", "subCallId": "c1:code:1", "name": "t", "arguments": {}}
    log.append("tool/code-dispatch-start", data)
    end(log, "waiting")
    log.append("turn/start", {"turn": 2})
    assert shape(repair_log(crashed(log))) == [
        ("tool/code-dispatch", None),
        ("tool/result", "TOOL_NOT_STARTED"),
        ("turn/end", None),
    ]


def test_calls_that_share_an_id_all_get_a_result():
    # HOST-130 (docs/decisions/0053): one entry for each block, so that none stays without a result.
    log = new_log()
    begin(log)
    answer(log, "", ("c1", "t", '{"x":1}'), ("c1", "t", '{"x":2}'), ("c1", "t", '{"x":3}'))
    first, second = call(log, "c1"), call(log, "c1")
    settle(log, second, "second")
    found = crashed(log)
    repaired = repair_log(found)
    assert shape(repaired)[:2] == [("tool/result", "TOOL_OUTCOME_UNKNOWN"), ("tool/result", "TOOL_NOT_STARTED")]
    assert repaired[0].source_event_seqs == (first.seq,)
    assert len({event.data["message"]["id"] for event in repaired[:2]}) == 2
    assert unanswered(found) == []


def test_calls_of_a_program_are_settled_too():
    # HOST-122, 128: exactly one end for each start, also after a crash.
    log = new_log()
    begin(log)
    answer(log, "", ("c1", "run_code", "{}"))
    call(log, "c1")
    data = {"rootCallId": "c1", "parentCallId": "c1", "name": "t", "arguments": {"a": 1}}
    for number in (1, 2):
        log.append("tool/code-dispatch-start", {**data, "subCallId": f"c1:code:{number}"})
    log.append("tool/code-dispatch", {**data, "subCallId": "c1:code:1", "isError": False, "content": []})
    repaired = repair_log(crashed(log))
    assert shape(repaired)[0] == ("tool/code-dispatch", None)
    assert repaired[0].data["subCallId"] == "c1:code:2"
    assert repaired[0].data["isError"] is True
    assert repaired[0].data["arguments"] == {"a": 1}
    assert shape(repaired)[1] == ("tool/result", "TOOL_OUTCOME_UNKNOWN")


def test_a_log_with_a_live_agent_is_never_repaired():
    # HOST-129
    log = new_log()
    begin(log)
    release = log.claim(object())
    with refused("SESSION_BUSY"):
        repair_log(log)
    assert len(log.events) == 2
    release()
    assert len(repair_log(log)) == 2


def test_a_replaced_result_is_still_a_result():
    log = new_log()
    begin(log)
    answer(log, "", ("c1", "t", "{}"))
    result = settle(log, call(log, "c1"))
    data = {**result.data, "message": {**result.data["message"]}}
    log.append("tool/result", data, {"op": "replace", "start": result.seq, "end": result.seq}, [result.seq])
    assert shape(repair_log(crashed(log))) == [("step/end", None), ("turn/end", None)]


def full_conversation(draw: Callable[..., Any]) -> EventLog:
    log = new_log(check_pairing=True)
    for _turn in range(draw(st.integers(1, 3))):
        say(log, "q")
        begin(log)
        for step in range(draw(st.integers(1, 2))):
            if step:
                log.append("step/end", {"turn": log.turn, "step": log.step})
                begin(log, turn=False)
            ids = draw(st.lists(st.sampled_from(["c1", "c2", "c3"]), max_size=4))
            answer(log, "text", *((each, "t", "{}") for each in ids))
            waiting: list[Any] = []
            for each in ids:
                waiting.append(call(log, each))
                while waiting and draw(st.booleans()):
                    settle(log, waiting.pop(0))
            for each in waiting:
                settle(log, each)
        end(log)
    return log


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_crash_after_any_event_is_put_right(data: Any):
    # HOST-128, 129: every prefix of a run becomes a log whose calls all have a result.
    log = full_conversation(data.draw)
    for length in range(len(log.events) + 1):
        found = crashed(log, length)
        before = tuple(found.events)
        drafts = repair_drafts(found.events)
        repair_log(found)
        assert len(found.events) == len(before) + len(drafts)
        assert tuple(found.events[: len(before)]) == before
        assert found.turn is None
        assert unanswered(found) == []
        assert repair_log(crashed(found)) == []
        begin(found)


@pytest.mark.parametrize("content", [[], ["text"]])
def test_a_message_outside_a_step_is_answered_as_well(content: list[str]):
    log = new_log()
    log.append("turn/start", {"turn": 1})
    answer(log, "".join(content), ("c1", "t", "{}"))
    (result, _) = repair_log(crashed(log))
    assert (result.data["turn"], result.data["step"]) == (1, 1)
