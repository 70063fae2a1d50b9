"""The plugin: registers ``glob`` and ``grep``."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...tools import POST_EXECUTE
from .config import SearchConfig
from .engine import Engine
from .glob import glob_tool, paths_text
from .grep import grep_tool, matches_text
from .library import LibraryEngine
from .overflow import Overflow
from .ripgrep import RipgrepEngine
from .space import SearchSpace

if TYPE_CHECKING:
    from ...kernel.context import Context

__all__ = ["SearchPlugin"]


class SearchPlugin:
    """Offers ``glob`` and ``grep`` while it is mounted."""

    name = "search"
    inject = ("tools",)
    Config = SearchConfig

    def apply(self, ctx: Context, config: SearchConfig) -> None:
        """Register the tools.

        Raises:
            ConfigError: a folder does not exist, or ripgrep is wanted and not there.
        """
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise ConfigError("the search tools need a POSIX system: paths cannot be kept inside their folders here")
        space = SearchSpace(config, _engine(config))

        def all_paths(value: Any) -> str | None:
            return paths_text(value) if len(value["paths"]) > config.max_paths else None

        def all_matches(value: Any) -> str | None:
            return matches_text(value, config.max_line_bytes) if len(value["matches"]) > config.max_matches else None

        for definition, full in ((glob_tool(space), all_paths), (grep_tool(space), all_matches)):
            ctx.tools.register(definition)
            ctx.on(POST_EXECUTE, Overflow(ctx, definition, full).review, prepend=True)


def _engine(config: SearchConfig) -> Engine:
    program = None if config.engine == "library" else shutil.which(config.ripgrep or "rg")
    if program is not None:
        return RipgrepEngine(program, config.max_raw_bytes, config.grace_ms / 1000)
    if config.engine == "ripgrep" or (config.engine == "auto" and config.ripgrep is not None):
        raise ConfigError(
            f"the search tools need {config.ripgrep or 'ripgrep (rg)'}, which is not there; install it "
            "(Debian package: ripgrep), or set engine: library"
        )
    return LibraryEngine(config.max_raw_bytes)
