"""Field cases on results that are too long for a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.agents import LoggedAgent

from dsh_tools.content import content_text
from dsh_tools.kernel.context import create_context
from dsh_tools.pipeline.service import ToolsPlugin
from dsh_tools.services import LocalSpillPlugin, SpillPolicyPlugin
from dsh_tools.tools.definition import ToolDefinition
from dsh_tools.tools.execution import ToolCall
from dsh_tools.tools.result import ToolSuccess

CAP = 30_000


@pytest.mark.field("field-121")
@pytest.mark.parametrize("kind", ["text", "list"])
async def test_a_huge_result_is_bounded_in_one_place_and_can_be_fetched(no_leaks: None, tmp_path: Path, kind: str):
    value: Any = (
        "0123456789abcdef" * 327_680 if kind == "text" else [{"id": n, "name": f"n{n}"} for n in range(100_000)]
    )

    async def body(args: Any, run: Any) -> Any:
        return value

    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin())
        await ctx.plugin(LocalSpillPlugin(), {"root": tmp_path})
        await ctx.plugin(SpillPolicyPlugin(), {"max_inline_bytes": CAP})
        ctx.tools.register(
            ToolDefinition(
                name="huge",
                description="",
                parameters={"type": "object", "properties": {}},
                output={"schema": {}},
                execute=body,
            )
        )
        agent = LoggedAgent()
        result = await ctx.tools.execute(ToolCall("huge", "{}", agent=agent))
        assert isinstance(result, ToolSuccess)
        assert result.value == value, "hooks and programs get the value as it is"
        shown = content_text(result.content)
        assert len(shown.encode()) <= CAP
        head, rest = shown.split("\n[…]\n")
        tail, notice = rest.rsplit("\n\n", 1)
        if kind == "list":
            first, last = json.loads(head.rstrip(",") + "]"), json.loads("[" + tail)
            assert (first, last) == (value[: len(first)], value[-len(last) :])
        locator = notice.split("stored at: ")[1].split(". ")[0]
        page = await ctx.tools.execute(
            ToolCall("read_artifact", {"locator": locator, "offset": len(head)}, agent=agent)
        )
        assert isinstance(page, ToolSuccess)
        full = value if kind == "text" else json.dumps(value, indent=2)
        assert page.value["text"] == full[len(head) : len(head) + 16_000]
        assert page.value["totalBytes"] == len(full)
