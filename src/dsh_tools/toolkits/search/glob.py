"""The tool ``glob``."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

from ...content import Content, text
from ...tools import PresentedResult, ToolDefinition, ToolRunContext, define_tool
from ...tools.cards import GenericCall, Location, SearchPaths
from ..presented import meta_of
from .space import SearchSpace, read_path_pattern

__all__ = ["glob_tool", "paths_text"]

_DESCRIPTION = """\
Find files by a pattern on their paths, sorted by path. Files that .gitignore hides are left out; hidden ones are not.

* and ? stay within one part of a path, ** crosses folders: src/**/*.{ts,tsx}. A pattern without a slash is looked \
for at any depth: *.md."""


class GlobArgs(TypedDict):
    """Which files to find, and where."""

    pattern: Annotated[str, "The pattern, relative to the folder that is searched."]
    path: NotRequired[Annotated[str, "The folder to search in; by default the working folder."]]


class FoundPaths(TypedDict):
    """All files that were found; each path is fit for other tools as it is."""

    root: str
    paths: list[str]


class _Meta(msgspec.Struct):
    paths: tuple[str, ...]
    truncated: bool
    total: int


def glob_tool(space: SearchSpace) -> ToolDefinition:
    """Return ``glob`` (HOST-218 to 225)."""
    config = space.config

    async def execute(args: GlobArgs, run: ToolRunContext) -> FoundPaths:
        wanted = read_path_pattern(args["pattern"])
        async with space.folder(run, args.get("path")) as folder:
            files = await space.engine.list_files(folder, wanted, run.signal)
            return FoundPaths(root=folder.shown or ".", paths=[folder.shown + path for path in files])

    def shown(value: FoundPaths) -> list[str]:
        return _sample(value["paths"], config.max_paths, config.sample_over_cap_glob_results)

    def render(args: GlobArgs, value: FoundPaths) -> Content:
        return text(_page(shown(value), len(value["paths"])))

    def meta(args: GlobArgs, value: FoundPaths) -> dict[str, Any]:
        return _card_data(shown(value), len(value["paths"]), config.max_meta_bytes)

    return define_tool(
        name="glob",
        description=_DESCRIPTION,
        parameters=GlobArgs,
        output=FoundPaths,
        execute=execute,
        render=render,
        presentation_meta=meta,
        timeout_ms=config.timeout_ms,
        present_call=_present_call,
        present_result=_present_result,
        idempotent=True,
    )


def paths_text(value: FoundPaths) -> str:
    """Return all paths, as they would be shown without a limit."""
    return "\n".join(value["paths"])


def _sample(paths: list[str], limit: int, evenly: bool) -> list[str]:
    """Return what is shown of a list: its beginning, or paths from all over it."""
    if len(paths) <= limit or not evenly:
        return paths[:limit]
    return [paths[index * len(paths) // limit] for index in range(limit)]


def _page(paths: list[str], total: int) -> str:
    if not paths:
        return "No files found"
    if len(paths) == total:
        return "\n".join(paths)
    return "\n".join([*paths, "", f"(Showing {len(paths)} of {total} files. Use a narrower pattern or path.)"])


def _card_data(paths: list[str], total: int, limit: int) -> dict[str, Any]:
    """Return the data of the card, cut from the end to its limit; one path is always kept (HOST-225)."""
    room = limit - 64
    kept: list[str] = []
    for path in paths:
        room -= len(msgspec.json.encode(path)) + 1
        if room < 0 and kept:
            break
        kept.append(path)
    return {"paths": kept, "truncated": len(kept) < total, "total": total}


def _present_call(args: GlobArgs) -> GenericCall:
    path = args.get("path")
    title = f"Find {args['pattern']}" if path is None else f"Find {args['pattern']} in {path}"
    return GenericCall(title, kind="search", locations=None if path is None else (Location(path),))


def _present_result(args: GlobArgs, presented: PresentedResult) -> SearchPaths | None:
    meta = meta_of(presented, _Meta)
    return None if meta is None else SearchPaths(meta.paths, meta.truncated, meta.total)
