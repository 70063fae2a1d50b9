"""What both search tools share: their folders, the engine, and the limits."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..places import locate
from ..processes import attend
from ..workspace import Workspace
from .config import SearchConfig
from .engine import Engine, Include, SearchFolder, open_folder
from .errors import InvalidPatternError
from .globs import GlobSyntaxError, parse_path_pattern

if TYPE_CHECKING:
    from ...tools import ToolRunContext

__all__ = ["SearchSpace", "read_include", "read_path_pattern"]


class SearchSpace:
    """The state behind one mounted pair of search tools.

    Raises:
        ConfigError: a configured folder does not exist.
    """

    def __init__(self, config: SearchConfig, engine: Engine) -> None:
        self.config = config
        self.engine = engine
        self._workspace = Workspace(config)

    @asynccontextmanager
    async def folder(
        self, run: ToolRunContext, path: str | None, *, file_allowed: bool = False
    ) -> AsyncGenerator[SearchFolder]:
        """Open the folder of a call for the length of a block.

        Parameters:
            path: as the model wrote it; None is the working folder.
            file_allowed: take a file, too.

        Raises:
            FileError: there is no such folder within the roots.
        """
        roots, base = self._workspace.roots(run.agent), self._workspace.base(run.agent)

        opened: list[SearchFolder] = []

        def find() -> None:
            with locate(roots, base, path or ".") as place:
                opened.append(open_folder(place, file_allowed=file_allowed))

        try:
            await attend(find, lambda: None, run.signal)
            yield opened[0]
        finally:
            # Also where the call was cancelled while the folder was being opened.
            for folder in opened:
                folder.close()


def read_path_pattern(pattern: str) -> Include:
    """Compile the pattern of a glob.

    Raises:
        InvalidPatternError: it is malformed, or one that excludes.
    """
    if pattern.startswith("!"):
        raise InvalidPatternError("a pattern cannot exclude (leading !); name the files that you want")
    return _include(pattern, pattern)


def read_include(include: str) -> Include:
    """Compile the ``include`` of a grep: exactly one pattern, and a positive one (HOST-222).

    Raises:
        InvalidPatternError: it is not.
    """
    if include.startswith("!"):
        raise InvalidPatternError("include cannot exclude (leading !); name the files to search, such as *.py")
    depth = 0
    for index, char in enumerate(include):
        if char in "{}" and include[index - 1 : index] != "\\":
            depth += 1 if char == "{" else -1
        elif char == "," and depth == 0:
            raise InvalidPatternError("include takes one pattern; put alternatives into braces: *.{ts,tsx}")
    return _include(include, include)


def _include(pattern: str, text: str) -> Include:
    if not pattern.strip() or "\0" in pattern or "\n" in pattern:
        raise InvalidPatternError("the path pattern must be one line that is not blank, such as src/**/*.py")
    try:
        return Include(text, parse_path_pattern(pattern))
    except GlobSyntaxError as error:
        raise InvalidPatternError(
            f"the path pattern {pattern[:200]!r} is malformed: {error}; escape the character with a backslash"
        ) from None
