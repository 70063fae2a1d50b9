"""The chat completions adapter over real HTTP against a local server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from tests.support.model_server import ModelServer, Reply, error_body, model_server, scattered, sse

from dsh_tools.content import ImageBlock, JsonBlock, TextBlock, text
from dsh_tools.json_value import snapshot
from dsh_tools.kernel import NEVER, AbortController, AbortSignal
from dsh_tools.messages import (
    AssistantMessage,
    Message,
    ReasoningBlock,
    ToolCallBlock,
    Usage,
    tool_result_message,
    user_message,
)
from dsh_tools.model import (
    AnswerCollector,
    Finish,
    ModelEvent,
    ModelFailed,
    ModelRequest,
    OpenAICompatibleModel,
    ReasoningDelta,
    Retrying,
    RetryingModel,
    RetryPolicy,
    TextDelta,
    ToolCallDelta,
)
from dsh_tools.tools.registered import ToolSchema

pytestmark = pytest.mark.usefixtures("no_leaks")

READ = ToolSchema("read", "Read a file", snapshot({"type": "object", "properties": {"path": {"type": "string"}}}))
DOTTED = ToolSchema("fs.list", "List", snapshot({"type": "object", "properties": {}}))
QUICK = RetryPolicy(attempts=3, base_delay=0.01)


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": choices, **fields}


def piece(
    index: int | None, arguments: Any = None, *, id: str | None = None, name: str | None = None
) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    record = {"index": index, "id": id, "type": "function", "function": function}
    return {"tool_calls": [{key: value for key, value in record.items() if value is not None}]}


def answered(*records: Any) -> Reply:
    return Reply([sse(*records, "[DONE]")])


async def ask(
    model: Any, request: ModelRequest | None = None, signal: AbortSignal = NEVER
) -> tuple[list[ModelEvent], AnswerCollector]:
    events: list[ModelEvent] = []
    collector = AnswerCollector()
    async with aclosing(model.stream(request or ModelRequest((user_message("hi"),)), signal)) as stream:
        async for event in stream:
            events.append(event)
            collector.feed(event)
    return events, collector


@pytest.fixture
async def models() -> AsyncIterator[Any]:
    made: list[OpenAICompatibleModel] = []

    def make(server: ModelServer, **options: Any) -> OpenAICompatibleModel:
        made.append(OpenAICompatibleModel("m", base_url=f"{server.url}/v1", api_key="k", **options))
        return made[-1]

    yield make
    for model in made:
        await model.close()


async def test_a_text_streams_and_is_counted(models: Any):
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 5},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    reply = answered(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        chunk(usage=usage),
    )
    async with model_server(reply) as server:
        model = models(server)
        events, collector = await ask(model)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hel", "lo"]
    assert events[-1] == Finish("stop", Usage(7, 3, cache_read_tokens=5, reasoning_tokens=2), "m-1")
    assert collector.message() == AssistantMessage((TextBlock("Hello"),), model="m-1")
    assert (model.name, model.accepts_images) == ("openai:m", True)
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer k"
    assert request.json == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


CALLS = [
    chunk({"content": "I look"}),
    chunk(piece(0, "", id="c1", name="read")),
    chunk(piece(1, "", id="c2", name="read")),
    *(chunk(piece(0, part)) for part in ('{"pa', 'th": ', '"a\\u00', 'e9"', "}")),
    *(chunk(piece(1, part)) for part in ("{", '"path"', ':"\U0001f642"}')),
    chunk({}, "tool_calls"),
]


@pytest.mark.parametrize("sizes", [[10**6], [1], [2, 7, 1], [13]])
async def test_calls_come_in_odd_fragments(models: Any, sizes: list[int]):
    # Bytes are cut anywhere: inside lines, inside escapes, inside UTF-8.
    data = sse(*CALLS, "[DONE]").decode().replace("\\ud83d\\ude42", "\U0001f642").encode()
    async with model_server(Reply(scattered(data, sizes))) as server:
        events, collector = await ask(models(server))
    message = collector.message()
    assert message is not None
    assert message.content == (
        TextBlock("I look"),
        ToolCallBlock("c1", "read", '{"path": "a\\u00e9"}'),
        ToolCallBlock("c2", "read", '{"path":"\U0001f642"}'),
    )
    assert isinstance(events[-1], Finish)
    assert events[-1].reason == "tool-calls"
    deltas = [event for event in events if isinstance(event, ToolCallDelta)]
    assert "".join(delta.arguments for delta in deltas if delta.index == 0) == '{"path": "a\\u00e9"}'


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        # every piece repeats id and name
        ([piece(0, '{"a"', id="c1", name="read"), piece(0, ":1}", id="c1", name="read")], [("c1", "read", '{"a":1}')]),
        # all calls have the index 0
        (
            [piece(0, "{}", id="c1", name="read"), piece(0, '{"b":1}', id="c2", name="read")],
            [("c1", "read", "{}"), ("c2", "read", '{"b":1}')],
        ),
        # there is no index at all
        (
            [piece(None, "{", id="c1", name="read"), piece(None, "}"), piece(None, "[]", id="c2", name="x")],
            [("c1", "read", "{}"), ("c2", "x", "[]")],
        ),
        # the name comes in pieces, the id late
        ([piece(0, name="re"), piece(0, "{}", name="ad"), piece(0, id="c9")], [("c9", "read", "{}")]),
        # arguments as an object, and none at all
        ([piece(0, {"a": [1]}, id="c1", name="read")], [("c1", "read", '{"a":[1]}')]),
        ([piece(0, id="c1", name="read")], [("c1", "read", "")]),
        # a character's two escapes in two pieces
        ([piece(0, '"\ud83d', id="c1", name="read"), piece(0, '\ude42"')], [("c1", "read", '"\U0001f642"')]),
        # what is not JSON is kept byte for byte
        ([piece(0, '{"a": 1', id="c1", name="read")], [("c1", "read", '{"a": 1')]),
        # one id for two calls
        (
            [piece(0, "1", id="c1", name="read"), piece(1, "2", id="c1", name="read")],
            [("c1", "read", "1"), ("c1", "read", "2")],
        ),
    ],
)
async def test_servers_that_differ_are_understood(models: Any, pieces: Any, expected: Any):
    # HOST-118, 145
    async with model_server(answered(*(chunk(each) for each in pieces), chunk({}, "stop"))) as server:
        events, collector = await ask(models(server))
    message = collector.message()
    assert message is not None
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == expected
    # "stop" behind calls means the calls.
    assert isinstance(events[-1], Finish)
    assert events[-1].reason == "tool-calls"


async def test_a_call_without_an_id_gets_one(models: Any):
    reply = answered(chunk(piece(0, "{}", name="read")), chunk(piece(1, "{}", name="read")), chunk({}, "tool_calls"))
    async with model_server(reply) as server:
        _, collector = await ask(models(server))
    message = collector.message()
    assert message is not None
    ids = {call.id for call in message.tool_calls}
    assert len(ids) == 2
    assert all(each.startswith("call_") for each in ids)


async def test_reasoning_is_kept_apart_and_sent_back_where_asked(models: Any):
    reply = [
        chunk({"reasoning_content": "let me"}),
        chunk({"reasoning": " see"}),
        chunk({"content": "42"}),
        chunk({}, "stop"),
    ]
    async with model_server(answered(*reply), answered(*reply), answered(*reply)) as server:
        model = models(server)
        events, collector = await ask(model)
        message = collector.message()
        assert message is not None
        assert message.content == (ReasoningBlock("let me see"), TextBlock("42"))
        assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["let me", " see"]
        history = ModelRequest((user_message("q"), message, user_message("r")))
        await ask(models(server, send_reasoning=True), history)
        await ask(model, history)
    assert server.requests[1].json["messages"][1] == {
        "role": "assistant",
        "content": "42",
        "reasoning_content": "let me see",
    }
    assert server.requests[2].json["messages"][1] == {"role": "assistant", "content": "42"}


@pytest.mark.parametrize(
    ("said", "reason"),
    [("stop", "stop"), ("length", "max-tokens"), ("content_filter", "content-filter"), ("eos", "other")],
)
async def test_every_end_has_its_reason(models: Any, said: str, reason: str):
    async with model_server(answered(chunk({"content": "x"}), chunk({}, said))) as server:
        events, _ = await ask(models(server))
    assert isinstance(events[-1], Finish)
    assert events[-1].reason == reason


async def test_an_answer_at_its_length_limit_loses_its_calls(models: Any):
    # HOST-165
    reply = answered(chunk({"content": "x"}), chunk(piece(0, '{"a', id="c1", name="read")), chunk({}, "length"))
    async with model_server(reply) as server:
        events, collector = await ask(models(server))
    assert isinstance(events[-1], Finish)
    assert events[-1].reason == "max-tokens"
    assert collector.message() == AssistantMessage((TextBlock("x"),), model="m-1")


CUTS = {
    "the connection is cut": Reply([sse(chunk({"content": "par"})), None]),
    "the body ends early, in order": Reply([sse(chunk({"content": "par"}))]),
    "the body ends early, without a length": Reply([sse(chunk({"content": "par"}))], chunked=False),
    "done without a reason": answered(chunk({"content": "par"})),
    "cut inside a line": Reply([sse(chunk({"content": "par"})), b'data: {"choi', None]),
    "a line that is not JSON": Reply([sse(chunk({"content": "par"}), '{"choi'), sse("[DONE]")]),
    "an error inside the stream": Reply(
        [sse(chunk({"content": "par"}), {"error": {"message": "boom", "type": "server_error"}})]
    ),
}


@pytest.mark.parametrize("case", CUTS)
async def test_a_stream_that_breaks_is_a_failure_with_its_prefix(models: Any, case: str):
    # HOST-166
    reply = CUTS[case]
    async with model_server(Reply(list(reply.parts), chunked=reply.chunked)) as server:
        events, collector = await ask(models(server))
    assert isinstance(events[-1], ModelFailed)
    assert events[-1].failure.retryable
    assert events[-1].failure.code in ("STREAM_CUT", "CONNECTION_FAILED", "STREAM_INVALID", "PROVIDER_ERROR")
    message = collector.message()
    assert message is not None
    assert (message.content, message.interrupted) == ((TextBlock("par"),), True)


async def test_a_broken_stream_is_asked_for_again_from_the_start(models: Any):
    good = answered(chunk({"content": "whole"}), chunk({}, "stop"))
    async with model_server(Reply([sse(chunk({"content": "par"})), None]), good) as server:
        events, collector = await ask(RetryingModel(models(server), QUICK))
    (retry,) = [event for event in events if isinstance(event, Retrying)]
    assert retry.failure.code in ("CONNECTION_FAILED", "STREAM_CUT")
    assert collector.message() == AssistantMessage((TextBlock("whole"),), model="m-1")
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "kind", "code", "retryable"),
    [
        (400, "invalid_request_error", "INVALID_REQUEST", False),
        (401, "authentication_error", "AUTHENTICATION", False),
        (404, "model_not_found", "MODEL_NOT_FOUND", False),
        (408, "x", "TIMEOUT", True),
        (409, "x", "PROVIDER_ERROR", True),
        (429, "rate_limit_exceeded", "RATE_LIMITED", True),
        (429, "insufficient_quota", "QUOTA_EXCEEDED", False),
        (500, "server_error", "PROVIDER_ERROR", True),
        (502, "x", "PROVIDER_ERROR", True),
        (503, "x", "OVERLOADED", True),
    ],
)
async def test_every_refusal_has_its_code(models: Any, status: int, kind: str, code: str, retryable: bool):
    async with model_server(Reply([error_body(kind, "the reason")], status=status)) as server:
        events, collector = await ask(models(server))
    (failed,) = events
    assert isinstance(failed, ModelFailed)
    assert (failed.failure.code, failed.failure.retryable, failed.failure.status) == (code, retryable, status)
    assert "the reason" in failed.failure.message
    assert collector.message() is None


async def test_a_context_that_is_too_long_is_told_apart(models: Any):
    body = error_body("invalid_request_error", "x", "context_length_exceeded")
    async with model_server(Reply([body], status=400)) as server:
        events, _ = await ask(models(server))
    assert isinstance(events[-1], ModelFailed)
    assert events[-1].failure.code == "CONTEXT_TOO_LONG"


async def test_an_error_page_that_is_not_json_is_a_failure(models: Any):
    async with model_server(Reply([b"<html>bad gateway</html>"], status=502)) as server:
        events, _ = await ask(models(server))
    assert isinstance(events[-1], ModelFailed)
    assert events[-1].failure.retryable


async def test_rate_limits_and_errors_are_waited_out(models: Any):
    limited = Reply([error_body("rate_limit_exceeded")], status=429, headers={"retry-after": "0.3"})
    broken = Reply([error_body("server_error")], status=500)
    good = answered(chunk({"content": "ok"}), chunk({}, "stop"))
    started = time.monotonic()
    async with model_server(limited, broken, good) as server:
        events, collector = await ask(RetryingModel(models(server), QUICK))
    first, second = (event for event in events if isinstance(event, Retrying))
    assert (first.attempt, first.failure.code, first.failure.retry_after) == (1, "RATE_LIMITED", 0.3)
    assert 0.3 <= first.delay <= 0.34
    assert (second.attempt, second.failure.code) == (2, "PROVIDER_ERROR")
    assert time.monotonic() - started >= 0.3
    assert collector.message() == AssistantMessage((TextBlock("ok"),), model="m-1")
    assert len(server.requests) == 3


async def test_attempts_run_out(models: Any):
    replies = [Reply([error_body("server_error")], status=500) for _ in range(3)]
    async with model_server(*replies) as server:
        events, _ = await ask(RetryingModel(models(server), QUICK))
    assert [type(event) for event in events] == [Retrying, Retrying, ModelFailed]
    assert len(server.requests) == 3


async def test_nobody_listening_is_a_failure(models: Any):
    async with model_server() as server:
        pass
    events, _ = await ask(models(server))
    assert isinstance(events[-1], ModelFailed)
    assert (events[-1].failure.code, events[-1].failure.retryable) == ("CONNECTION_FAILED", True)


async def test_a_silent_server_times_out(models: Any):
    async with model_server(Reply([sse(chunk({"content": "a"})), 5.0])) as server:
        events, _ = await ask(models(server, timeout=0.2))
    assert isinstance(events[-1], ModelFailed)
    assert (events[-1].failure.code, events[-1].failure.retryable) == ("TIMEOUT", True)


async def test_an_abort_ends_the_stream_and_the_request(models: Any):
    # HOST-166: the visible prefix is kept, calls are not.
    reply = Reply([sse(chunk({"content": "visible"}), chunk(piece(0, "{}", id="c1", name="read"))), 30.0])
    controller = AbortController()
    async with model_server(reply) as server:
        stream = models(server).stream(ModelRequest((user_message("x"),)), controller.signal)
        collector = AnswerCollector()
        async for event in stream:
            collector.feed(event)
            if isinstance(event, ToolCallDelta):
                controller.abort("enough")
        for _ in range(100):
            if server.hung_up:
                break
            await asyncio.sleep(0.01)
    assert server.hung_up == 1
    assert collector.end == Finish("aborted")
    message = collector.message()
    assert message is not None
    assert (message.content, message.interrupted) == ((TextBlock("visible"),), True)


async def test_an_abort_before_the_answer_begins(models: Any):
    controller = AbortController()
    async with model_server(Reply([30.0])) as server:
        asking = asyncio.ensure_future(ask(models(server), signal=controller.signal))
        while not server.requests:
            await asyncio.sleep(0.01)
        controller.abort()
        events, collector = await asking
        assert events == [Finish("aborted")]
        assert collector.message() is None
        assert (await ask(models(server), signal=controller.signal))[0] == [Finish("aborted")]


async def test_a_reader_that_leaves_ends_the_request(models: Any):
    async with model_server(Reply([sse(chunk({"content": "a"})), 30.0])) as server:
        async with aclosing(models(server).stream(ModelRequest((user_message("x"),)), NEVER)) as stream:
            async for _event in stream:
                break
        for _ in range(100):
            if server.hung_up:
                break
            await asyncio.sleep(0.01)
        assert server.hung_up == 1


async def test_a_cancelled_reader_leaves_nothing_behind(models: Any):
    async with model_server(Reply([sse(chunk({"content": "a"})), 30.0])) as server:
        asking = asyncio.ensure_future(ask(models(server)))
        while not server.requests:
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


HISTORY: tuple[Message, ...] = (
    user_message("start"),
    AssistantMessage((TextBlock("ok"), ToolCallBlock("c1", "fs.list", ""), ToolCallBlock("c1", "read", '{"bad'))),
    tool_result_message(
        "c1", (TextBlock("one"), JsonBlock(snapshot({"a": 1})), ImageBlock("aGk=", "image/png")), False
    ),
    tool_result_message("c1", text("Error: \ud800"), True),
    user_message((TextBlock("look"), ImageBlock("aGk=", "image/png"))),
)


async def test_a_history_is_sent_as_the_api_wants_it(models: Any):
    request = ModelRequest(
        HISTORY,
        system="be brief",
        tools=(READ, DOTTED),
        tool_choice="fs.list",
        max_tokens=9,
        temperature=0.5,
        stop=("END",),
        extra={"seed": 1},
    )
    done = chunk({"content": "x"}), chunk({}, "stop")
    async with model_server(answered(*done), answered(*done)) as server:
        await ask(models(server, extra={"top_k": 5}), request)
        await ask(
            models(server, accepts_images=False, include_usage=False, max_tokens_field="max_completion_tokens"), request
        )
    body = server.requests[0].json
    assert body["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "start"},
        {
            "role": "assistant",
            "content": "ok",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "fs_list", "arguments": "{}"}},
                {"id": "c1_2", "type": "function", "function": {"name": "read", "arguments": '{"bad'}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": 'one\n{"a":1}\n[image content]'},
        {"role": "tool", "tool_call_id": "c1_2", "content": "Error: ?"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "[images of the result of c1]"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
    ]
    assert [tool["function"]["name"] for tool in body["tools"]] == ["read", "fs_list"]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "fs_list"}}
    assert (body["max_tokens"], body["temperature"], body["stop"], body["seed"], body["top_k"]) == (
        9,
        0.5,
        ["END"],
        1,
        5,
    )
    plain = server.requests[1].json
    assert plain["messages"][-1] == {"role": "user", "content": "look\n[image content]"}
    assert "stream_options" not in plain
    assert (plain["max_completion_tokens"], "max_tokens" in plain) == (9, False)


async def test_names_the_provider_refuses_come_back_as_ours(models: Any):
    reply = answered(chunk(piece(0, '{"x": 1}', id="c1", name="fs_list")), chunk({}, "tool_calls"))
    async with model_server(reply) as server:
        _, collector = await ask(models(server), ModelRequest((user_message("x"),), tools=(DOTTED,)))
    message = collector.message()
    assert message is not None
    assert message.tool_calls == (ToolCallBlock("c1", "fs.list", '{"x": 1}'),)


async def test_a_missing_key_is_a_clear_failure(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = OpenAICompatibleModel("m")
    events, _ = await ask(model)
    assert isinstance(events[-1], ModelFailed)
    assert (events[-1].failure.code, events[-1].failure.retryable) == ("AUTHENTICATION", False)
    await model.close()


async def test_one_adapter_serves_many_at_once(models: Any):
    replies = [answered(chunk({"content": "same"}), chunk({}, "stop")) for _ in range(20)]
    async with model_server(*replies) as server:
        model = models(server)
        found = await asyncio.gather(*(ask(model) for _ in range(20)))
    assert all(isinstance(events[-1], Finish) for events, _ in found)
