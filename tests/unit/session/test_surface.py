"""The surface: what enters it, what replaces what, and the history it folds to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.sessions import answer, begin, call, end, new_log, say, settle

from dsh_tools.content import text
from dsh_tools.errors import SessionError
from dsh_tools.messages import (
    AssistantMessage,
    TextBlock,
    ToolCallBlock,
    UserMessage,
    record_json,
    tool_result_message,
    user_message,
)
from dsh_tools.session import EventLog, Replace
from dsh_tools.session.events import AssistantMessageRecord, ToolResultRecord
from dsh_tools.testing.store_conformance import refused
from dsh_tools.tools.result import ErrorInfo


def texts(log: EventLog) -> list[str]:
    found: list[str] = []
    for message in log.derive_messages():
        block = message.content[0]
        found.append(block.text if isinstance(block, TextBlock) else "".join(b.text for b in block.content))
    return found


def conversation() -> EventLog:
    log = new_log()
    say(log, "q")
    begin(log)
    answer(log, "a", ("c1", "t", "{}"), ("c2", "t", "{}"))
    one, two = call(log, "c1"), call(log, "c2")
    settle(log, one, "r1")
    settle(log, two, "r2")
    end(log)
    return log


def test_messages_are_the_surface_in_order():
    # HOST-111, 126
    log = conversation()
    assert texts(log) == ["q", "a", "r1", "r2"]
    user, assistant, result, _ = log.derive_messages()
    assert user == user_message("q")
    assert isinstance(assistant, AssistantMessage)
    assert assistant.tool_calls == (ToolCallBlock("c1", "t", "{}"), ToolCallBlock("c2", "t", "{}"))
    assert result == tool_result_message("c1", text("r1"), False)


def test_an_empty_answer_is_no_message():
    # HOST-111
    log = new_log()
    begin(log)
    answer(log, "")
    log.append("assistant/message", AssistantMessageRecord(1, 1, AssistantMessage((TextBlock("x"),))), "append", [])
    assert texts(log) == ["x"]
    assert len(log.surface) == 2


def test_what_is_not_on_the_surface_is_no_message():
    # HOST-111
    log = new_log()
    begin(log)
    call(log, "c1")
    log.append("assistant/chunk", {"turn": 1, "step": 1, "kind": "text", "text": "x"})
    log.append("approval/asked", {"id": "q1", "toolName": "t"})
    log.append("approval/decided", {"id": "q1", "outcome": "rejected"})
    log.append("approval/policy", {"policy": "never"})
    log.append(
        "model/retry",
        {"turn": 1, "step": 1, "attempt": 1, "delayMs": 5, "code": "RATE_LIMITED", "message": "wait"},
    )
    data = {"rootCallId": "c1", "parentCallId": "c1", "subCallId": "c1:code:1", "name": "t", "arguments": {}}
    log.append("tool/code-dispatch-start", data)
    log.append("tool/code-dispatch", {**data, "isError": False, "content": []})
    assert log.derive_messages() == []


def test_each_history_is_a_list_of_its_own_over_shared_messages():
    # HOST-112
    log = conversation()
    one, two = log.derive_messages(), log.derive_messages()
    assert one is not two
    assert all(a is b for a, b in zip(one, two, strict=True))
    one.clear()
    assert texts(log) == ["q", "a", "r1", "r2"]
    with pytest.raises(AttributeError):
        two[0].content = ()


def test_user_data_is_kept_verbatim():
    # HOST-111: keys the record does not name stay in the log.
    log = new_log()
    data = {**record_json(user_message("q")), "color": "blue"}
    event = log.append("user/message", data, "append")
    assert event.data == data
    assert log.derive_messages() == [user_message("q")]


def replace(log: EventLog, first: int, last: int, words: str = "summary", sources: Any = None) -> Any:
    cited = [seq for seq in log.surface if first <= seq <= last] if sources is None else sources
    return log.append("user/message", user_message(words), Replace(first, last), cited)


def test_a_replacement_stands_where_the_shadowed_stood():
    # HOST-110, 112
    log = conversation()
    q, a, r1, r2 = log.surface
    before = log.derive_messages()
    new = replace(log, a, r2)
    assert log.surface == (q, new.seq)
    assert texts(log) == ["q", "summary"]
    assert len(before) == 4
    say(log, "more")
    assert texts(log) == ["q", "summary", "more"]
    again = replace(log, q, new.seq, "all", [q, new.seq, r1])
    assert texts(log) == ["all", "more"]
    assert log.surface[0] == again.seq


def test_what_was_replaced_is_gone():
    # HOST-110: a shadowed event is not on the surface any more.
    log = conversation()
    q, a, _, r2 = log.surface
    replace(log, a, r2)
    for first, last in ((a, a), (q, a), (a, q)):
        with refused("INVALID_SURFACE"):
            log.append("user/message", user_message("x"), Replace(first, last), [q, a])


def test_a_replacement_in_json_form():
    log = conversation()
    q, *_ = log.surface
    event = log.append("user/message", user_message("Q"), {"op": "replace", "start": q, "end": q}, [q])
    assert event.surface_op == Replace(q, q)
    assert texts(log)[0] == "Q"


@pytest.mark.parametrize(
    "make",
    [
        lambda s: (s[0], s[-1], s[:-1]),  # a shadowed node is not cited
        lambda s: (s[-1], s[0], list(s)),  # the wrong way round
        lambda s: (1, 1, [1]),  # not a surface event
        lambda s: (s[0], 99, list(s)),  # not there
        lambda s: (s[0], s[0], None),  # nothing is cited
        lambda s: (s[0], s[0], 0),  # not a list
    ],
)
def test_a_replacement_that_does_not_fit_is_refused(make: Any):
    # HOST-110
    log = conversation()
    first, last, cited = make(list(log.surface))
    before = (log.surface, texts(log))
    with refused("INVALID_SURFACE"):
        log.append("user/message", user_message("x"), Replace(first, last), cited)
    assert (log.surface, texts(log)) == before


def result_record(call_id: str = "c1", words: str = "short", **fields: Any) -> ToolResultRecord:
    message = tool_result_message(call_id, text(words), fields.pop("is_error", False))
    return ToolResultRecord(fields.pop("turn", 1), fields.pop("step", 1), message, **fields)


def test_a_result_is_replaced_by_its_like():
    # HOST-110
    log = conversation()
    _, _, r1, r2 = log.surface
    log.append("tool/result", result_record(), Replace(r1, r1), [r1])
    assert texts(log) == ["q", "a", "short", "r2"]


@pytest.mark.parametrize(
    "record",
    [
        result_record("c2"),
        result_record(is_error=True),
        result_record(step=2),
        result_record(meta={"a": 1}),
        result_record(error=ErrorInfo("X", "Y")),
    ],
)
def test_a_result_may_change_its_content_only(record: ToolResultRecord):
    # HOST-110
    log = conversation()
    _, _, r1, _ = log.surface
    with refused("INVALID_SURFACE"):
        log.append("tool/result", record, Replace(r1, r1), [r1])


def test_a_result_replaces_exactly_one_result():
    # HOST-110
    log = conversation()
    _, a, r1, r2 = log.surface
    for first, last, cited in ((r1, r2, [r1, r2]), (a, a, [a])):
        with refused("INVALID_SURFACE"):
            log.append("tool/result", result_record(), Replace(first, last), cited)


def test_deep_metadata_is_compared_without_recursion():
    deep: Any = []
    for _ in range(20_000):
        deep = [deep]
    log = new_log()
    begin(log)
    result = settle(log, call(log, "c1"), "long", meta=deep)
    same: Any = []
    for _ in range(20_000):
        same = [same]
    log.append("tool/result", result_record(meta=same), Replace(result.seq, result.seq), [result.seq])
    assert texts(log) == ["short"]


def test_a_result_names_its_call_three_times_and_they_agree():
    # HOST-119, field-089: nothing passes for a result that is not one.
    log = new_log()
    begin(log)
    called, other = call(log, "c1"), call(log, "c2")
    good = record_json(result_record())
    message = good["message"]
    (block,) = message["content"]
    for bad in (
        {**message, "source": {"kind": "tool", "callId": "c2"}},
        {**message, "source": {"kind": "user"}},
        {**message, "content": [{**block, "toolCallId": "c2"}]},
        {**message, "content": [block, block]},
        {**message, "content": []},
        {**message, "content": [{"type": "text", "text": "x"}]},
    ):
        with refused("INVALID_EVENT"):
            log.append("tool/result", {**good, "message": bad}, "append", [called.seq])
    for sources in (None, [other.seq], [0], [called.seq, other.seq]):
        with refused("INVALID_SURFACE"):
            log.append("tool/result", good, "append", sources)
    assert log.append("tool/result", good, "append", [called.seq]).source_event_seqs == (called.seq,)


def test_only_a_call_that_never_started_has_nothing_to_cite():
    # HOST-119, 128
    log = new_log()
    begin(log)
    record = result_record(is_error=True, error=ErrorInfo("ToolNotStartedError", "TOOL_NOT_STARTED"))
    log.append("tool/result", record, "append")
    with refused("INVALID_SURFACE"):
        log.append("tool/result", result_record(error=ErrorInfo("X", "OTHER")), "append")


class SurfaceMachine(RuleBasedStateMachine):
    """Any sequence of appends and replacements folds to what a naive list says, also after a reload."""

    def __init__(self) -> None:
        super().__init__()
        self.log = new_log()
        self.model: list[tuple[int, str]] = []

    @rule(words=st.text(max_size=5))
    def append(self, words: str) -> None:
        event = say(self.log, words)
        self.model.append((event.seq, words))

    @precondition(lambda self: self.model)
    @rule(data=st.data(), words=st.text(max_size=5))
    def replace(self, data: Any, words: str) -> None:
        first = data.draw(st.integers(0, len(self.model) - 1))
        last = data.draw(st.integers(first, len(self.model) - 1))
        cited = [seq for seq, _ in self.model[first : last + 1]]
        event = self.log.append("user/message", user_message(words), Replace(cited[0], cited[-1]), cited)
        self.model[first : last + 1] = [(event.seq, words)]

    @rule(first=st.integers(0, 10), last=st.integers(0, 10))
    def replace_wrongly(self, first: int, last: int) -> None:
        with pytest.raises(SessionError):
            self.log.append("user/message", user_message("x"), Replace(first, last), [])

    @invariant()
    def folds_to_the_model(self) -> None:
        for log in (self.log, reloaded(self.log)):
            assert log.surface == tuple(seq for seq, _ in self.model)
            messages = log.derive_messages()
            assert all(isinstance(message, UserMessage) for message in messages)
            assert [message.content[0].text for message in messages] == [words for _, words in self.model]


def reloaded(log: EventLog) -> EventLog:
    copy = new_log()
    copy.load(log.events)
    return copy


TestSurfaceMachine = SurfaceMachine.TestCase
TestSurfaceMachine.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)


@given(st.lists(st.sampled_from(["say", "turn", "call", "settle", "end", "program"]), max_size=25))
@settings(max_examples=80, deadline=None)
def test_a_reloaded_log_is_the_same_log(steps: list[str]):
    # HOST-113, 126: everything a model sees is rebuilt from the log alone.
    log = new_log()
    open_calls: list[Any] = []
    for step in steps:
        if step == "say":
            say(log, step)
        elif step == "turn" and log.turn is None:
            begin(log)
        elif step == "call" and log.step:
            open_calls.append(call(log, f"c{len(log.events) % 3}"))
        elif step == "settle" and open_calls and log.step:
            settle(log, open_calls.pop(0))
        elif step == "program" and log.turn:
            data = {"rootCallId": "p", "parentCallId": "p", "subCallId": "p:code:1", "name": "t", "arguments": [1]}
            log.append("tool/code-dispatch-start", data)
        elif step == "end" and log.turn:
            end(log)
    copy = reloaded(log)
    assert tuple(copy.events) == tuple(log.events)
    assert copy.derive_messages() == log.derive_messages()
    assert (copy.turn, copy.step, copy.last_turn, copy.surface) == (log.turn, log.step, log.last_turn, log.surface)
