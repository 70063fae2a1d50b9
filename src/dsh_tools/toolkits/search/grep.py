"""The tool ``grep``."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

from ...content import Content, text
from ...schema import compile_value
from ...tools import PresentedResult, ToolDefinition, ToolRunContext, define_tool
from ...tools.cards import FileMatches, GenericCall, Location, SearchMatches
from ..presented import meta_of
from .patterns import LinePattern
from .space import SearchSpace, read_include

__all__ = ["FoundMatches", "grep_tool", "matches_text"]

_DESCRIPTION = """\
Find lines that contain a regular expression, sorted by file. Files that .gitignore hides are left out, and binary \
ones; hidden ones are not.

The expression is looked for in each line by itself, by ripgrep's rules: no look-around, no back references, (?i) for \
any case. Escape what is meant as it stands: foo\\(."""


class GrepArgs(TypedDict):
    """What to look for, and where."""

    pattern: Annotated[str, "The regular expression."]
    path: NotRequired[Annotated[str, "The folder or file to search; by default the working folder."]]
    include: NotRequired[Annotated[str, "Search only files whose path matches this pattern: *.py, src/**/*.{ts,tsx}."]]


class Match(TypedDict):
    """A line that was found; ``lineNumber`` counts from 1."""

    path: str
    lineNumber: int
    line: str


class FoundMatches(TypedDict):
    """All lines that were found; each path is fit for other tools as it is."""

    matches: list[Match]


# Written out, because the value may hold very many lines: as JSON it needs no conversion on its way.
_OUTPUT = compile_value(
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "matches": {
                "type": "array",
                "required": True,
                "description": "All lines that were found; each path is fit for other tools as it is.",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "path": {"type": "string", "required": True},
                        "lineNumber": {"type": "integer", "required": True, "description": "Counts from 1."},
                        "line": {"type": "string", "required": True},
                    },
                },
            }
        },
    }
)


class _Meta(msgspec.Struct):
    files: tuple[FileMatches, ...]
    truncated: bool
    total: int


def grep_tool(space: SearchSpace) -> ToolDefinition:
    """Return ``grep`` (HOST-218 to 225)."""
    config = space.config

    async def execute(args: GrepArgs, run: ToolRunContext) -> FoundMatches:
        pattern = LinePattern(args["pattern"])
        given = args.get("include")
        include = None if given is None else read_include(given)
        async with space.folder(run, args.get("path"), file_allowed=True) as folder:
            found = await space.engine.search(folder, pattern, include, run.signal)
            matches = [
                Match(path=path, lineNumber=number, line=line)
                for relative, lines in found
                for path in (folder.shown + relative,)
                for number, line in lines
            ]
            return FoundMatches(matches=matches)

    def render(args: GrepArgs, value: FoundMatches) -> Content:
        return text(_page(value["matches"], config.max_matches, config.max_line_bytes))

    def meta(args: GrepArgs, value: FoundMatches) -> dict[str, Any]:
        return _card_data(value["matches"], config.max_matches, config.max_line_bytes, config.max_meta_bytes)

    return define_tool(
        name="grep",
        description=_DESCRIPTION,
        parameters=GrepArgs,
        output=_OUTPUT,
        execute=execute,
        render=render,
        presentation_meta=meta,
        timeout_ms=config.timeout_ms,
        present_call=_present_call,
        present_result=_present_result,
        idempotent=True,
    )


def matches_text(value: FoundMatches, max_line_bytes: int) -> str:
    """Return all lines, as they would be shown without a limit on their number."""
    return "\n".join(_lines(value["matches"], max_line_bytes))


def _page(matches: list[Match], limit: int, max_line_bytes: int) -> str:
    if not matches:
        return "No matches found"
    shown = matches[:limit]
    total = len(matches)
    files = len({match["path"] for match in matches})
    head = f"{total} {'match' if total == 1 else 'matches'} in {files} {'file' if files == 1 else 'files'}"
    lines = [head, *_lines(shown, max_line_bytes)]
    if len(shown) < total:
        lines += ["", f"(Showing {len(shown)} of {total} matches. Use a narrower pattern, path or include.)"]
    return "\n".join(lines)


def _lines(matches: list[Match], max_line_bytes: int) -> list[str]:
    lines: list[str] = []
    for path, group in groupby(matches, key=lambda match: match["path"]):
        lines.append(path)
        lines += [f"  {match['lineNumber']}: {_preview(match['line'], max_line_bytes)}" for match in group]
    return lines


def _preview(line: str, limit: int) -> str:
    if len(line) * 4 <= limit:
        return line
    data = line.encode("utf-8", "replace")
    if len(data) <= limit:
        return line
    return data[:limit].decode("utf-8", "ignore") + " (line truncated)"


def _card_data(matches: list[Match], limit: int, max_line_bytes: int, max_bytes: int) -> dict[str, Any]:
    """Return the data of the card, cut from the end to its limit; one file is always kept (HOST-225)."""
    room = max_bytes - 64
    kept = 0
    files: list[dict[str, Any]] = []
    for path, group in groupby(matches[:limit], key=lambda match: match["path"]):
        lines = [{"lineNumber": m["lineNumber"], "line": _preview(m["line"], max_line_bytes)} for m in group]
        data = {"path": path, "matches": lines}
        room -= len(msgspec.json.encode(data)) + 1
        if room < 0 and files:
            break
        files.append(data)
        kept += len(lines)
    return {"files": files, "truncated": kept < len(matches), "total": len(matches)}


def _present_call(args: GrepArgs) -> GenericCall:
    path, include = args.get("path"), args.get("include")
    where = [f" in {path}"] if path is not None else []
    where += [f" ({include})"] if include is not None else []
    title = f"Search {args['pattern']}" + "".join(where)
    return GenericCall(title, kind="search", locations=None if path is None else (Location(path),))


def _present_result(args: GrepArgs, presented: PresentedResult) -> SearchMatches | None:
    meta = meta_of(presented, _Meta)
    return None if meta is None else SearchMatches(meta.files, meta.truncated, meta.total)
