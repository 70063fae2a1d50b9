"""Configuration of the search tools."""

from __future__ import annotations

from typing import Literal

import pydantic

from ...kernel import MAX_TIMEOUT_MS
from ..workspace import WorkspaceConfig

__all__ = ["SearchConfig"]


class SearchConfig(WorkspaceConfig):
    """Configuration of ``glob`` and ``grep`` (HOST-219). Values are always complete; limits hold for what is shown.

    Parameters:
        engine: ``ripgrep``, ``library`` (no other program needed), or ``auto``: ripgrep where there is one.
        ripgrep: the program's path; by default ``rg`` from the search path.
        max_paths: how many paths of a ``glob`` are shown.
        max_matches: how many lines of a ``grep`` are shown.
        max_line_bytes: how much of a line is shown.
        max_meta_bytes: how large the data of a card may get.
        max_raw_bytes: how much the search may find at all; beyond that it fails.
        timeout_ms: the time limit of a call, in milliseconds; kept by the timeout plugin.
        grace_ms: how long ripgrep may take to end when it is told to, before it is killed.
        sample_over_cap_glob_results: show paths from all over a long list rather than its beginning.
    """

    engine: Literal["auto", "ripgrep", "library"] = "auto"
    ripgrep: str | None = None
    max_paths: int = pydantic.Field(default=100, ge=1, strict=True)
    max_matches: int = pydantic.Field(default=250, ge=1, strict=True)
    max_line_bytes: int = pydantic.Field(default=2000, ge=1, strict=True)
    max_meta_bytes: int = pydantic.Field(default=65_536, ge=1, strict=True)
    max_raw_bytes: int = pydantic.Field(default=20_000_000, ge=1, strict=True)
    timeout_ms: int = pydantic.Field(default=30_000, ge=1, le=MAX_TIMEOUT_MS, strict=True)
    grace_ms: int = pydantic.Field(default=3_000, ge=0, le=MAX_TIMEOUT_MS, strict=True)
    sample_over_cap_glob_results: bool = False
