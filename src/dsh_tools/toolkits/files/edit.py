"""The tools ``edit`` and ``multi_edit``."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from pydantic import Field

from ...content import Content, text
from ...tools import PresentedResult, ToolDefinition, ToolRunContext, define_tool
from ...tools.cards import DiffCall, DiffResult, FileDiff, Location
from ..arguments import also_check
from ..file_errors import FileError
from .change import change_text
from .diffs import change_meta, diffs_of, hunks
from .editing import Replacement, fold, replace
from .lines import split_lines
from .space import FileSpace

__all__ = ["edit_tool", "multi_edit_tool"]

_RULES = """\
The text is matched exactly, spaces included, and must be there once; add lines around it until it is. Line numbers \
of read are not part of the text. Read the file first."""

_EDIT = f"Replace a piece of text in a file by another one. {_RULES}"

_MULTI_EDIT = f"""\
Make several replacements in one file, one after the other, each in what the ones before have left. All of them are \
made, or none. {_RULES}"""


class Change(TypedDict):
    """One replacement."""

    old_string: Annotated[str, "The text to replace."]
    new_string: Annotated[str, "The text to put in its place; empty to take it out."]
    replace_all: NotRequired[Annotated[bool, "Replace the text everywhere it is."]]


class EditArgs(TypedDict):
    """What to replace, and where."""

    file_path: Annotated[str, "The file: relative to the working folder, or absolute."]
    old_string: Annotated[str, "The text to replace."]
    new_string: Annotated[str, "The text to put in its place; empty to take it out."]
    replace_all: NotRequired[Annotated[bool, "Replace the text everywhere it is."]]


class MultiEditArgs(TypedDict):
    """What to replace, in order, and where."""

    file_path: Annotated[str, "The file: relative to the working folder, or absolute."]
    edits: Annotated[list[Change], Field(min_length=1), "The replacements, in order."]


class Edited(TypedDict):
    """A file whose text was changed."""

    path: str
    before: str
    after: str


def edit_tool(space: FileSpace) -> ToolDefinition:
    """Return ``edit`` over these folders (HOST-211)."""

    def execute(args: EditArgs, run: ToolRunContext) -> Edited:
        change = Replacement(args["old_string"], args["new_string"], args.get("replace_all", False))
        path, before, after = change_text(
            space, run, args["file_path"], lambda content, shown: replace(content, change, shown)
        )
        return Edited(path=path, before=before, after=after)

    definition = define_tool(
        name="edit",
        description=_EDIT,
        parameters=EditArgs,
        output=Edited,
        execute=execute,
        isolation="thread",
        render=_render,
        presentation_meta=_meta,
        present_call=_present_edit,
        present_result=_present_edited,
    )
    return also_check(definition, lambda args: _faults(args, ""))


def multi_edit_tool(space: FileSpace) -> ToolDefinition:
    """Return ``multi_edit`` over these folders."""

    def execute(args: MultiEditArgs, run: ToolRunContext) -> Edited:
        changes = [_replacement(change) for change in args["edits"]]
        path, before, after = change_text(
            space, run, args["file_path"], lambda content, shown: _replace_all(content, changes, shown)
        )
        return Edited(path=path, before=before, after=after)

    definition = define_tool(
        name="multi_edit",
        description=_MULTI_EDIT,
        parameters=MultiEditArgs,
        output=Edited,
        execute=execute,
        isolation="thread",
        render=_render,
        presentation_meta=_meta,
        present_call=_present_multi_edit,
        present_result=_present_multi_edited,
    )
    return also_check(definition, _multi_faults)


def _replacement(change: Change) -> Replacement:
    return Replacement(change["old_string"], change["new_string"], change.get("replace_all", False))


def _replace_all(content: str, changes: list[Replacement], shown: str) -> str:
    for number, change in enumerate(changes, 1):
        try:
            content = replace(content, change, shown)
        except FileError as error:
            message = f"edit {number} of {len(changes)}, none of which was made: {error.message}"
            raise type(error)(message) from None
    return content


def _faults(change: Any, at: str) -> list[str]:
    """Find what is wrong with a replacement beyond the schema, before anybody is asked (D25)."""
    if not change["old_string"]:
        return [f"{at}old_string must not be empty; use write for a new file"]
    if fold(change["old_string"]) == fold(change["new_string"]):
        return [f"{at}old_string and new_string are the same; there is nothing to change"]
    return []


def _multi_faults(args: Any) -> list[str]:
    return [fault for index, change in enumerate(args["edits"]) for fault in _faults(change, f"edits[{index}].")]


def _render(args: object, value: Edited) -> Content:
    added = removed = 0
    for old, new in hunks(value["before"], value["after"]):
        removed += len(split_lines(old or ""))
        added += len(split_lines(new))
    common = min(added, removed)
    return text(f"Edited {value['path']} ({_counted(added - common, removed - common, common)})")


def _counted(more: int, fewer: int, common: int) -> str:
    if more:
        return f"{more} more lines" if more > 1 else "one more line"
    if fewer:
        return f"{fewer} fewer lines" if fewer > 1 else "one line fewer"
    return "as many lines as before"


def _meta(args: object, value: Edited) -> dict[str, Any]:
    return change_meta(value["path"], value["before"], value["after"])


def _present_edit(args: EditArgs) -> DiffCall:
    path = args["file_path"]
    return DiffCall(f"Edit {path}", (FileDiff(path, args["old_string"], args["new_string"]),), (Location(path),))


def _present_multi_edit(args: MultiEditArgs) -> DiffCall:
    path = args["file_path"]
    diffs = tuple(FileDiff(path, change["old_string"], change["new_string"]) for change in args["edits"])
    return DiffCall(f"Edit {path}", diffs, (Location(path),))


def _present_edited(args: EditArgs, presented: PresentedResult) -> DiffResult | None:
    return _presented(presented, _present_edit(args))


def _present_multi_edited(args: MultiEditArgs, presented: PresentedResult) -> DiffResult | None:
    return _presented(presented, _present_multi_edit(args))


def _presented(presented: PresentedResult, pending: DiffCall) -> DiffResult | None:
    diffs = diffs_of(presented)
    return None if diffs is None else DiffResult(diffs or pending.diffs)
