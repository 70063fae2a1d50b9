"""The scripted model, the stream it goes through, and the answer put together from it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_tools.content import TextBlock
from dsh_tools.errors import LossyJsonError, ToolError
from dsh_tools.kernel import NEVER, AbortController, AbortSignal
from dsh_tools.messages import AssistantMessage, ReasoningBlock, ToolCallBlock, Usage, user_message
from dsh_tools.model import (
    AnswerCollector,
    Finish,
    ModelAdapter,
    ModelEvent,
    ModelFailed,
    ModelFailure,
    ModelRequest,
    ReasoningDelta,
    ReasoningDone,
    Retrying,
    ScriptedModel,
    ScriptedStep,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
    call,
    say,
)

REQUEST = ModelRequest((user_message("hi"),))


async def run(model: ModelAdapter, signal: AbortSignal = NEVER) -> tuple[list[ModelEvent], AnswerCollector]:
    collector, events = AnswerCollector(), []
    async with aclosing(model.stream(REQUEST, signal)) as stream:
        async for event in stream:
            events.append(event)
            collector.feed(event)
    return events, collector


async def test_a_script_is_played_in_order(no_leaks: None):
    def third(request: ModelRequest) -> str:
        return f"{len(request.messages)} messages"

    async def fourth(request: ModelRequest) -> ScriptedStep:
        return say("later", call("t"), finish="max-tokens", usage=Usage(1, 2))

    model = ScriptedModel([say("a", call("t", x=1), call("t", '{"bad', id="mine")), call("u", [1]), third, fourth])
    assert model.remaining == 4
    answers = [(await run(model))[1] for _ in range(5)]
    assert [answer.message() for answer in answers] == [
        AssistantMessage(
            (TextBlock("a"), ToolCallBlock("call_1_1", "t", '{"x":1}'), ToolCallBlock("mine", "t", '{"bad')),
            model=model.name,
        ),
        AssistantMessage((ToolCallBlock("call_2_1", "u", "[1]"),), model=model.name),
        AssistantMessage((TextBlock("1 messages"),), model=model.name),
        AssistantMessage((TextBlock("later"),), model=model.name),
        None,
    ]
    assert answers[0].end == Finish("tool-calls", model=model.name)
    assert answers[3].end == Finish("max-tokens", Usage(1, 2), model.name)
    assert isinstance(answers[4].end, ModelFailed)
    assert answers[4].end.failure.code == "SCRIPT_EXHAUSTED"
    assert (len(model.requests), model.remaining) == (5, 0)
    await model.close()


async def test_runs_are_the_same(no_leaks: None):
    script = [say("a", call("t", a=1)), call("t"), "b"]
    one, two = ScriptedModel(script), ScriptedModel(script)
    for _ in range(3):
        assert (await run(one))[0] == (await run(two))[0]


@pytest.mark.parametrize("piece", [1, 2, 5, 100])
async def test_pieces_make_the_whole(no_leaks: None, piece: int):
    step = say("hello \U0001f642 world", call("t", text="\ud800"), reasoning="hm, well")
    events, collector = await run(ScriptedModel([step], piece=piece))
    message = collector.message()
    assert message is not None
    assert message.content == (
        ReasoningBlock("hm, well"),
        TextBlock("hello \U0001f642 world"),
        ToolCallBlock("call_1_1", "t", '{"text":"\\ud800"}'),
    )
    for kind, text in ((TextDelta, "hello \U0001f642 world"), (ReasoningDelta, "hm, well")):
        pieces = [event.text for event in events if isinstance(event, kind)]
        assert "".join(pieces) == text
        assert all(len(each) <= piece for each in pieces)
    assert "".join(e.arguments for e in events if isinstance(e, ToolCallDelta)) == '{"text":"\\ud800"}'


@pytest.mark.parametrize("item", [5, lambda request: None])
async def test_a_script_item_of_another_kind_is_a_failure(no_leaks: None, item: Any):
    events, _ = await run(ScriptedModel([item]))
    assert isinstance(events[-1], ModelFailed)
    assert events[-1].failure.code == "MODEL_ERROR"


async def test_a_script_function_that_raises_is_a_failure(no_leaks: None):
    def fail(request: ModelRequest) -> str:
        raise ToolError("no")

    events, _ = await run(ScriptedModel([fail]))
    assert events == [ModelFailed(ModelFailure("TOOL_ERROR", "the script failed: ToolError: no"))]


def test_arguments_must_be_json():
    assert call("t", "").arguments == ""
    assert call("t", id="x", a=1).id == "x"
    with pytest.raises(LossyJsonError):
        call("t", a=object())


async def test_an_abort_keeps_the_prefix(no_leaks: None):
    # HOST-166
    controller = AbortController()
    model = ScriptedModel([say("abcdef", call("t"), delay=0.005)], piece=1)
    collector = AnswerCollector()
    async for event in model.stream(REQUEST, controller.signal):
        collector.feed(event)
        if event == TextDelta("c"):
            controller.abort()
    assert collector.end == Finish("aborted")
    assert not collector.complete
    message = collector.message()
    assert message is not None
    assert message.interrupted is True
    assert message.content[0].text.startswith("abc")
    assert message.tool_calls == ()
    assert (await run(model, controller.signal))[0] == [Finish("aborted")]


async def test_a_stream_keeps_nothing_on_its_signal(no_leaks: None):
    controller = AbortController()
    model = ScriptedModel(["a", "b"], piece=1, accepts_images=False)
    assert model.accepts_images is False
    await run(model, controller.signal)
    async with aclosing(model.stream(REQUEST, controller.signal)) as stream:
        async for _event in stream:
            assert controller.signal.callback_count == 1
            break
    assert controller.signal.callback_count == 0


async def test_a_cancelled_reader_stops_the_producer(no_leaks: None):
    model = ScriptedModel([say("abcdef", delay=10)])
    task = asyncio.ensure_future(run(model))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# ── collecting ─────────────────────────────────────────────────────────────────


def collected(*events: ModelEvent) -> AnswerCollector:
    collector = AnswerCollector()
    for event in events:
        collector.feed(event)
    return collector


CALL = ToolCallDone(0, ToolCallBlock("c1", "t", "{}"))
DONE = Finish("stop")


@pytest.mark.parametrize(
    ("events", "content", "interrupted"),
    [
        ([DONE], (), False),
        ([TextDelta(""), DONE], (), False),
        ([TextDelta("a"), TextDelta("b"), DONE], (TextBlock("ab"),), False),
        (
            [TextDelta("a"), CALL, TextDelta("b"), DONE],
            (TextBlock("a"), ToolCallBlock("c1", "t", "{}"), TextBlock("b")),
            False,
        ),
        (
            [ReasoningDelta("r"), TextDelta("a"), ReasoningDelta("s"), DONE],
            (ReasoningBlock("r"), TextBlock("a"), ReasoningBlock("s")),
            False,
        ),
        (
            [ReasoningDelta("r"), ReasoningDone(ReasoningBlock("r", "SIG")), TextDelta("a"), DONE],
            (ReasoningBlock("r", "SIG"), TextBlock("a")),
            False,
        ),
        (
            [TextDelta("a"), ReasoningDone(ReasoningBlock("", redacted="X")), DONE],
            (TextBlock("a"), ReasoningBlock("", redacted="X")),
            False,
        ),
        (
            [TextDelta("a"), CALL, Retrying(1, 0, ModelFailure("X", "x")), TextDelta("b"), DONE],
            (TextBlock("b"),),
            False,
        ),
        # HOST-165
        ([TextDelta("a"), CALL, Finish("max-tokens")], (TextBlock("a"),), False),
        # HOST-166
        ([TextDelta("a"), CALL, Finish("aborted")], (TextBlock("a"),), True),
        ([ReasoningDelta("r"), Finish("aborted")], (ReasoningBlock("r"),), True),
        ([TextDelta("a"), CALL, ModelFailed(ModelFailure("X", "x"))], (TextBlock("a"),), True),
        ([TextDelta("a"), CALL], (TextBlock("a"),), True),
        ([CALL, Finish("aborted")], None, True),
        ([Finish("aborted")], None, True),
        ([ReasoningDone(ReasoningBlock("", redacted="X")), Finish("aborted")], None, True),
    ],
)
def test_events_make_an_answer(events: list[ModelEvent], content: Any, interrupted: bool):
    message = collected(*events).message()
    if content is None:
        assert message is None
        return
    assert message is not None
    assert message.content == content
    assert (message.interrupted is True) == interrupted


def test_looking_early_changes_nothing():
    collector = collected(TextDelta("a"))
    assert collector.message() == AssistantMessage((TextBlock("a"),), interrupted=True)
    collector.feed(TextDelta("b"))
    collector.feed(DONE)
    assert collector.message() == AssistantMessage((TextBlock("ab"),))


@pytest.mark.field("field-078")
def test_a_call_id_used_twice_is_reported(caplog: pytest.LogCaptureFixture):
    again = ToolCallDone(1, ToolCallBlock("c1", "t", '{"x":2}'))
    with caplog.at_level(logging.WARNING, "dsh_tools"):
        collector = collected(CALL, again, Finish("tool-calls"))
    assert "used a call id twice in one answer: c1" in caplog.text
    message = collector.message()
    assert message is not None
    assert len(message.tool_calls) == 2


@given(st.text(st.sampled_from("a\ud83d\ude42\u00e9"), max_size=12), st.lists(st.integers(1, 3), min_size=1))
def test_characters_cut_in_two_are_whole_again(text: str, sizes: list[int]):
    events: list[ModelEvent] = []
    at = turn = 0
    while at < len(text):
        events.append(TextDelta(text[at : at + sizes[turn % len(sizes)]]))
        at, turn = at + sizes[turn % len(sizes)], turn + 1
    message = collected(*events, DONE).message()
    assert message is not None
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert "".join(block.text for block in message.content) == joined
