"""``dsh-tools tools``: which tools there are."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ..json_value import to_json_text
from ..terminal import make_console, plain
from .config import CommandConfig
from .runtime import ConfigOption, open_app, run_verb

__all__ = ["tools"]

NO_TOOLS = """\
No tools are registered. Plugins bring them; name some in dsh.yaml:

plugins:
  - dsh_tools.toolkits.files:FilesPlugin"""


def tools(
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the wire schemas as JSON.")] = False,
) -> None:
    """List the registered tools."""

    async def work(settings: CommandConfig) -> int:
        async with open_app(settings) as ctx:
            schemas = sorted(ctx.tools.schemas(), key=lambda schema: schema.name)
            if as_json:
                documents = [
                    {"name": schema.name, "description": schema.description, "parameters": schema.parameters}
                    for schema in schemas
                ]
                typer.echo(to_json_text(documents, indent=2))
                return 0
            table = Table(box=None, pad_edge=False, header_style="dim")
            for heading in ("name", "parameters", "from", "description"):
                table.add_column(heading)
            for schema in schemas:
                entry = ctx.tools.view().entries[schema.name]
                summary = schema.description.strip().split("\n")[0]
                table.add_row(
                    Text(plain(schema.name), "bold"),
                    Text(_parameters(schema.parameters)),
                    Text(plain(entry.owner or "")),
                    Text(plain(summary)),
                )
            console = make_console()
            console.print(table if schemas else Text(NO_TOOLS))
        return 0

    run_verb(work, config)


def _parameters(document: dict[str, Any]) -> str:
    properties: dict[str, Any] = document.get("properties", {})
    required: list[str] = document.get("required", [])
    return ", ".join(plain(name) if name in required else f"{plain(name)}?" for name in properties)
