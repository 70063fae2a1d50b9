"""Turns that wait in the log: their calls stay pending over their end."""

from __future__ import annotations

import pytest
from tests.support.sessions import answer, begin, call, end, new_log, say, settle, unanswered

from dsh_tools.session import EventLog, OpenEnd, repair_log
from dsh_tools.session.events import ApprovalAsked, ApprovalDecided
from dsh_tools.testing.store_conformance import refused


def waiting(**options: bool) -> EventLog:
    """A log whose turn waits: one call has its result, one is pending, one was never begun."""
    log = new_log(**options)
    say(log, "go")
    begin(log)
    answer(log, "", ("c1", "read", "{}"), ("c2", "pay", "{}"), ("c3", "read", "{}"))
    settle(log, call(log, "c1", "read"))
    call(log, "c2", "pay")
    end(log, "waiting")
    return log


def copy(log: EventLog, **options: bool) -> EventLog:
    found = new_log(**options)
    found.load(log.events)
    return found


def pending(log: EventLog) -> list[tuple[str, int | None]]:
    return [(found.block.id, found.call_seq) for found in OpenEnd(log.events).calls]


def test_the_calls_of_a_waiting_turn_stay_pending():
    # D34
    log = waiting()
    assert log.is_waiting
    assert pending(log) == [("c2", 6), ("c3", None)]
    assert repair_log(copy(log)) == []
    begin(log)
    assert not log.is_waiting
    assert pending(log) == [("c2", 6), ("c3", None)]
    settle(log, log.events[6])
    assert pending(log) == [("c3", None)]


def test_a_result_may_answer_a_call_of_the_turn_that_waited_and_of_no_other():
    # HOST-125, D34: in the first step of the next turn, and once.
    log = waiting(check_pairing=True)
    with refused("UNPAIRED_RESULT"):
        settle(log, log.events[6])
    begin(log)
    settle(log, log.events[6])
    with refused("UNPAIRED_RESULT"):
        settle(log, log.events[6])
    settle(log, call(log, "c3", "read"))
    end(log)
    assert unanswered(log) == []

    late = waiting(check_pairing=True)
    begin(late)
    late.append("step/end", {"turn": 2, "step": 1})
    begin(late, turn=False)
    with refused("UNPAIRED_RESULT"):
        settle(late, late.events[6])


def test_a_crash_in_the_turn_that_goes_on_repairs_all_of_them():
    # HOST-128, D34
    log = waiting(check_pairing=True)
    log.append("turn/start", {"turn": 2})
    found = copy(log, check_pairing=True)
    repaired = repair_log(found)
    assert [event.type for event in repaired] == ["step/start", "tool/result", "tool/result", "step/end", "turn/end"]
    assert [event.data["error"]["code"] for event in repaired[1:3]] == ["TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"]
    assert repaired[1].source_event_seqs == (6,)
    assert repaired[-1].data["reason"] == {"kind": "interrupted"}
    assert unanswered(found) == []
    assert not found.is_waiting


@pytest.mark.parametrize("began", [False, True])
def test_a_crash_can_be_closed_as_waiting(began: bool):
    # D34: what can go on is kept, with what was never begun; the rest is repaired.
    log = waiting()
    if began:
        begin(log)
    else:
        log = new_log()
        begin(log)
        answer(log, "", ("c1", "read", "{}"), ("c2", "pay", "{}"), ("c3", "read", "{}"))
        call(log, "c1", "read")
        call(log, "c2", "pay")
    found = copy(log)
    kept = next(event.seq for event in found.events if event.type == "tool/call" and event.data["callId"] == "c2")
    repaired = repair_log(found, {kept})
    assert [event.type for event in repaired] == (["tool/result"] if not began else []) + ["step/end", "turn/end"]
    assert found.is_waiting
    assert pending(found) == [("c2", kept), ("c3", None)]


def test_calls_of_a_program_that_goes_on_stay_open():
    log = new_log()
    begin(log)
    answer(log, "", ("c1", "run_code", "{}"))
    called = call(log, "c1", "run_code")
    data = {"rootCallId": "c1", "parentCallId": "c1", "subCallId": "c1:code:1", "name": "t", "arguments": {}}
    log.append("tool/code-dispatch-start", data)
    found = copy(log)
    assert [event.type for event in repair_log(found, {called.seq})] == ["step/end", "turn/end"]
    (open_dispatch,) = OpenEnd(found.events).dispatches
    assert open_dispatch.start.sub_call_id == "c1:code:1"
    begin(found)
    found.append("tool/code-dispatch", {**data, "isError": False, "content": []})
    assert OpenEnd(found.events).dispatches == []


def test_an_open_question_says_that_a_call_has_not_run():
    log = new_log()
    begin(log)
    answer(log, "", ("c1", "pay", "{}"))
    call(log, "c1", "pay")
    log.append("approval/asked", ApprovalAsked("q0", "pay", "c1", purpose="wider permissions"))
    assert OpenEnd(log.events).calls[0].question is None
    log.append("approval/asked", ApprovalAsked("q1", "pay", "c1"))
    log.append("approval/asked", ApprovalAsked("q2", "pay", "c1:code:1"))
    assert OpenEnd(log.events).calls[0].question == "q1"
    log.append("approval/decided", ApprovalDecided("q1", "allowed-once"))
    assert OpenEnd(log.events).calls[0].question is None
