"""What the tools that change a file have in common: look, check, write, remember."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..file_errors import FileTooLargeError, MissingFileError, NotRegularFileError, NotTextError
from .bytes_io import open_regular, read_all, version_of
from .editing import keep_line_ends
from .encodings import Encoding, decode, encode
from .space import FileSpace, check_abort
from .writing import create_file, replace_file

if TYPE_CHECKING:
    from ...tools import ToolRunContext
    from ..places import Place

__all__ = ["Written", "change_text", "write_text"]


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written.

    Parameters:
        path: the path as shown.
        existed: whether a file was there.
        before: its text; None where there was none.
        after: the text that is there now.
    """

    path: str
    existed: bool
    before: str | None
    after: str


def write_text(space: FileSpace, run: ToolRunContext, path: str, content: str) -> Written:
    """Write a whole file, new or not.

    Raises:
        FileError: it must not or cannot be written; nothing has changed.
    """
    check = partial(check_abort, run)
    if path.endswith("/"):
        raise NotRegularFileError(f"{path} names a folder; add the file's name")
    with space.locate(run, path, make_folders=True) as place, space.changing(place):
        place.require_writable()
        found = place.status()
        if found is None:
            space.observations.check_write(run.agent, place, None)
            data = _bytes(space, place, content, Encoding())
            create_file(place, data, check)
            before, after = None, content
        else:
            # Before anything is read: a folder or a device is refused here.
            old = read_all(place, check, space.config.max_change_bytes)
            before, encoding = _old_text(space, place, old)
            space.observations.check_write(run.agent, place, version_of(old))
            after = content if before is None else keep_line_ends(content, before)
            data = _bytes(space, place, after, encoding)
            replace_file(place, data, found, check)
        space.observations.note(run.agent, place.real, version_of(data))
        return Written(place.shown, found is not None, before, after)


def change_text(
    space: FileSpace, run: ToolRunContext, path: str, change: Callable[[str, str], str]
) -> tuple[str, str, str]:
    """Change the text of a file that is there.

    Parameters:
        change: ``(text, path as shown) -> new text``.

    Returns:
        The path as shown, the text before and the text after.

    Raises:
        FileError: it must not or cannot be changed; nothing has changed.
    """
    check = partial(check_abort, run)
    with space.locate(run, path) as place, space.changing(place):
        place.require_writable()
        try:
            with open_regular(place) as fd:
                found = os.fstat(fd)
            old = read_all(place, check, space.config.max_change_bytes)
        except MissingFileError:
            space.observations.note(run.agent, place.real, None)
            raise
        space.observations.check_edit(run.agent, place, version_of(old))
        before, encoding = decode(place.shown, old)
        after = change(before, place.shown)
        data = _bytes(space, place, after, encoding)
        replace_file(place, data, found, check)
        space.observations.note(run.agent, place.real, version_of(data))
        return place.shown, before, after


def _old_text(space: FileSpace, place: Place, data: bytes) -> tuple[str | None, Encoding]:
    try:
        return decode(place.shown, data)
    except NotTextError as error:
        # Where files must be read first, this one never can be: say what to do instead.
        if space.config.require_read:
            raise NotTextError(f"{error.message}; to put a text in its place, delete it first") from None
        return None, Encoding()


def _bytes(space: FileSpace, place: Place, text: str, encoding: Encoding) -> bytes:
    data = encode(place.shown, text, encoding)
    if len(data) > space.config.max_change_bytes:
        raise FileTooLargeError(
            f"{place.shown} would have {len(data)} bytes, more than {space.config.max_change_bytes}; write it in parts"
        )
    return data
