"""``dsh-tools sdk``: what a model is told about tools in programs."""

from __future__ import annotations

import typer

from ..code_mode import render_section
from .config import CommandConfig
from .run_code import NO_STORE, Language, LanguageOption
from .runtime import ConfigOption, open_app, run_verb
from .tool_sources import ToolsOption, mount_tools

__all__ = ["sdk"]


def sdk(language: LanguageOption = None, tools: ToolsOption = None, config: ConfigOption = None) -> None:
    """Print the prompt section that declares the tools for programs. Needs no runtime."""

    async def work(settings: CommandConfig) -> int:
        configured = Language.TYPESCRIPT if settings.code is None else Language(settings.code.language)
        native = settings.tools.model_copy(update={"mode": "native"})
        changes = {"tools": native, "code": None, "sessions": NO_STORE}
        async with open_app(settings.model_copy(update=changes)) as ctx:
            await mount_tools(ctx, tools)
            typer.echo(render_section(language or configured, ctx.tools.view().entries.values()))
        return 0

    run_verb(work, config)
