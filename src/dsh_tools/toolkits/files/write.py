"""The tool ``write``."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from ...content import Content, text
from ...tools import PresentedResult, ToolDefinition, ToolRunContext, define_tool
from ...tools.cards import DiffCall, DiffResult, FileDiff, Location
from .change import write_text
from .diffs import change_meta, diffs_of
from .lines import split_lines
from .space import FileSpace

__all__ = ["write_tool"]

_DESCRIPTION = """\
Write a whole text file: a new one, or one that you have read before, which it replaces. Folders that are missing \
are made. The file keeps its encoding, its line ends and its mode. To change a part of a file use edit."""


class WriteArgs(TypedDict):
    """What to write, and where."""

    file_path: Annotated[str, "The file: relative to the working folder, or absolute."]
    content: Annotated[str, "All of the file's new text."]


class WrittenFile(TypedDict):
    """A file that was written; ``before`` is null where there was no text."""

    path: str
    operation: Literal["create", "update"]
    before: str | None
    after: str


def write_tool(space: FileSpace) -> ToolDefinition:
    """Return ``write`` over these folders (HOST-211)."""

    def execute(args: WriteArgs, run: ToolRunContext) -> WrittenFile:
        done = write_text(space, run, args["file_path"], args["content"])
        operation = "update" if done.existed else "create"
        return WrittenFile(path=done.path, operation=operation, before=done.before, after=done.after)

    return define_tool(
        name="write",
        description=_DESCRIPTION,
        parameters=WriteArgs,
        output=WrittenFile,
        execute=execute,
        isolation="thread",
        render=_render,
        presentation_meta=_meta,
        present_call=_present_call,
        present_result=_present_result,
    )


def _render(args: WriteArgs, value: WrittenFile) -> Content:
    count = len(split_lines(value["after"]))
    lines = f"{count} line" if count == 1 else f"{count} lines"
    return text(f"{'Created' if value['operation'] == 'create' else 'Updated'} {value['path']} ({lines})")


def _meta(args: WriteArgs, value: WrittenFile) -> dict[str, Any]:
    return change_meta(value["path"], value["before"], value["after"])


def _present_call(args: WriteArgs) -> DiffCall:
    path = args["file_path"]
    return DiffCall(f"Write {path}", (FileDiff(path, None, args["content"]),), (Location(path),))


def _present_result(args: WriteArgs, presented: PresentedResult) -> DiffResult | None:
    diffs = diffs_of(presented)
    return None if diffs is None else DiffResult(diffs or (FileDiff(args["file_path"], None, args["content"]),))
