"""A call that a person has to allow, answered by a function. Run: python examples/ask_a_person.py"""

from __future__ import annotations

import asyncio

from dsh_tools import PRE_EXECUTE, Ask, ToolCall, standard, tool
from dsh_tools.services import ApprovalRequest


@tool
async def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def answer(request: ApprovalRequest) -> str:
    print(f"{request.tool_name} {dict(request.arguments)}: {request.reason}")
    return "allowed-once" if request.arguments["path"].endswith(".tmp") else "rejected"


async def main() -> None:
    async with standard() as ctx:
        ctx.tools.register(delete)
        ctx.on(PRE_EXECUTE, lambda execution, next: Ask("deleting cannot be undone"))
        ctx.approval.answer_with(answer)
        caller = ctx.create_scope("someone")
        for path in ("a.tmp", "thesis.docx"):
            result = await ctx.tools.execute(ToolCall("delete", {"path": path}, agent=caller))
            print(result.content[0].text)


asyncio.run(main())
