"""Searching through a SearXNG instance: free software that asks other engines and answers in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import httpx
import pydantic

from ...kernel import MAX_TIMEOUT_MS, AbortSignal
from ...tools.cards import WebSource
from .errors import ProviderFailedError
from .providers import WEB_SEARCH, SearchAnswer

if TYPE_CHECKING:
    from ...kernel.context import Context

__all__ = ["SearxngConfig", "SearxngPlugin", "SearxngSearch"]


class SearxngConfig(pydantic.BaseModel):
    """Where the instance is.

    Parameters:
        url: its address; its settings must allow the format ``json``.
        timeout_ms: how long one query may take, in milliseconds.
        headers: sent along, for instance an authorization.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    url: str = pydantic.Field(pattern=r"^https?://")
    timeout_ms: float = pydantic.Field(default=20_000, gt=0, le=MAX_TIMEOUT_MS, allow_inf_nan=False)
    headers: dict[str, str] = pydantic.Field(default_factory=dict[str, str])


class SearxngSearch:
    """A search provider."""

    def __init__(self, config: SearxngConfig) -> None:
        self._config = config
        self._client = httpx.AsyncClient(headers=config.headers, timeout=config.timeout_ms / 1000)

    async def search(self, query: str, *, limit: int, signal: AbortSignal) -> SearchAnswer:
        """Return up to ``limit`` sources for a query.

        Raises:
            ProviderFailedError: the instance cannot be reached, refuses, or answers with something else.
        """
        try:
            response = await self._client.get(
                self._config.url.rstrip("/") + "/search", params={"q": query, "format": "json"}
            )
            response.raise_for_status()
            document: Any = response.json()
            results = cast("list[dict[str, Any]]", document["results"])
            sources = tuple(_source(result) for result in results[:limit])
            answers = cast("list[Any]", document.get("answers") or [])
            answer = next((_answer_text(item) for item in answers), None)
        except httpx.HTTPError as error:
            raise ProviderFailedError(f"the search engine failed: {error or type(error).__name__}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ProviderFailedError("the search engine answered with something that is no result") from error
        return SearchAnswer(sources, answer, truncated=len(results) > limit)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _source(result: dict[str, Any]) -> WebSource:
    url: str = result["url"]
    return WebSource(url, _text(result.get("title")), _text(result.get("content")), _text(result.get("publishedDate")))


def _answer_text(answer: Any) -> str | None:
    return _text(cast("dict[str, Any]", answer).get("answer") if isinstance(answer, dict) else answer)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


class SearxngPlugin:
    """Provides searching while it is mounted."""

    name = "searxng"
    Config = SearxngConfig

    def apply(self, ctx: Context, config: SearxngConfig) -> None:
        """Provide the search provider."""
        searcher = SearxngSearch(config)
        ctx.effect(lambda: searcher.close, "search connections")
        ctx.provide(WEB_SEARCH, searcher)
