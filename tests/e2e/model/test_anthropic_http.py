"""The messages adapter over real HTTP against a local server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from tests.support.model_server import ModelServer, Reply, error_body, model_server, scattered, sse

from dsh_tools.content import ImageBlock, TextBlock, text
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
    AnthropicModel,
    Finish,
    ModelEvent,
    ModelFailed,
    ModelRequest,
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


def begin(**usage: int) -> dict[str, Any]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1, **usage},
    }
    return {"type": "message_start", "message": message}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any], stop: bool = True) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        *([{"type": "content_block_stop", "index": index}] if stop else []),
    ]


def said(index: int, *pieces: str, **options: Any) -> list[dict[str, Any]]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas, **options)


def called(index: int, call_id: str, name: str, *pieces: str, **options: Any) -> list[dict[str, Any]]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, {"type": "tool_use", "id": call_id, "name": name, "input": {}}, *deltas, **options)


def finish(reason: str = "end_turn", tokens: int = 5) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": tokens}},
        {"type": "message_stop"},
    ]


def answered(*records: Any) -> Reply:
    return Reply([sse(*records, event_names=True)])


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
    made: list[AnthropicModel] = []

    def make(server: ModelServer, **options: Any) -> AnthropicModel:
        made.append(AnthropicModel("claude", base_url=server.url, api_key="k", **options))
        return made[-1]

    yield make
    for model in made:
        await model.close()


async def test_a_text_streams_and_is_counted(models: Any):
    usage = {"cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}
    reply = answered(begin(**usage), {"type": "ping"}, *said(0, "Hel", "lo"), *finish())
    async with model_server(reply) as server:
        model = models(server)
        events, collector = await ask(model)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hel", "lo"]
    assert events[-1] == Finish("stop", Usage(130, 5, cache_read_tokens=100, cache_write_tokens=20), "claude-x")
    assert collector.message() == AssistantMessage((TextBlock("Hello"),), model="claude-x")
    assert (model.name, model.accepts_images) == ("anthropic:claude", True)
    (request,) = server.requests
    assert request.path.startswith("/v1/messages")
    assert request.headers.get("x-api-key", request.headers.get("authorization")) in ("k", "Bearer k")
    cached = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    assert request.json == {
        "model": "claude",
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": [cached]}],
        "stream": True,
    }


@pytest.mark.parametrize("sizes", [[10**6], [1], [2, 7, 1], [13]])
async def test_calls_come_in_odd_fragments(models: Any, sizes: list[int]):
    records = [
        begin(),
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "let me "},
            {"type": "thinking_delta", "thinking": "see"},
            {"type": "signature_delta", "signature": "SIG"},
        ),
        *block(1, {"type": "redacted_thinking", "data": "XYZ"}),
        *said(2, "I look"),
        *called(3, "toolu_1", "read", "", '{"pa', 'th": ', '"a\\u00', 'e9"', "}"),
        *called(4, "toolu_2", "read", "{", '"path":"\U0001f642"}'),
        *finish("tool_use"),
    ]
    data = sse(*records, event_names=True).decode().replace("\\ud83d\\ude42", "\U0001f642").encode()
    async with model_server(Reply(scattered(data, sizes))) as server:
        events, collector = await ask(models(server))
    message = collector.message()
    assert message is not None
    assert message.content == (
        ReasoningBlock("let me see", "SIG"),
        ReasoningBlock("", redacted="XYZ"),
        TextBlock("I look"),
        ToolCallBlock("toolu_1", "read", '{"path": "a\\u00e9"}'),
        ToolCallBlock("toolu_2", "read", '{"path":"\U0001f642"}'),
    )
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["let me ", "see"]
    deltas = [event for event in events if isinstance(event, ToolCallDelta) and event.index == 1]
    assert {(delta.id, delta.name) for delta in deltas} == {("toolu_2", "read")}
    assert isinstance(events[-1], Finish)
    assert events[-1].reason == "tool-calls"


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (called(0, "t1", "read", '{"a": 1'), ("t1", "read", '{"a": 1')),  # not JSON: kept byte for byte
        (called(0, "t1", "read"), ("t1", "read", "")),  # nothing at all
        (
            block(0, {"type": "tool_use", "id": "t1", "name": "read", "input": {"a": [1]}}),
            ("t1", "read", '{"a":[1]}'),
        ),  # whole, at the start
        (called(0, "t1", "read", "{", "}", stop=False), ("t1", "read", "{}")),  # without a stop of its own
        (called(0, "t1", "read", '"\ud83d', '\ude42"'), ("t1", "read", '"\U0001f642"')),
        ([*block(0, {"type": "server_thing", "x": 1}), *called(1, "t1", "read", "{}")], ("t1", "read", "{}")),
    ],
)
async def test_odd_calls_are_kept_as_they_came(models: Any, records: Any, expected: Any):
    # HOST-118, 145
    async with model_server(answered(begin(), *records, {"type": "news"}, *finish("tool_use"))) as server:
        _, collector = await ask(models(server))
    message = collector.message()
    assert message is not None
    (call,) = message.tool_calls
    assert (call.id, call.name, call.arguments) == expected


async def test_a_call_without_an_id_gets_one(models: Any):
    async with model_server(answered(begin(), *called(0, "", "read", "{}"), *finish("tool_use"))) as server:
        _, collector = await ask(models(server))
    message = collector.message()
    assert message is not None
    assert message.tool_calls[0].id.startswith("call_")


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "max-tokens"),
        ("model_context_window_exceeded", "max-tokens"),
        ("refusal", "content-filter"),
        ("pause_turn", "other"),
    ],
)
async def test_every_end_has_its_reason(models: Any, stop: str, reason: str):
    async with model_server(answered(begin(), *said(0, "x"), *finish(stop))) as server:
        events, _ = await ask(models(server))
    assert isinstance(events[-1], Finish)
    assert events[-1].reason == reason


async def test_an_answer_at_its_length_limit_loses_its_calls(models: Any):
    # HOST-165
    records = [begin(), *said(0, "x"), *called(1, "t1", "read", '{"a', stop=False), *finish("max_tokens")]
    async with model_server(answered(*records)) as server:
        _, collector = await ask(models(server))
    assert collector.message() == AssistantMessage((TextBlock("x"),), model="claude-x")


START = sse(begin(), *said(0, "par", stop=False), event_names=True)
CUTS = {
    "the connection is cut": ([START, None], "CONNECTION_FAILED"),
    "the body ends early, in order": ([START], "STREAM_CUT"),
    "cut inside a line": ([START, b'event: content_block_delta\ndata: {"ty', None], "CONNECTION_FAILED"),
    "stopped without a reason": ([START, sse({"type": "message_stop"}, event_names=True)], "STREAM_CUT"),
    "a line that is not JSON": ([START, b'event: content_block_delta\ndata: {"ty\n\n'], "STREAM_INVALID"),
    "an overload inside the stream": (
        [START, b"event: error\ndata: " + error_body("overloaded_error") + b"\n\n"],
        "OVERLOADED",
    ),
    "an unknown error inside the stream": ([START, b"event: error\ndata: what\n\n"], "PROVIDER_ERROR"),
}


@pytest.mark.parametrize("case", CUTS)
async def test_a_stream_that_breaks_is_a_failure_with_its_prefix(models: Any, case: str):
    # HOST-166
    parts, code = CUTS[case]
    async with model_server(Reply(list(parts))) as server:
        events, collector = await ask(models(server))
    assert isinstance(events[-1], ModelFailed)
    assert (events[-1].failure.code, events[-1].failure.retryable) == (code, True)
    message = collector.message()
    assert message is not None
    assert (message.content, message.interrupted) == ((TextBlock("par"),), True)


async def test_a_refusal_inside_the_stream_is_final(models: Any):
    parts = [START, b"event: error\ndata: " + error_body("invalid_request_error") + b"\n\n"]
    async with model_server(Reply(parts)) as server:
        events, _ = await ask(RetryingModel(models(server), QUICK))
    assert isinstance(events[-1], ModelFailed)
    assert (events[-1].failure.code, events[-1].failure.retryable) == ("INVALID_REQUEST", False)


async def test_a_broken_stream_is_asked_for_again_from_the_start(models: Any):
    async with model_server(Reply([START, None]), answered(begin(), *said(0, "whole"), *finish())) as server:
        events, collector = await ask(RetryingModel(models(server), QUICK))
    assert sum(isinstance(event, Retrying) for event in events) == 1
    assert collector.message() == AssistantMessage((TextBlock("whole"),), model="claude-x")


@pytest.mark.parametrize(
    ("status", "kind", "code", "retryable"),
    [
        (400, "invalid_request_error", "INVALID_REQUEST", False),
        (401, "authentication_error", "AUTHENTICATION", False),
        (402, "billing_error", "QUOTA_EXCEEDED", False),
        (403, "permission_error", "AUTHENTICATION", False),
        (404, "not_found_error", "MODEL_NOT_FOUND", False),
        (413, "request_too_large", "CONTEXT_TOO_LONG", False),
        (429, "rate_limit_error", "RATE_LIMITED", True),
        (500, "api_error", "PROVIDER_ERROR", True),
        (504, "timeout_error", "TIMEOUT", True),
        (529, "overloaded_error", "OVERLOADED", True),
    ],
)
async def test_every_refusal_has_its_code(models: Any, status: int, kind: str, code: str, retryable: bool):
    reply = Reply([error_body(kind, "the reason")], status=status, headers={"retry-after": "7"})
    async with model_server(reply) as server:
        events, collector = await ask(models(server))
    (failed,) = events
    assert isinstance(failed, ModelFailed)
    assert (failed.failure.code, failed.failure.retryable, failed.failure.status) == (code, retryable, status)
    assert failed.failure.message == "the reason"
    assert failed.failure.retry_after == (7.0 if retryable else None)
    assert collector.message() is None


async def test_a_prompt_that_is_too_long_is_told_apart(models: Any):
    body = error_body("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
    async with model_server(Reply([body], status=400)) as server:
        events, _ = await ask(models(server))
    assert isinstance(events[-1], ModelFailed)
    assert events[-1].failure.code == "CONTEXT_TOO_LONG"


async def test_rate_limits_and_errors_are_waited_out(models: Any):
    limited = Reply([error_body("rate_limit_error")], status=429, headers={"retry-after-ms": "50"})
    broken = Reply([b"no json"], status=500)
    async with model_server(limited, broken, answered(begin(), *said(0, "ok"), *finish())) as server:
        events, collector = await ask(RetryingModel(models(server), QUICK))
    first, second = (event for event in events if isinstance(event, Retrying))
    assert 0.05 <= first.delay <= 0.056
    assert (first.failure.code, second.failure.code) == ("RATE_LIMITED", "PROVIDER_ERROR")
    assert collector.complete


async def test_a_silent_server_times_out(models: Any):
    async with model_server(Reply([START, 5.0])) as server:
        events, _ = await ask(models(server, timeout=0.2))
    assert isinstance(events[-1], ModelFailed)
    assert (events[-1].failure.code, events[-1].failure.retryable) == ("TIMEOUT", True)


async def test_nobody_listening_is_a_failure(models: Any):
    async with model_server() as server:
        pass
    events, _ = await ask(models(server))
    assert isinstance(events[-1], ModelFailed)
    assert (events[-1].failure.code, events[-1].failure.retryable) == ("CONNECTION_FAILED", True)


async def test_an_abort_ends_the_stream_and_the_request(models: Any):
    # HOST-166
    controller = AbortController()
    async with model_server(Reply([START, 30.0])) as server:
        collector = AnswerCollector()
        async for event in models(server).stream(ModelRequest((user_message("x"),)), controller.signal):
            collector.feed(event)
            if isinstance(event, TextDelta):
                controller.abort("enough")
        for _ in range(100):
            if server.hung_up:
                break
            await asyncio.sleep(0.01)
        assert server.hung_up == 1
    assert collector.end == Finish("aborted")
    message = collector.message()
    assert message is not None
    assert message.interrupted is True


HISTORY: tuple[Message, ...] = (
    user_message("start"),
    user_message("go on"),
    AssistantMessage(
        (
            ReasoningBlock("signed", "SIG"),
            ReasoningBlock("unsigned"),
            ReasoningBlock("", redacted="XYZ"),
            TextBlock("  "),
            TextBlock("ok"),
            ToolCallBlock("call/1", "fs.list", ""),
            ToolCallBlock("c2", "read", '{"bad'),
            ToolCallBlock("c2", "read", "[1]"),
        )
    ),
    tool_result_message("call/1", (TextBlock("one"), ImageBlock("aGk=", "image/png")), False),
    tool_result_message("c2", text("Error: no"), True),
    tool_result_message("c2", (), False),
    user_message("and"),
    AssistantMessage((TextBlock("fine"),)),
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
        extra={"top_k": 3},
    )
    done = [begin(), *said(0, "x"), *finish()]
    async with model_server(answered(*done), answered(*done)) as server:
        await ask(models(server), request)
        await ask(models(server, cache=False), ModelRequest(HISTORY[:1], tools=(READ,), tool_choice="required"))
    body = server.requests[0].json
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    first, second, third = (each["id"] for each in body["messages"][1]["content"] if each["type"] == "tool_use")
    assert len({first, second, third}) == 3
    assert (second, third) == ("c2", "c2_2")
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "start"}, {"type": "text", "text": "go on"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "signed", "signature": "SIG"},
                {"type": "redacted_thinking", "data": "XYZ"},
                {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": first, "name": "fs_list", "input": {}},
                {"type": "tool_use", "id": second, "name": "read", "input": {"invalid_json": '{"bad'}},
                {"type": "tool_use", "id": third, "name": "read", "input": {"invalid_arguments": [1]}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": first, "content": [{"type": "text", "text": "one"}, image]},
                {
                    "type": "tool_result",
                    "tool_use_id": second,
                    "content": [{"type": "text", "text": "Error: no"}],
                    "is_error": True,
                },
                {"type": "tool_result", "tool_use_id": third},
                {"type": "text", "text": "and"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "fine"}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": "look"}, {**image, "cache_control": {"type": "ephemeral"}}],
        },
    ]
    assert body["system"] == [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}]
    assert [tool["name"] for tool in body["tools"]] == ["read", "fs_list"]
    assert body["tool_choice"] == {"type": "tool", "name": "fs_list"}
    assert (body["max_tokens"], body["temperature"], body["stop_sequences"], body["top_k"]) == (9, 0.5, ["END"], 3)
    plain = server.requests[1].json
    assert plain["messages"] == [{"role": "user", "content": [{"type": "text", "text": "start"}]}]
    assert plain["tool_choice"] == {"type": "any"}
    assert "system" not in plain


async def test_names_the_provider_refuses_come_back_as_ours(models: Any):
    async with model_server(answered(begin(), *called(0, "t1", "fs_list", '{"x": 1}'), *finish("tool_use"))) as server:
        _, collector = await ask(models(server), ModelRequest((user_message("x"),), tools=(DOTTED,)))
    message = collector.message()
    assert message is not None
    assert message.tool_calls == (ToolCallBlock("t1", "fs.list", '{"x": 1}'),)


async def test_a_missing_key_is_a_clear_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    model = AnthropicModel("m")
    events, _ = await ask(model)
    assert isinstance(events[-1], ModelFailed)
    assert (events[-1].failure.code, events[-1].failure.retryable) == ("AUTHENTICATION", False)
    await model.close()
