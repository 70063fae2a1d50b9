"""Which folders the file and search tools may use, and the one that relative paths start from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pydantic
from msgspec import UNSET

from ..errors import ConfigError
from ..services.agents import session_of
from ..session.events import SessionHeader

if TYPE_CHECKING:
    from ..tools.execution import AgentLike

__all__ = ["Root", "Workspace", "WorkspaceConfig", "session_folder"]


class WorkspaceConfig(pydantic.BaseModel):
    """Settings that file and search tools have in common.

    Parameters:
        root: the folder that paths are relative to and that they cannot leave. Without it that is the folder
            of the agent's session, or the process's working folder for calls without one (HOST-213).
        extra_roots: further folders that paths may be in.
        read_only_roots: further folders that may be read but not changed.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    root: str | None = None
    extra_roots: list[str] = pydantic.Field(default_factory=list[str])
    read_only_roots: list[str] = pydantic.Field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that paths cannot leave.

    Parameters:
        real: its path without symbolic links.
        spelled: its path as it was given; models use both.
        writable: whether anything below it may be changed.
    """

    real: str
    spelled: str
    writable: bool = True

    def rest_of(self, path: str) -> str | None:
        """Return what follows this root in an absolute path, None where the path is elsewhere."""
        for start in (self.real, self.spelled):
            if path == start:
                return ""
            inside = start if start.endswith("/") else start + "/"
            if path.startswith(inside):
                return path[len(inside) :]
        return None


class Workspace:
    """The folders of one plugin.

    Raises:
        ConfigError: a configured folder does not exist.
    """

    def __init__(self, config: WorkspaceConfig) -> None:
        self._start = os.getcwd()
        self._root = None if config.root is None else _root(config.root, self._start)
        self._more = [_root(folder, self._start) for folder in config.extra_roots]
        self._more += [_root(folder, self._start, writable=False) for folder in config.read_only_roots]

    def base(self, agent: AgentLike | None) -> str:
        """Return the absolute folder that relative paths of a caller start from (HOST-213)."""
        folder = session_folder(agent)
        if folder is None:
            return self._start if self._root is None else self._root.real
        start = self._start if self._root is None else self._root.real
        return os.path.realpath(os.path.join(start, folder))

    def roots(self, agent: AgentLike | None) -> Sequence[Root]:
        """Return the folders that a caller's paths may be in."""
        if self._root is not None:
            return (self._root, *self._more)
        base = self.base(agent)
        return (Root(base, session_folder(agent) or base), *self._more)


def session_folder(agent: AgentLike | None) -> str | None:
    """Return the working folder of the agent's session, if it has one."""
    header: object = None if agent is None else getattr(session_of(agent), "header", None)
    folder = header.cwd if isinstance(header, SessionHeader) else UNSET
    return folder or None


def _root(folder: str, start: str, *, writable: bool = True) -> Root:
    spelled = os.path.normpath(os.path.join(start, os.path.expanduser(folder)))
    if not os.path.isdir(spelled):
        raise ConfigError(f"the folder {folder} does not exist")
    return Root(os.path.realpath(spelled), spelled, writable)
