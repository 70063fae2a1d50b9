"""Searching, through whoever provides it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.calls import app
from tests.support.web import response, web_server

from dsh_tools.content import content_text
from dsh_tools.kernel import Context
from dsh_tools.toolkits.web import WEB_SEARCH, SearchAnswer, WebPlugin
from dsh_tools.toolkits.web.errors import ProviderFailedError
from dsh_tools.toolkits.web.searxng import SearxngPlugin
from dsh_tools.tools import (
    PresentedResult,
    ToolCall,
    ToolFailure,
    ToolResult,
    ToolSuccess,
    view_of_call,
    view_of_result,
)
from dsh_tools.tools.cards import GenericCall, WebSearch, WebSource


class Provider:
    """Answers from a table; ``slow`` ones take long, exceptions are raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.stopped: list[str] = []

    async def search(self, query: str, *, limit: int, signal: Any) -> SearchAnswer:
        self.asked.append(query)
        answer = self.answers[query]
        try:
            await asyncio.sleep(60 if answer == "slow" else 0.01)
        except asyncio.CancelledError:
            self.stopped.append(query)
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer


def sources(*urls: str, **more: Any) -> SearchAnswer:
    return SearchAnswer(tuple(WebSource(url, title=url.upper()) for url in urls), **more)


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with app() as context:
        await context.plugin(WebPlugin(), {"search_max_results": 4})
        yield context


async def search(ctx: Context, *queries: str) -> ToolResult:
    return await ctx.tools.execute(ToolCall("web_search", {"queries": list(queries)}))


async def test_results_are_merged_by_rank_and_each_page_is_there_once(ctx: Context):
    # HOST-226
    provider = Provider(a=sources("1", "2", "3"), b=sources("4", "1", "5"))
    ctx.provide(WEB_SEARCH, provider)
    result = await search(ctx, "a", "b", "a")
    assert isinstance(result, ToolSuccess)
    assert [source["url"] for source in result.value["sources"]] == ["1", "4", "2", "3"]
    assert result.value["truncated"] is True
    assert sorted(provider.asked) == ["a", "b"]
    assert "content" not in result.value


async def test_answers_in_words_are_kept(ctx: Context):
    # HOST-226
    ctx.provide(WEB_SEARCH, Provider(a=sources("1", content="Yes."), b=sources("2", content="No."), c=sources("3")))
    one = await search(ctx, "a")
    assert isinstance(one, ToolSuccess)
    assert one.value["content"] == "Yes."
    assert content_text(one.content) == "Yes.\n\n1. 1\n   1"
    several = await search(ctx, "a", "b", "c")
    assert isinstance(several, ToolSuccess)
    assert several.value["content"] == "a: Yes.\n\nb: No."


@pytest.mark.parametrize("queries", [[], ["a"] * 5, ["a", " "]])
async def test_the_number_of_queries_is_checked_before_duplicates_go(ctx: Context, queries: list[str]):
    # HOST-226
    provider = Provider(a=sources("1"))
    ctx.provide(WEB_SEARCH, provider)
    result = await search(ctx, *queries)
    assert isinstance(result, ToolFailure)
    assert result.error.info.code == "INVALID_ARGS"
    assert provider.asked == []


async def test_the_first_failure_stops_the_others_and_goes_out(ctx: Context):
    # HOST-226
    provider = Provider(a="slow", b=ProviderFailedError("over quota"), c="slow")
    ctx.provide(WEB_SEARCH, provider)
    result = await search(ctx, "a", "b", "c")
    assert isinstance(result, ToolFailure)
    assert result.error.message == "over quota"
    assert sorted(provider.stopped) == ["a", "c"]


async def test_without_a_provider_the_tool_is_there_and_says_so(ctx: Context):
    # HOST-228
    assert "web_search" in [schema.name for schema in ctx.tools.schemas()]
    result = await search(ctx, "a")
    assert isinstance(result, ToolFailure)
    assert result.error.info.code == "WEB_PROVIDER_MISSING"


async def test_cards(ctx: Context):
    # HOST-229
    found = WebSource("u", "T", "S", "2020-01-01")
    ctx.provide(WEB_SEARCH, Provider(a=SearchAnswer((found,), "Well.")))
    definition = ctx.tools.get("web_search")
    arguments = {"queries": ["a"]}
    assert view_of_call(definition, arguments) == GenericCall("Search a", kind="search")
    result = await search(ctx, "a")
    presented = PresentedResult(result.content, False, result.meta)
    assert view_of_result(definition, arguments, presented) == WebSearch((found,), False, answer="Well.")
    assert content_text(result.content) == "Well.\n\n1. T (2020-01-01)\n   u\n   S"


async def test_a_searxng_instance(ctx: Context):
    seen: list[str] = []

    async def handle(path: str, fields: dict[str, str], writer: asyncio.StreamWriter) -> None:
        seen.append(path)
        if "q=broken" in path:
            writer.write(response(b"<html>", kind="text/html"))
        elif "q=refused" in path:
            writer.write(response(b"", "403 Forbidden"))
        else:
            document = {
                "results": [
                    {"url": "http://one", "title": "One", "content": "first", "publishedDate": None},
                    {"url": "http://two", "title": "", "content": None},
                ],
                "answers": [{"answer": "42"}],
            }
            writer.write(response(json.dumps(document).encode(), kind="application/json"))

    async with web_server(handle) as base:
        fiber = ctx.plugin(SearxngPlugin(), {"url": base + "/"})
        await fiber
        result = await search(ctx, "the question")
        assert isinstance(result, ToolSuccess), result
        assert result.value["sources"] == [
            {"url": "http://one", "title": "One", "snippet": "first"},
            {"url": "http://two"},
        ]
        assert result.value["content"] == "42"
        assert seen == ["/search?q=the+question&format=json"]
        for query in ("broken", "refused"):
            failed = await search(ctx, query)
            assert isinstance(failed, ToolFailure)
            assert failed.error.info.code == "WEB_PROVIDER_FAILED"
        await fiber.dispose()
    result = await search(ctx, "x")
    assert isinstance(result, ToolFailure)
    assert result.error.info.code == "WEB_PROVIDER_MISSING"
