"""The tools ``delete`` and ``move``."""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from ...content import Content, text
from ...tools import ToolDefinition, ToolRunContext, define_tool
from ...tools.cards import GenericCall, Location
from ..file_errors import FileExistsHereError, FileIOError, MissingFileError, NotRegularFileError, file_error
from .bytes_io import chunks_of, open_regular
from .space import FileSpace, check_abort
from .writing import move_name

if TYPE_CHECKING:
    from ..places import Place

__all__ = ["delete_tool", "move_tool"]

_DELETE = """\
Delete a file. A symbolic link is deleted itself, not what it leads to. Folders are not deleted."""

_MOVE = """\
Move or rename a file or folder. Nothing may be at the destination; folders on the way to it are made."""


class DeleteArgs(TypedDict):
    """What to delete."""

    file_path: Annotated[str, "The file: relative to the working folder, or absolute."]


class Deleted(TypedDict):
    """A file that is gone."""

    path: str
    kind: Literal["file", "link"]


class MoveArgs(TypedDict):
    """What to move, and where to."""

    source: Annotated[str, "The file or folder to move."]
    destination: Annotated[str, "Its whole new path, the new name included."]


class Moved(TypedDict):
    """Both paths of what was moved."""

    source: str
    destination: str


def delete_tool(space: FileSpace) -> ToolDefinition:
    """Return ``delete`` over these folders."""

    def execute(args: DeleteArgs, run: ToolRunContext) -> Deleted:
        with space.locate(run, args["file_path"], follow=False) as place, space.changing(place):
            place.require_writable()
            found = _found(place)
            link = stat.S_ISLNK(found.st_mode)
            if not link:
                _require_unchanged(space, run, place)
            check_abort(run)
            try:
                os.unlink(place.name, dir_fd=place.fd)
            except OSError as error:
                raise file_error(error, place.shown) from error
            space.observations.note(run.agent, place.real, None)
            return Deleted(path=place.shown, kind="link" if link else "file")

    return define_tool(
        name="delete",
        description=_DELETE,
        parameters=DeleteArgs,
        output=Deleted,
        execute=execute,
        isolation="thread",
        render=_render_deleted,
        present_call=_present_delete,
    )


def move_tool(space: FileSpace) -> ToolDefinition:
    """Return ``move`` over these folders."""

    def execute(args: MoveArgs, run: ToolRunContext) -> Moved:
        with space.locate(run, args["source"], follow=False) as source:
            source.require_writable()
            found = _found(source, folders=True)
            if stat.S_ISREG(found.st_mode):
                _require_unchanged(space, run, source)
            with space.locate(run, args["destination"], follow=False, make_folders=True) as destination:
                destination.require_writable()
                check_abort(run)
                _move(source, destination)
                space.observations.moved(run.agent, source.real, destination.real)
                return Moved(source=source.shown, destination=destination.shown)

    return define_tool(
        name="move",
        description=_MOVE,
        parameters=MoveArgs,
        output=Moved,
        execute=execute,
        isolation="thread",
        render=_render_moved,
        present_call=_present_move,
    )


def _found(place: Place, *, folders: bool = False) -> os.stat_result:
    """Return what is at a place, if it may be deleted or moved.

    Raises:
        MissingFileError: nothing is there.
        NotRegularFileError: a folder, a pipe or a device is there.
    """
    found = place.status()
    if found is None:
        raise MissingFileError(f"{place.shown} does not exist")
    if place.name == ".":
        raise NotRegularFileError(f"{place.shown} is the folder that everything is in; it stays where it is")
    if stat.S_ISDIR(found.st_mode):
        if not folders:
            raise NotRegularFileError(f"{place.shown} is a folder; delete the files in it one by one")
    elif not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        raise NotRegularFileError(f"{place.shown} is not a regular file")
    return found


def _require_unchanged(space: FileSpace, run: ToolRunContext, place: Place) -> None:
    if not space.observations.has_seen(run.agent, place):
        return
    digest = blake2b(digest_size=16)
    with open_regular(place) as fd:
        for piece in chunks_of(fd, partial(check_abort, run)):
            digest.update(piece)
    space.observations.check_unchanged(run.agent, place, digest.digest())


def _move(source: Place, destination: Place) -> None:
    try:
        move_name(source, destination)
    except FileExistsError:
        raise FileExistsHereError(
            f"{destination.shown} exists; choose another name, or delete it first (name the whole new path)"
        ) from None
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise FileIOError(
                f"{source.shown} and {destination.shown} are on different disks; copy it with a shell command"
            ) from error
        if error.errno == errno.EINVAL:
            raise FileIOError(f"{source.shown} cannot be moved into itself") from error
        raise file_error(error, source.shown) from error


def _render_deleted(args: DeleteArgs, value: Deleted) -> Content:
    return text(f"Deleted {'the link ' if value['kind'] == 'link' else ''}{value['path']}")


def _render_moved(args: MoveArgs, value: Moved) -> Content:
    return text(f"Moved {value['source']} to {value['destination']}")


def _present_delete(args: DeleteArgs) -> GenericCall:
    path = args["file_path"]
    return GenericCall(f"Delete {path}", kind="delete", locations=(Location(path),))


def _present_move(args: MoveArgs) -> GenericCall:
    source, destination = args["source"], args["destination"]
    places = (Location(source), Location(destination))
    return GenericCall(f"Move {source} to {destination}", kind="move", locations=places)
