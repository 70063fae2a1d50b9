"""The tool ``web_search``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
from pydantic import Field

from ...content import Content, text
from ...tools import PresentedResult, ToolDefinition, ToolRunContext, define_tool
from ...tools.cards import GenericCall, WebSearch, WebSource
from ..arguments import also_check
from ..presented import meta_of
from .config import WebConfig
from .providers import SearchAnswer, WebSearchProvider

__all__ = ["search_tool"]

_DESCRIPTION = """\
Search the web. Give several queries at once to look at a question from several sides.

The result is a list of pages; read one with web_fetch."""


class SearchArgs(TypedDict):
    """What to search for."""

    queries: Annotated[list[str], Field(min_length=1), "The queries."]


class Source(TypedDict):
    """A page that was found."""

    url: str
    title: NotRequired[str]
    snippet: NotRequired[str]
    publishedAt: NotRequired[str]


class Found(TypedDict):
    """The pages of all queries, best first, and the provider's answer where it writes one."""

    content: NotRequired[str]
    sources: list[Source]
    truncated: bool


def search_tool(config: WebConfig, provider: Callable[[], WebSearchProvider]) -> ToolDefinition:
    """Return ``web_search`` (HOST-226).

    Parameters:
        config: the limits.
        provider: who searches, looked up at each call.
    """

    async def execute(args: SearchArgs, run: ToolRunContext) -> Found:
        queries = list(dict.fromkeys(query.strip() for query in args["queries"]))
        searcher = provider()
        answers = await _all(
            [searcher.search(query, limit=config.search_max_results, signal=run.signal) for query in queries]
        )
        return _merged(queries, answers, config.search_max_results)

    def check(args: Any) -> list[str]:
        queries: list[str] = args["queries"]
        if len(queries) > config.search_max_queries:
            return [f"queries must be at most {config.search_max_queries}, got {len(queries)}"]
        return [f"queries[{index}] must not be blank" for index, query in enumerate(queries) if not query.strip()]

    definition = define_tool(
        name="web_search",
        description=_DESCRIPTION,
        parameters=SearchArgs,
        output=Found,
        execute=execute,
        render=lambda args, value: _render(value),
        presentation_meta=lambda args, value: dict(value),
        timeout_ms=config.search_timeout_ms,
        is_concurrency_safe=True,
        idempotent=True,
        present_call=lambda args: GenericCall(f"Search {', '.join(args['queries'])}", kind="search"),
        present_result=_present_result,
    )
    return also_check(definition, check)


async def _all(searches: Sequence[Any]) -> list[SearchAnswer]:
    """Wait for all; the first failure stops the others, and goes out once they have stopped."""
    tasks: list[asyncio.Task[SearchAnswer]] = [asyncio.ensure_future(search) for search in searches]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        failed = next((task for task in tasks if task in done and task.exception() is not None), None)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if failed is not None:
        raise failed.exception() or RuntimeError
    return [task.result() for task in tasks]


def _merged(queries: Sequence[str], answers: Sequence[SearchAnswer], limit: int) -> Found:
    """Take the best of each query, then the second best, and so on; each page once."""
    ranks = zip_longest(*(answer.sources for answer in answers))
    unique = {source.url: source for rank in ranks for source in rank if source is not None}
    sources = list(unique.values())
    found = Found(
        sources=[_source(source) for source in sources[:limit]],
        truncated=len(sources) > limit or any(answer.truncated for answer in answers),
    )
    texts = [(query, answer.content) for query, answer in zip(queries, answers, strict=True) if answer.content]
    if texts:
        found["content"] = texts[0][1] if len(queries) == 1 else "\n\n".join(f"{q}: {said}" for q, said in texts)
    return found


def _source(source: WebSource) -> Source:
    found = Source(url=source.url)
    if source.title is not None:
        found["title"] = source.title
    if source.snippet is not None:
        found["snippet"] = source.snippet
    if source.published_at is not None:
        found["publishedAt"] = source.published_at
    return found


def _render(value: Found) -> Content:
    lines = [value["content"], ""] if "content" in value else []
    for number, source in enumerate(value["sources"], 1):
        dated = f" ({source['publishedAt']})" if "publishedAt" in source else ""
        lines.append(f"{number}. {source.get('title', source['url'])}{dated}\n   {source['url']}")
        if "snippet" in source:
            lines.append(f"   {source['snippet']}")
    if not value["sources"]:
        lines.append("Nothing was found.")
    if value["truncated"]:
        lines.append("(There are more; narrow the query to see others.)")
    return text("\n".join(lines))


class _Meta(msgspec.Struct):
    sources: tuple[WebSource, ...]
    truncated: bool
    content: str | None = None


def _present_result(args: SearchArgs, presented: PresentedResult) -> WebSearch | None:
    meta = meta_of(presented, _Meta)
    return None if meta is None else WebSearch(meta.sources, meta.truncated, answer=meta.content)
