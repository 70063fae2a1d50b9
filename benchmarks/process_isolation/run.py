"""What does a body in a process of its own cost beside one in a thread or on the caller's task?

    make bench WHAT=process_isolation [ARGS="--rounds 10 --json out.json"]

Every row is a whole call through the pipeline. ``cold`` starts its process first; ``warm`` finds one that stands
ready, which is the usual case where calls come one by one. Both are single-use: each call has a process of its own,
and its result comes when nothing of that is left. ``kill`` is the time from the abort of a body that ignores every
request to its result, beyond the grace it is given. The best of the rounds counts, and the median is shown beside it.
There is no bar.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import bodies

from dsh_tools.kernel import AbortController, Context, create_context
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.tools import OutputSpec, ToolCall, ToolDefinition, ToolResult

GRACE_MS = 100.0
MEGABYTE = "x" * 1_000_000


@asynccontextmanager
async def app(spares: int) -> AsyncIterator[Context]:
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin(), {"spare_processes": spares, "process_grace_ms": GRACE_MS})
        for name, body, isolation in (
            ("task", bodies.echo_later, "task"),
            ("thread", bodies.echo, "thread"),
            ("process", bodies.echo, "process"),
            ("deaf", bodies.deaf, "process"),
        ):
            ctx.tools.register(
                ToolDefinition(
                    name=name, description="", parameters={"type": "object"}, output=OutputSpec({}),
                    execute=body, isolation=isolation,
                )
            )  # fmt: skip
        yield ctx


async def timed(ctx: Context, name: str, value: Any = 1) -> float:
    call = ToolCall(name, {"value": value})
    began = time.perf_counter()
    result: ToolResult = await ctx.tools.execute(call)
    took = time.perf_counter() - began
    assert not result.is_error, result
    return took * 1000


async def killed(ctx: Context) -> float:
    controller = AbortController()
    told: list[float] = []

    def stop(*_: object) -> None:
        told.append(time.perf_counter())
        controller.abort()

    remove = ctx.on("tools/progress", stop)
    await ctx.tools.execute(ToolCall("deaf", {}, signal=controller.signal))
    took = (time.perf_counter() - told[0]) * 1000 - GRACE_MS
    remove()
    return took


async def measure(rounds: int) -> dict[str, list[float]]:
    rows: dict[str, list[float]] = {}

    def keep(title: str, took: float) -> None:
        rows.setdefault(title, []).append(took)

    async with app(spares=0) as ctx:
        for _ in range(rounds):
            keep("on the caller's task", await timed(ctx, "task"))
            keep("in a thread", await timed(ctx, "thread"))
            keep("in a process, cold", await timed(ctx, "process"))
    async with app(spares=1) as ctx:
        await timed(ctx, "process")
        for _ in range(rounds):
            await asyncio.sleep(1.0)
            keep("in a process, warm", await timed(ctx, "process"))
            await asyncio.sleep(1.0)
            keep("in a process, warm, 1 MB both ways", await timed(ctx, "process", MEGABYTE))
            await asyncio.sleep(1.0)
            keep("kill, beyond the grace", await killed(ctx))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = asyncio.run(measure(options.rounds))
    print(f"{'':36} {'best':>10} {'median':>10}")
    for title, times in rows.items():
        print(f"{title:36} {min(times):7.2f} ms {statistics.median(times):7.2f} ms")
    if options.json is not None:
        options.json.write_text(json.dumps({title: sorted(times) for title, times in rows.items()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
