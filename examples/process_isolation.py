"""A tool that blocks for ever is killed at its limit, with everything that it has started.

python examples/process_isolation.py
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from dsh_tools import TOOL_STATE, ToolCall, ToolRunContext, standard, tool


@tool(isolation="process", timeout_ms=2_000)
def convert(path: str, run: ToolRunContext) -> str:
    """Convert a file, with a program that hangs.

    Args:
        path: the file.
    """
    run.progress(f"converting {path}")
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"], check=True)
    time.sleep(600)
    return "converted"


async def main() -> None:
    async with standard(tools={"process_grace_ms": 200}) as ctx:
        ctx.tools.register(convert)
        ctx.on(TOOL_STATE, lambda execution, status: print(f"{execution.name}: {status}"))
        result = await ctx.tools.execute(ToolCall("convert", {"path": "a.doc"}))
        print(result.content[0].text)


# The process imports this file, too: without this line it would run the program again.
if __name__ == "__main__":
    asyncio.run(main())
