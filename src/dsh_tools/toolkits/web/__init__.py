"""Web tools: ``web_search`` and ``web_fetch``."""

from __future__ import annotations

from .config import WebConfig
from .errors import WebError
from .plugin import WebPlugin
from .providers import WEB_FETCH, WEB_SEARCH, FetchedPage, SearchAnswer, WebFetchProvider, WebSearchProvider

__all__ = [
    "WEB_FETCH",
    "WEB_SEARCH",
    "Config",
    "FetchedPage",
    "SearchAnswer",
    "WebConfig",
    "WebError",
    "WebFetchProvider",
    "WebPlugin",
    "WebSearchProvider",
    "apply",
    "inject",
    "name",
]

# The module is itself a plugin, for `plugins: [dsh_tools.toolkits.web]`.
plugin = WebPlugin()
name = plugin.name
inject = plugin.inject
Config = WebConfig
apply = plugin.apply
