"""The live view says of a call that it is told to stop, and how it then did."""

from __future__ import annotations

import asyncio
import io
import re
from typing import Any

from tests.support.calls import app, make_tool, run

from dsh_tools.kernel import AbortController
from dsh_tools.terminal import LiveView, make_console


async def test_stopping_and_stopped_are_printed(no_leaks: None) -> None:
    out = io.StringIO()

    async def stubborn(args: Any, run: Any) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "late"

    async def quick(args: Any, run: Any) -> str:
        return "ok"

    async with app() as ctx:
        await ctx.plugin(LiveView(make_console(out, width=200)))
        ctx.tools.register(make_tool("quick", quick))
        ctx.tools.register(make_tool("stubborn", stubborn))
        await run(ctx, "quick")
        assert "stop" not in out.getvalue()
        controller = AbortController()
        asyncio.get_running_loop().call_later(0.02, controller.abort)
        await run(ctx, "stubborn", signal=controller.signal)
    printed = out.getvalue()
    told = printed.index("stubborn is told to stop")
    how = "it ran to its end, and its late value was dropped"
    stopped = re.search(rf"stubborn has stopped after \d+\.\d s; {how}", printed)
    assert stopped is not None
    assert told < stopped.start() < printed.rindex("tool call aborted")
