"""The seams: who searches, and who fetches."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ...kernel import AbortSignal, ServiceKey
from ...tools.cards import WebSource

__all__ = ["WEB_FETCH", "WEB_SEARCH", "FetchedPage", "SearchAnswer", "WebFetchProvider", "WebSearchProvider"]


class SearchAnswer(msgspec.Struct, frozen=True):
    """What a provider found for one query.

    Parameters:
        sources: best first.
        content: an answer in words, where the provider writes one.
        truncated: whether there would be more.
    """

    sources: tuple[WebSource, ...]
    content: str | None = None
    truncated: bool = False


class WebSearchProvider(Protocol):
    """Searches the web; provide it as :data:`WEB_SEARCH`."""

    async def search(self, query: str, *, limit: int, signal: AbortSignal) -> SearchAnswer:
        """Return up to ``limit`` sources for a query; cancelled where nobody needs them any more.

        Raises:
            WebError: it failed, in words that a model can use.
        """
        ...


class FetchedPage(msgspec.Struct, frozen=True):
    """A page as it was sent.

    Parameters:
        url: its final address, after redirects.
        status_code: the answer's status; errors have pages, too.
        content_type: as the server says, perhaps empty.
        body: the bytes, decompressed.
        truncated: whether the body was cut at the limit.
    """

    url: str
    status_code: int
    content_type: str
    body: bytes
    truncated: bool = False


class WebFetchProvider(Protocol):
    """Fetches pages; provide it as :data:`WEB_FETCH` to replace the built-in one."""

    async def fetch(self, url: str, *, signal: AbortSignal) -> FetchedPage:
        """Return a page.

        Raises:
            WebError: there is none, in words that a model can use.
        """
        ...


WEB_SEARCH: ServiceKey[WebSearchProvider] = ServiceKey("web_search")
WEB_FETCH: ServiceKey[WebFetchProvider] = ServiceKey("web_fetch")
