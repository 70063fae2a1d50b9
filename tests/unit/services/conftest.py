"""What tests of services share: a context with a registry, and a way to make tools quickly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from dsh_tools.kernel.context import Context, create_context
from dsh_tools.pipeline.service import ToolsPlugin
from dsh_tools.tools.definition import ToolDefinition


@pytest.fixture
async def app(no_leaks: None) -> AsyncIterator[Context]:
    """A root context with the tool service."""
    context = create_context()
    await context.plugin(ToolsPlugin())
    yield context
    await context.dispose()


@pytest.fixture
def register(app: Context) -> Callable[..., None]:
    """Register a tool with a given body: ``register(body, name="work", **fields)``."""

    def add(body: Callable[[Any, Any], Any], name: str = "work", **more: Any) -> None:
        app.tools.register(
            ToolDefinition(
                name=name,
                description="",
                parameters=more.pop("parameters", {"type": "object", "properties": {}}),
                output=more.pop("output", {"schema": {}}),
                execute=body,
                **more,
            )
        )

    return add
