"""Ours: from the model's JSON text to the final result through the whole pipeline.

Arguments and output are validated and frozen, and the result event fires.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from subject import Subject, json_text

from dsh_tools.kernel import Context, create_context
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.tools import EXECUTE, POST_EXECUTE, PRE_EXECUTE, TOOL_RESULT, ToolCall, tool


async def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: the first
        b: the second
    """
    return a + b


async def application() -> Context:
    context = create_context()
    await context.plugin(ToolsPlugin())
    context.tools.register(tool(add))
    return context


def calls_of(context: Context) -> Subject:
    tools = context.tools
    return Subject(lambda text: tools.execute(ToolCall(name="add", arguments=text, call_id="c1")), json_text)


async def bare() -> Subject:
    """One registered tool, no listeners."""
    return calls_of(await application())


async def with_listeners() -> Subject:
    """Five listeners on each event of a call."""
    context = await application()

    async def hand_on(_subject: Any, next: Callable[[], Awaitable[Any]]) -> Any:
        return await next()

    def observe(_execution: Any, _result: Any) -> None:
        return None

    for _ in range(5):
        for hook in (PRE_EXECUTE, EXECUTE, POST_EXECUTE):
            context.on(hook, hand_on)
        context.on(TOOL_RESULT, observe)
    return calls_of(context)


async def with_a_thousand_tools() -> Subject:
    """A thousand registered tools, of which one is called."""
    context = await application()
    for number in range(999):
        context.tools.register(tool(name=f"add_{number}")(add))
    return calls_of(context)


SUBJECTS: dict[str, Callable[[], Awaitable[Subject]]] = {
    "dsh-tools": bare,
    "dsh-tools, 5 listeners on each event": with_listeners,
    "dsh-tools, 1,000 registered tools": with_a_thousand_tools,
}
