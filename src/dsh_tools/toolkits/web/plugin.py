"""The plugin: registers the web tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .config import WebConfig
from .errors import ProviderMissingError
from .fetch import fetch_tool
from .providers import WEB_FETCH, WEB_SEARCH, WebFetchProvider, WebSearchProvider
from .search import search_tool

if TYPE_CHECKING:
    from ...kernel.context import Context

__all__ = ["WebPlugin"]


class WebPlugin:
    """Offers ``web_search`` and ``web_fetch`` while it is mounted.

    Searching needs a provider, see :data:`WEB_SEARCH`; without one the tool stays listed, and says so when
    it is called (HOST-228).
    """

    name = "web"
    inject = ("tools",)
    Config = WebConfig

    def apply(self, ctx: Context, config: WebConfig) -> None:
        """Register the tools that the config asks for."""
        if config.search:
            ctx.tools.register(search_tool(config, lambda: _searcher(ctx)))
        if config.fetch:
            fetcher = _built_in(config)
            ctx.tools.register(fetch_tool(config, lambda: _fetcher(ctx, fetcher)))


def _searcher(ctx: Context) -> WebSearchProvider:
    provider = ctx.get(WEB_SEARCH)
    if provider is None:
        raise ProviderMissingError("no search provider is set up here; go on without searching")
    return provider


def _fetcher(ctx: Context, built_in: WebFetchProvider | None) -> WebFetchProvider:
    provider = ctx.get(WEB_FETCH) or built_in
    if provider is None:
        raise ProviderMissingError("fetching pages needs an extra that is not installed: pip install 'dsh-tools[web]'")
    return provider


def _built_in(config: WebConfig) -> WebFetchProvider | None:
    try:
        # Imported here: it needs the extra `web`.
        from .fetcher import HttpFetcher
    except ImportError:
        return None
    return HttpFetcher(config)
