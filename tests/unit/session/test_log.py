"""The log: what an append takes and refuses, and what it leaves behind."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sessions import Clock, answer, begin, call, end, new_log, say, settle

from dsh_tools.errors import LossyJsonError, SessionError
from dsh_tools.json_value import FrozenDict, is_lossless
from dsh_tools.messages import record_json, user_message
from dsh_tools.session import EventDraft, EventLog, EventVocabulary, SessionHeader
from dsh_tools.session.events import TurnStart
from dsh_tools.testing.store_conformance import refused


def fingerprint(log: EventLog) -> tuple[Any, ...]:
    state = log._state
    return (tuple(log.events), log.derive_messages(), log.turn, log.step, log.surface, dict(state._running))


def test_events_are_numbered_timed_and_frozen():
    # HOST-107
    log = new_log()
    data: dict[str, Any] = {"turn": 1, "extra": {"list": [1, 2]}}
    event = log.append("turn/start", data)
    data["extra"]["list"].append(3)
    assert (event.seq, event.time, event.type) == (0, 1001, "turn/start")
    assert event.data == {"turn": 1, "extra": {"list": [1, 2]}}
    assert event is log.events[0]
    with pytest.raises(TypeError, match="frozen"):
        event.data["extra"]["list"].append(4)
    with pytest.raises(AttributeError):
        event.seq = 5
    say(log, "hi")
    end(log)
    assert [each.seq for each in log.events] == [0, 1, 2]


def test_records_and_their_json_are_the_same_to_append():
    one, two = new_log(), new_log()
    one.append("turn/start", TurnStart(1))
    two.append("turn/start", {"turn": 1})
    assert tuple(one.events) == tuple(two.events)
    assert type(one.events[0].data) is FrozenDict


def test_the_view_of_events_is_live_and_cannot_be_changed():
    log = new_log()
    view = log.events
    say(log, "a")
    say(log, "b")
    assert len(view) == 2
    assert view[-1].seq == 1
    assert view[:1] == (log.events[0],)
    assert not hasattr(view, "append")
    with pytest.raises(TypeError):
        view[0] = view[1]


BAD_APPENDS: list[tuple[str, Any, Any, Any, str]] = [
    # HOST-108, 109, 110, 118, 119, 124: type, data, surfaceOp, sourceEventSeqs, code
    ("turn/start", {"turn": object()}, None, None, "LOSSY_JSON"),
    ("turn/start", {"turn": float("nan")}, None, None, "LOSSY_JSON"),
    ("turn/start", (1,), None, None, "LOSSY_JSON"),
    ("turn/start", {"turn": 0}, None, None, "INVALID_EVENT"),
    ("turn/start", {"turn": True}, None, None, "INVALID_EVENT"),
    ("turn/start", {}, None, None, "INVALID_EVENT"),
    ("turn/start", [], None, None, "INVALID_EVENT"),
    ("turn/start", {"turn": 3}, None, None, "INVALID_NESTING"),
    ("turn/start", {"turn": 2}, "append", None, "INVALID_SURFACE"),
    ("turn/start", {"turn": 2}, None, [0], "INVALID_SURFACE"),
    ("turn/start", {"turn": 2}, None, [], "INVALID_SURFACE"),
    ("nonsense", {}, None, None, "UNKNOWN_EVENT_TYPE"),
    ("", {}, None, None, "UNKNOWN_EVENT_TYPE"),
    ("user/message", {"role": "user", "content": [], "source": {"kind": "user"}}, None, None, "INVALID_SURFACE"),
    ("user/message", {"role": "user", "content": [], "source": {"kind": "user"}}, "prepend", None, "INVALID_SURFACE"),
    ("user/message", {"role": "user", "content": [], "source": {"kind": "user"}}, "append", [], "INVALID_SURFACE"),
    ("user/message", {"role": "user", "content": [], "source": {"kind": "user"}}, "append", [0, 0], "INVALID_SURFACE"),
    ("user/message", {"role": "user", "content": [], "source": {"kind": "user"}}, "append", [99], "INVALID_SURFACE"),
    ("user/message", {"role": "user", "content": [], "source": {"kind": "user"}}, "append", [-1], "INVALID_SURFACE"),
    ("user/message", {"role": "user", "content": [], "source": {"kind": "user"}}, "append", [True], "INVALID_SURFACE"),
    ("user/message", {"role": "user", "content": [], "source": {"kind": "user"}}, "append", "0", "INVALID_SURFACE"),
    ("user/message", {"role": "user", "content": "hi"}, "append", None, "INVALID_EVENT"),
    ("user/message", {"role": "system", "content": []}, "append", None, "INVALID_EVENT"),
    (
        "user/message",
        {"role": "user", "content": [{"type": "tool-result", "toolCallId": "c1", "content": [], "isError": False}]},
        "append",
        None,
        "INVALID_EVENT",
    ),
    ("tool/call", {"turn": 1, "step": 1, "callId": "", "name": "t", "arguments": "{}"}, None, None, "INVALID_EVENT"),
    ("tool/call", {"turn": 1, "step": 1, "callId": "c", "name": "t", "arguments": {}}, None, None, "INVALID_EVENT"),
    ("approval/decided", {"id": "a", "outcome": "maybe"}, None, None, "INVALID_EVENT"),
    ("approval/policy", {"policy": "always"}, None, None, "INVALID_EVENT"),
]


@pytest.mark.parametrize(("kind", "data", "op", "sources", "code"), BAD_APPENDS)
def test_a_refused_append_changes_nothing(kind: str, data: Any, op: Any, sources: Any, code: str):
    # HOST-108
    log = new_log()
    log.append("turn/start", {"turn": 1})
    end(log)
    say(log, "hello")
    seen: list[Any] = []
    log.observe(seen.append)
    before = fingerprint(log)
    with pytest.raises((SessionError, LossyJsonError), check=lambda error: error.code == code):
        log.append(kind, data, op, sources)
    assert fingerprint(log) == before
    assert seen == []
    assert say(log, "next").seq == len(before[0])


def test_a_lossy_value_is_named_by_its_path():
    # HOST-117
    with pytest.raises(LossyJsonError, match=r"meta\.timeout\[1\]: object is not a JSON value"):
        new_log().append("note", {"meta": {"timeout": [1, object()]}}, ignorable=True)


def test_shared_values_are_copied_and_depth_is_no_limit():
    # HOST-117
    log = new_log()
    shared = {"a": [1]}
    deep: Any = []
    for _ in range(50_000):
        deep = [deep]
    event = log.append("note", {"one": shared, "two": shared, "deep": deep}, ignorable=True)
    assert event.data["one"] == event.data["two"] == {"a": [1]}


def test_an_observer_cannot_append(caplog: pytest.LogCaptureFixture):
    # HOST-108: reentrant appends are refused, and the outer append stands.
    log = new_log()
    errors: list[SessionError] = []

    def reenter(event: Any) -> None:
        try:
            say(log, "again")
        except SessionError as error:
            errors.append(error)
            raise

    log.observe(reenter)
    say(log, "once")
    assert [error.code for error in errors] == ["REENTRANT_APPEND"]
    assert len(log.events) == 1
    say(log, "twice")
    assert len(log.events) == 2


def test_observers_are_contained_and_removed(caplog: pytest.LogCaptureFixture):
    # HOST-108, D36: nobody who observes can undo a commit or keep others from hearing of it.
    log = new_log()
    seen: list[int] = []

    def fail(event: Any) -> None:
        raise RuntimeError("no")

    stop_failing = log.observe(fail)
    stop = log.observe(lambda event: seen.append(event.seq))
    with caplog.at_level(logging.ERROR, "dsh_tools"):
        say(log, "a")
    assert "an observer of session s1 failed on event 0" in caplog.text
    stop_failing()
    stop_failing()
    say(log, "b")
    stop()
    say(log, "c")
    assert seen == [0, 1]
    assert len(log.events) == 3


def test_an_async_observer_is_refused():
    async def observer(event: Any) -> None: ...

    with refused("INVALID_OBSERVER"):
        new_log().observe(observer)


def test_publishing_is_contained():
    def publish(log: Any, event: Any) -> None:
        raise RuntimeError("no")

    log = EventLog(SessionHeader(id="s", created_at=1), publish=publish)
    say(log, "a")
    assert len(log.events) == 1


def test_turns_and_steps_nest_without_gaps():
    # HOST-124
    log = new_log()
    with refused("INVALID_NESTING"):
        log.append("turn/start", {"turn": 2})
    with refused("INVALID_NESTING"):
        log.append("step/start", {"turn": 1, "step": 1})
    with refused("INVALID_NESTING"):
        log.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    log.append("turn/start", {"turn": 1})
    for data in ({"turn": 1, "step": 2}, {"turn": 2, "step": 1}):
        with refused("INVALID_NESTING"):
            log.append("step/start", data)
    log.append("step/start", {"turn": 1, "step": 1})
    assert (log.turn, log.step) == (1, 1)
    for kind, data in (
        ("turn/start", {"turn": 2}),
        ("step/start", {"turn": 1, "step": 2}),
        ("step/end", {"turn": 1, "step": 2}),
        ("turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
    ):
        with refused("INVALID_NESTING"):
            log.append(kind, data)
    log.append("step/end", {"turn": 1, "step": 1})
    with refused("INVALID_NESTING"):
        log.append("step/start", {"turn": 1, "step": 1})
    log.append("step/start", {"turn": 1, "step": 2})
    end(log)
    assert (log.turn, log.step, log.last_turn) == (None, None, 1)
    begin(log)
    assert (log.turn, log.step) == (2, 1)


@pytest.mark.parametrize(
    "reason",
    [
        {"kind": "completed"},
        *({"kind": "aborted", "reason": who} for who in ("user", "parent", "hook", "disposed", "legacy")),
        {"kind": "blocked"},
        {"kind": "error", "message": "m", "code": "C"},
        {"kind": "max-tokens"},
        {"kind": "interrupted"},
        {"kind": "waiting"},
    ],
)
def test_a_turn_ends_in_one_of_these_ways(reason: dict[str, str]):
    # HOST-124 (disposal is a reason of aborted), D34
    log = new_log()
    log.append("turn/start", {"turn": 1})
    assert log.append("turn/end", {"turn": 1, "reason": reason}).data["reason"] == reason
    with refused("INVALID_EVENT"):
        log.append("turn/end", {"turn": 1, "reason": {"kind": "vanished"}})


def start(sub: str, root: str = "c1", parent: str | None = None) -> tuple[str, dict[str, Any]]:
    data = {"rootCallId": root, "parentCallId": parent or root, "subCallId": sub, "name": "t", "arguments": {}}
    return "tool/code-dispatch-start", data


def settled(sub: str, root: str = "c1", parent: str | None = None) -> tuple[str, dict[str, Any]]:
    _kind, data = start(sub, root, parent)
    return "tool/code-dispatch", {**data, "isError": False, "content": []}


def test_calls_of_programs_keep_their_family():
    # HOST-122, 123, PIPE-220
    log = new_log()
    with refused("INVALID_DISPATCH"):  # outside a turn
        log.append(*start("c1:code:1"))
    log.append("turn/start", {"turn": 1})
    for empty in ("rootCallId", "parentCallId", "subCallId"):
        kind, data = start("c1:code:1")
        with refused("INVALID_EVENT"):
            log.append(kind, {**data, empty: ""})
    with refused("INVALID_DISPATCH"):  # a parent that is neither the root nor known
        log.append(*start("c1:code:1", "c1", "c1:code:9"))
    with refused("INVALID_DISPATCH"):  # settled without a start
        log.append(*settled("c1:code:1"))
    log.append(*start("c1:code:1"))
    with refused("INVALID_DISPATCH"):  # a sub-call keeps its root
        log.append(*start("c1:code:1", "c2"))
    # The refused one is not remembered: c2 is still nobody's parent.
    with refused("INVALID_DISPATCH"):
        log.append(*start("x", "c9", "c1:code:1"))
    log.append(*start("c1:code:1:code:1", "c1", "c1:code:1"))
    log.append(*settled("c1:code:1:code:1", "c1", "c1:code:1"))
    log.append(*settled("c1:code:1"))
    with refused("INVALID_DISPATCH"):  # exactly one end for each start
        log.append(*settled("c1:code:1"))


def test_a_loaded_log_knows_the_families():
    # PIPE-220: replayed on late install
    log = new_log()
    log.append("turn/start", {"turn": 1})
    log.append(*start("c1:code:1"))
    loaded = new_log()
    loaded.load(log.events)
    with refused("INVALID_DISPATCH"):
        loaded.append(*start("c1:code:1", "c2"))
    loaded.append(*settled("c1:code:1"))


def test_pairing_is_by_event_and_optional():
    # HOST-125, 163
    log = new_log(check_pairing=True)
    begin(log)
    first, second = call(log, "c1"), call(log, "c1")
    settle(log, second)
    settle(log, first)
    with refused("UNPAIRED_RESULT"):
        settle(log, first)
    third = call(log, "c2")
    log.append("step/end", {"turn": 1, "step": 1})
    begin(log, turn=False)
    with refused("UNPAIRED_RESULT"):
        settle(log, third)
    relaxed = new_log()
    begin(relaxed)
    only = call(relaxed, "c1")
    settle(relaxed, only)
    settle(relaxed, only)


def test_unknown_types_need_to_be_ignorable():
    # HOST-115
    log = new_log()
    event = log.append("other/thing", {"a": 1}, ignorable=True)
    assert event.ignorable is True
    with refused("UNKNOWN_EVENT_TYPE"):
        log.append("bad\ntype", {}, ignorable=True)
    loaded = new_log()
    loaded.load(log.events)
    vocabulary = EventVocabulary()
    vocabulary.declare("todo/set", None)
    vocabulary.declare("todo/set", None)
    rich = new_log(vocabulary=vocabulary)
    rich.append("todo/set", [1, 2])
    with pytest.raises(SessionError, match="event 0: unknown event type 'todo/set'"):
        new_log().load(rich.events)
    for bad in ("", "a\nb", "turn/start"):
        with refused("INVALID_EVENT_TYPE"):
            vocabulary.declare(bad, None)
    assert "todo/set" in vocabulary


def test_seeding_validates_marks_the_end_and_tells_nobody():
    # HOST-113
    source = new_log()
    begin(source)
    settle(source, call(source, "c1"))
    end(source)
    told: list[Any] = []
    log = new_log("s2", publish=lambda _log, event: told.append(event))
    log.seed(source.events)
    assert tuple(log.events[:-1]) == tuple(source.events)
    assert log.events[-1].type == "session/end-seed"
    assert told == []
    again = new_log("s3")
    again.seed(log.events)
    assert [event.type for event in again.events].count("session/end-seed") == 1
    say(again, "on")
    assert (again.last_turn, len(again.derive_messages())) == (1, 2)


def test_a_bad_seed_is_refused():
    # HOST-113
    for draft, code in (
        (EventDraft("turn/start", {"turn": 2}), "INVALID_NESTING"),
        (EventDraft("user/message", record_json(user_message("x"))), "INVALID_SURFACE"),
        (EventDraft("who/knows", {}), "UNKNOWN_EVENT_TYPE"),
    ):
        with refused(code):
            new_log().seed([draft])
    source = new_log()
    say(source, "a")
    say(source, "b")
    with refused("CORRUPT_LOG"):
        new_log().load(source.events[1:])
    full = new_log()
    say(full, "a")
    with refused("INVALID_SEED"):
        full.load(source.events)


def test_drafts_seed_with_times_of_their_own():
    log = EventLog(SessionHeader(id="s", created_at=1), clock=Clock(50))
    log.seed([EventDraft("user/message", user_message("a"), "append", time=7)])
    assert [event.time for event in log.events] == [7, 51]


async def test_a_closed_log_takes_nothing_more():
    # HOST-114
    log = new_log()
    say(log, "a")
    await log.close()
    await log.close()
    assert not log.is_live
    with refused("SESSION_NOT_LIVE"):
        say(log, "b")
    assert len(log.derive_messages()) == 1


def test_a_log_has_one_owner():
    log = new_log()
    one, two = object(), object()
    release = log.claim(one)
    with refused("SESSION_BUSY"):
        log.claim(two)
    release()
    release_two = log.claim(two)
    release()
    assert log.owner is two
    release_two()
    assert log.owner is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_kept_exactly(value: Any):
    # HOST-107, 117
    log = new_log()
    if not is_lossless(value):
        with pytest.raises(LossyJsonError):
            log.append("note", value, ignorable=True)
        return
    assert log.append("note", value, ignorable=True).data == value


def test_model_text_is_kept_byte_for_byte():
    # HOST-118
    log = new_log()
    begin(log)
    for raw in ('{"a": 1', "", " ", "\ud800", '{"a":1}{"b":2}', "\\n", "\x00"):
        assert call(log, "c", arguments=raw).data["arguments"] == raw
    assert answer(log, "", ("c", "t", '{"x"')).data["message"]["content"][0]["arguments"] == '{"x"'
