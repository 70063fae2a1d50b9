"""Applications with one toolkit, and callers with a session folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.calls import app, run, text_of

from dsh_tools.kernel import Context
from dsh_tools.kernel.scope import Scope
from dsh_tools.session.events import SessionHeader
from dsh_tools.session.log import EventLog
from dsh_tools.tools import ToolFailure, ToolResult, ToolSuccess


class SessionAgent:
    """A caller whose session has a working folder."""

    def __init__(self, cwd: Path | str, session: str = "s1") -> None:
        self.scope: Scope | None = None
        self.session = EventLog(SessionHeader(session, 0, cwd=str(cwd)))


@asynccontextmanager
async def mounted(plugin: Any, **config: Any) -> AsyncIterator[Context]:
    """An application with the registry and one toolkit."""
    async with app() as ctx:
        await ctx.plugin(plugin, config)
        yield ctx


async def value_of(ctx: Context, name: str, arguments: Any, **fields: Any) -> Any:
    """The value of a call that has to succeed."""
    result = await run(ctx, name, arguments, **fields)
    assert isinstance(result, ToolSuccess), text_of(result)
    return result.value


async def error_of(ctx: Context, name: str, arguments: Any, **fields: Any) -> tuple[str, str]:
    """Code and message of a call that has to fail."""
    result = await run(ctx, name, arguments, **fields)
    return failed(result)


def failed(result: ToolResult) -> tuple[str, str]:
    assert isinstance(result, ToolFailure), result
    return (result.error.info.code if result.error.info else ""), result.error.message
