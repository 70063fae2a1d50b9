"""The catalog of ready-made tools: every toolkit is started, and the registry asked what it registered.

What the page says is what a model would be told at run time, whatever the code that builds it looks like.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dsh_tools.kernel import Context, create_context
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.services import JobsPlugin, JobToolsPlugin, LocalSpillPlugin
from dsh_tools.toolkits.files import FilesPlugin
from dsh_tools.toolkits.search import SearchPlugin
from dsh_tools.toolkits.shell import ShellPlugin
from dsh_tools.toolkits.web import WebPlugin
from dsh_tools.tools import RegisteredTool

__all__ = ["BOOT", "CatalogError", "harvest", "tool_rows"]

Boot = Callable[[Context, str], Any]

BOOT: Mapping[str, Boot] = {
    "toolkits/files": lambda ctx, root: ctx.plugin(FilesPlugin(), {"root": root, "images": True}),
    "toolkits/search": lambda ctx, root: ctx.plugin(SearchPlugin(), {"root": root}),
    "toolkits/shell": lambda ctx, root: ctx.plugin(ShellPlugin(), {"cwd": root}),
    "toolkits/web": lambda ctx, root: ctx.plugin(WebPlugin(), {}),
    "services/jobs": lambda ctx, root: ctx.plugin(JobToolsPlugin(), {}),
    "services/spill": lambda ctx, root: ctx.plugin(LocalSpillPlugin(), {"root": root}),
}
"""How each package that brings tools is started."""

WITHOUT_TOOLS = {"adapters", "mcp", "processes"}
"""Toolkit folders that register nothing by themselves: they bring other parties' tools, or help the others."""


class CatalogError(Exception):
    """A package is not in the boot manifest, or registers nothing; the text names it."""


async def harvest(boot: Mapping[str, Boot], package: str) -> list[RegisteredTool]:
    """Start one package alone and return what it registered.

    Raises:
        CatalogError: it registered nothing, or a tool without an object for its parameters.
    """
    with tempfile.TemporaryDirectory() as root:
        async with create_context() as ctx:
            await ctx.plugin(ToolsPlugin())
            await ctx.plugin(JobsPlugin())
            await boot[package](ctx, root)
            entries = list(ctx.tools.view().entries.values())
    if not entries:
        raise CatalogError(f"{package} starts and registers nothing; what does it need that is not there?")
    for entry in entries:
        if entry.schema.parameters.get("type") != "object":
            raise CatalogError(f"{package}: the parameters of {entry.name} are no object")
    return entries


def check_manifest(folders: set[str]) -> None:
    """Raise unless every toolkit folder is in the manifest or known to bring no tools of its own."""
    missing = sorted(folders - {name.removeprefix("toolkits/") for name in BOOT} - WITHOUT_TOOLS)
    if missing:
        raise CatalogError(f"not in the boot manifest of scripts/tool_catalog.py: {', '.join(missing)}")


def tool_rows(source: Path) -> list[tuple[str, str, str, str, str]]:
    """Name, package, parameters, whether calls may overlap, and description of every ready-made tool."""
    check_manifest({path.parent.name for path in (source / "toolkits").glob("*/__init__.py")})
    rows: list[tuple[str, str, str, str, str]] = []
    for package in BOOT:
        for entry in asyncio.run(harvest(BOOT, package)):
            document: Any = entry.schema.parameters
            required = document.get("required", ())
            names = [f"`{name}`" + ("" if name in required else "?") for name in document.get("properties", {})]
            overlap = "parallel" if entry.definition.is_concurrency_safe is not None else "exclusive"
            summary = entry.schema.description.strip().split("\n")[0]
            rows.append((f"`{entry.name}`", package, ", ".join(names), overlap, summary))
    return rows
