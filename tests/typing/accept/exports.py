# also: mypy
"""What a package imports late has the types of what it imports."""

from __future__ import annotations

from typing import assert_type

import dsh_tools
from dsh_tools import ContentBlock, Context, RawSchema, TextBlock, standard, text
from dsh_tools.code_runtime import DenoRuntime, RuntimeConfig
from dsh_tools.content import TextBlock as SameBlock
from dsh_tools.model import AnthropicModel, ModelAdapter
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.schema import to_python

block: SameBlock = TextBlock("a")
assert_type(DenoRuntime(RuntimeConfig()), DenoRuntime)
assert_type(ToolsPlugin(), ToolsPlugin)
assert_type(dsh_tools.RawSchema({}), RawSchema)
assert_type(to_python({}), str)
assert_type(text("a"), tuple[ContentBlock, ...])


def adapter(model: AnthropicModel) -> ModelAdapter:
    return model


async def main() -> None:
    async with standard() as ctx:
        assert_type(ctx, Context)
