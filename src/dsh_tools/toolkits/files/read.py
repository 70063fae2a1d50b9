"""The tool ``read``."""

from __future__ import annotations

import os
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict

import msgspec
from pydantic import Field

from ...content import Content, text
from ...tools import PresentedResult, ToolDefinition, ToolRunContext, define_tool
from ...tools.cards import GenericCall, Location, ReadLine, ReadResult
from ..arguments import also_check
from ..file_errors import MissingFileError
from ..presented import meta_of
from .bytes_io import chunks_of, open_regular
from .encodings import Reader
from .languages import language_of
from .lines import Line, LineWindow
from .space import FileSpace, check_abort

if TYPE_CHECKING:
    from ..places import Place

__all__ = ["read_tool"]

_DESCRIPTION = """\
Read a text file. Lines come with their numbers, counted from 1, which are not part of the text.

Large files are read piece by piece with offset and limit. Images and other binary files are refused."""


class ReadArgs(TypedDict):
    """What to read."""

    file_path: Annotated[str, "The file: relative to the working folder, or absolute."]
    offset: NotRequired[Annotated[int, Field(ge=1), "The first line to read, counted from 1."]]
    limit: NotRequired[Annotated[int, Field(ge=1), "How many lines to read at most."]]


class FileLines(TypedDict):
    """A piece of a file: lines from ``offset`` on, and how many there are in all."""

    path: str
    offset: int
    lines: list[Line]
    totalLines: int


class _Meta(msgspec.Struct, rename="camel"):
    path: str
    offset: int
    lines: tuple[ReadLine, ...]
    total_lines: int
    lang: str | None = None


def read_tool(space: FileSpace) -> ToolDefinition:
    """Return ``read`` over these folders (HOST-206 to 210)."""
    limit = space.config.read_limit

    def execute(args: ReadArgs, run: ToolRunContext) -> FileLines:
        return _read(space, run, args["file_path"], args.get("offset", 1), args.get("limit", limit))

    def check(args: Any) -> list[str]:
        if args.get("limit", 1) > limit:
            return [f"limit must be at most {limit}; read the rest with offset in further calls"]
        return []

    definition = define_tool(
        name="read",
        description=_DESCRIPTION,
        parameters=ReadArgs,
        output=FileLines,
        execute=execute,
        isolation="thread",
        render=partial(_render, limit),
        presentation_meta=_meta,
        is_concurrency_safe=True,
        present_call=_present_call,
        present_result=_present_result,
        idempotent=True,
    )
    return also_check(definition, check)


def _read(space: FileSpace, run: ToolRunContext, path: str, offset: int, limit: int) -> FileLines:
    config = space.config
    window = LineWindow(offset, limit, config.read_max_line_length, config.read_max_bytes)
    with space.locate(run, path) as place:
        digest = blake2b(digest_size=16)
        try:
            with open_regular(place) as fd:
                _decode_into(window, place, fd, digest, run, config.read_stream_min_size)
        except MissingFileError:
            space.observations.note(run.agent, place.real, None)
            raise
        space.observations.note(run.agent, place.real, digest.digest())
        total = window.total
        if offset > max(total, 1):
            raise MissingFileError(f"{place.shown} has {total} lines; there is no line {offset}")
        return FileLines(path=place.shown, offset=offset, lines=window.lines, totalLines=total)


def _decode_into(window: LineWindow, place: Place, fd: int, digest: Any, run: ToolRunContext, whole_up_to: int) -> None:
    reader = Reader(place.shown, os.pread(fd, 64, 0))
    for piece in chunks_of(fd, lambda: check_abort(run), whole_up_to):
        digest.update(piece)
        window.feed(reader.feed(piece))
    window.feed(reader.feed(b"", final=True))
    window.finish()


def _render(limit: int, args: ReadArgs, value: FileLines) -> Content:
    lines, offset, total = value["lines"], value["offset"], value["totalLines"]
    body = [f"{line['number']}: {line['text']}" for line in lines]
    last = lines[-1]["number"] if lines else 0
    if last >= total:
        footer = f"(End of file, {total} lines in all)"
    elif len(lines) < min(args.get("limit", limit), limit):
        footer = f"(Cut at the size limit: lines {offset}-{last} of {total}. Go on with offset {last + 1}.)"
    else:
        footer = f"(Lines {offset}-{last} of {total}. Go on with offset {last + 1}.)"
    head = [f"<path>{value['path']}</path>", "<type>file</type>", "<content>"]
    return text("\n".join([*head, *body, footer, "</content>"]))


def _meta(args: ReadArgs, value: FileLines) -> dict[str, Any]:
    language = language_of(value["path"])
    return dict(value) if language is None else {**value, "lang": language}


def _present_call(args: ReadArgs) -> GenericCall:
    path, offset = args["file_path"], args.get("offset")
    title = f"Read {path}" if offset is None else f"Read {path} from line {offset}"
    return GenericCall(title, kind="read", locations=(Location(path, offset),))


def _present_result(args: ReadArgs, presented: PresentedResult) -> ReadResult | None:
    meta = meta_of(presented, _Meta)
    if meta is None:
        return None
    return ReadResult(
        meta.path, meta.offset, meta.lines, meta.total_lines, lang=meta.lang, content=presented.content or None
    )
