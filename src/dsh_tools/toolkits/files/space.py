"""What the file tools share: their folders, limits and memory of what was seen."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pydantic

from ..file_errors import FilesAbortedError
from ..places import Place, locate
from ..workspace import Workspace, WorkspaceConfig
from .observations import Observations

if TYPE_CHECKING:
    from ...tools.execution import ToolRunContext

__all__ = ["FileSpace", "FilesConfig", "check_abort"]


_LOCKS = 64


class FilesConfig(WorkspaceConfig):
    """Configuration of the file tools.

    Parameters:
        read_limit: how many lines one ``read`` returns, by default and at most.
        read_max_line_length: how many characters of a line are shown.
        read_max_bytes: how many bytes of lines one ``read`` returns.
        read_stream_min_size: files from this size on, in bytes, are read in pieces.
        max_change_bytes: how large a file may be that is written or edited.
        require_read: refuse to change files that the caller has not read, or that have changed since.
        read_only: offer ``read`` only.
        images: offer ``read_image``, for models that take images.
        max_image_bytes: how large an image may be.
    """

    read_limit: int = pydantic.Field(default=2000, ge=1, strict=True)
    read_max_line_length: int = pydantic.Field(default=2000, ge=1, strict=True)
    read_max_bytes: int = pydantic.Field(default=51_200, ge=1, strict=True)
    read_stream_min_size: int = pydantic.Field(default=10_485_760, ge=1, strict=True)
    max_change_bytes: int = pydantic.Field(default=2_097_152, ge=1, strict=True)
    require_read: bool = True
    read_only: bool = False
    images: bool = False
    max_image_bytes: int = pydantic.Field(default=5_242_880, ge=1, strict=True)


class FileSpace:
    """The state behind one mounted set of file tools.

    Raises:
        ConfigError: a configured folder does not exist.
    """

    def __init__(self, config: FilesConfig) -> None:
        self.config = config
        self.workspace = Workspace(config)
        self.observations = Observations(config.require_read)
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def changing(self, place: Place) -> threading.Lock:
        """Return what one change of a file holds from looking to writing, so that two never overlap here."""
        return self._locks[hash(place.real) % _LOCKS]

    def locate(self, run: ToolRunContext, path: str, *, follow: bool = True, make_folders: bool = False) -> Place:
        """Walk to a path of a call; see :func:`locate`."""
        workspace = self.workspace
        return locate(
            workspace.roots(run.agent), workspace.base(run.agent), path, follow=follow, make_folders=make_folders
        )


def check_abort(run: ToolRunContext) -> None:
    """Raise where the caller has given up.

    Raises:
        FilesAbortedError: it has.
    """
    if run.signal.aborted:
        raise FilesAbortedError("the call was aborted; nothing was changed")
