"""Search tools: ``glob`` finds files, ``grep`` finds lines in them."""

from __future__ import annotations

from .config import SearchConfig
from .errors import InvalidPatternError, RawOutputOverflowError, SearchAbortedError, SearchError
from .plugin import SearchPlugin

__all__ = [
    "Config",
    "InvalidPatternError",
    "RawOutputOverflowError",
    "SearchAbortedError",
    "SearchConfig",
    "SearchError",
    "SearchPlugin",
    "apply",
    "inject",
    "name",
]

# The module is itself a plugin, for `plugins: [dsh_tools.toolkits.search]`.
plugin = SearchPlugin()
name = plugin.name
inject = plugin.inject
Config = SearchConfig
apply = plugin.apply
