"""A store of files, and the tool that pages through them (HOST-96)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pydantic

from ...errors import ToolError
from ...kernel.tasks import see_out
from .preview import utf8, utf8_text
from .read_tool import read_artifact_tool
from .records import ArtifactPage, SavedText, SpillOwner, SpillSource

if TYPE_CHECKING:
    from ...kernel.context import Context

__all__ = ["LocalSpillConfig", "LocalSpillPlugin", "LocalSpillStore"]

_T = TypeVar("_T")

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LOCATOR = re.compile(r"session-[0-9a-f]{12}/[0-9a-f]{12}-[A-Za-z0-9._%-]+")
_LONGEST_NAME = 120
_LONGEST_CHARACTER = 4


class LocalSpillConfig(pydantic.BaseModel):
    """Configuration of the local store.

    Parameters:
        root: the folder to keep texts in; by default a private temporary one of this process.
        read_tool: mount ``read_artifact``.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    root: Path | None = None
    read_tool: bool = True


class LocalSpillStore:
    """Keeps each text in a file of its own, which only this user may read.

    Parameters:
        root: the folder; None makes a private temporary one when the first text comes.
        hint: the sentence that tells a model how to read a text; ``{path}`` stands for its file.
    """

    def __init__(self, root: Path | None = None, hint: str = "It is the file {path}.") -> None:
        self._root = root
        self._hint = hint

    async def save_text(
        self, *, owner: SpillOwner, source: SpillSource, suggested_name: str, content: str
    ) -> SavedText:
        """Keep a text; see :class:`SpillStore`."""
        data = utf8(content)
        name = f"{secrets.token_hex(6)}-{_safe_name(suggested_name)}"
        locator = f"{_folder_of(owner.session_id)}/{name}"
        path = await _in_thread(lambda: self._write(locator, data))
        return SavedText(locator, len(data), self._hint.format(path=path))

    def _write(self, locator: str, data: bytes) -> Path:
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="dsh-tools-artifacts-"))
        path = self._root / locator
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return path

    async def read_text(self, *, owners: Iterable[SpillOwner], locator: str, offset: int, limit: int) -> ArtifactPage:
        """Return a piece of a text that one of the owners kept.

        Parameters:
            offset: where to begin, in bytes; moved on to the next character's beginning.
            limit: how many bytes at most; a whole character is given all the same.

        Raises:
            ToolError: there is no such text of theirs; nothing else is ever read.
        """
        folder = locator.partition("/")[0]
        if _LOCATOR.fullmatch(locator) is None or folder not in {_folder_of(owner.session_id) for owner in owners}:
            raise ToolError(f"unknown artifact {locator}", "UNKNOWN_ARTIFACT")
        root = self._root
        if root is None:
            raise ToolError(f"unknown artifact {locator}", "UNKNOWN_ARTIFACT")
        return await _in_thread(lambda: _read_page(root / locator, locator, offset, max(limit, _LONGEST_CHARACTER)))


def _read_page(path: Path, locator: str, offset: int, limit: int) -> ArtifactPage:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        raise ToolError(f"unknown artifact {locator}", "UNKNOWN_ARTIFACT") from None
    with os.fdopen(descriptor, "rb") as file:
        total = os.fstat(file.fileno()).st_size
        file.seek(min(offset, total))
        data = file.read(limit + _LONGEST_CHARACTER)
    start = 0
    while offset > 0 and start < min(_LONGEST_CHARACTER - 1, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    end = min(start + limit, len(data))
    while start < end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    begin = min(offset, total) + start
    after = begin + (end - start)
    return ArtifactPage(utf8_text(data[start:end]), begin, after if after < total else None, total)


class LocalSpillPlugin:
    """Provides ``ctx.spill`` with files."""

    name = "local-spill"
    Config = LocalSpillConfig

    def apply(self, ctx: Context, config: LocalSpillConfig) -> None:
        """Provide the store, and the tool where there is a registry."""
        hint = "Page through it with read_artifact." if config.read_tool else "It is the file {path}."
        store = LocalSpillStore(config.root, hint)
        ctx.provide("spill", store)
        if config.read_tool:
            ctx.plugin(_ReadTool(store))


class _ReadTool:
    name = "read-artifact"
    inject = ("tools",)

    def __init__(self, store: LocalSpillStore) -> None:
        self._store = store

    def apply(self, ctx: Context, config: object) -> None:
        ctx.tools.register(read_artifact_tool(self._store))


def _folder_of(session_id: str) -> str:
    return "session-" + hashlib.sha256(utf8(session_id)).hexdigest()[:12]


def _safe_name(name: str) -> str:
    """Escape a name so that it is one path component on every system."""
    safe = _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in utf8(found.group())), name)
    safe = safe[:_LONGEST_NAME]
    if not safe.strip("."):
        safe = safe.replace(".", "%2E") or "text"
    return safe


async def _in_thread(work: Callable[[], _T]) -> _T:
    """Run file work in a thread and wait for its end, also if cancelled meanwhile; then the cancellation goes on."""
    return await see_out(asyncio.ensure_future(asyncio.to_thread(work)))
