"""One call of a client, on its way through the pipeline: its questions, its progress, its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ....json_value import to_json_text
from ....kernel import AbortController, Scope
from ....services import ApprovalAnswer, ApprovalRequest
from ....tools import ToolCall, ToolResult

if TYPE_CHECKING:
    from ....kernel import Context

__all__ = ["LiveCall", "Question", "question_text"]

_SHOWN = 2000


class Question:
    """Something a person has to decide before the call goes on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.answer: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()

    def settle(self, answer: ApprovalAnswer) -> None:
        """Give the answer; only the first counts."""
        if not self.answer.done():
            self.answer.set_result(answer)


class LiveCall:
    """A running call; also the caller that the pipeline and its policies see.

    Parameters:
        context: whose tools are called; its scope is the caller's.
        name: the tool.
        arguments: as the client sent them.
        call_id: unique in this process.
    """

    def __init__(self, context: Context, name: str, arguments: Any, call_id: str) -> None:
        self.name = name
        self.arguments = arguments
        self.call_id = call_id
        self.scope: Scope | None = context.scope
        self._controller = AbortController()
        self._questions: asyncio.Queue[Question] = asyncio.Queue()
        call = ToolCall(name, arguments, call_id=call_id, agent=self, signal=self._controller.signal)
        self._task: asyncio.Task[ToolResult] = asyncio.create_task(context.tools.execute(call), name=f"call {name}")

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Put a question to the client and wait for the answer."""
        question = Question(question_text(request))
        self._questions.put_nowait(question)
        return await question.answer

    async def next_question(self) -> Question | None:
        """Wait for the next question, or for the end of the call: then None."""
        asked = asyncio.ensure_future(self._questions.get())
        try:
            await asyncio.wait({asked, self._task}, return_when=asyncio.FIRST_COMPLETED)
            return None if self._task.done() else asked.result()
        finally:
            asked.cancel()

    @property
    def result(self) -> ToolResult:
        """What the call ended in."""
        return self._task.result()

    def abort(self, reason: str) -> None:
        """Tell the call to stop."""
        self._controller.abort(reason)

    async def finished(self) -> None:
        """Wait until the call has settled."""
        await asyncio.wait({self._task})


def question_text(request: ApprovalRequest) -> str:
    """Say what is to be decided: the tool, why, and what it would run with."""
    reason = f": {request.reason}" if request.reason else ""
    arguments = "" if request.arguments is UNSET else to_json_text(request.arguments, indent=2)
    if len(arguments) > _SHOWN:
        arguments = arguments[:_SHOWN] + f"\n… ({len(arguments)} characters in all)"
    return f'Allow the tool "{request.tool_name}" to run{reason}?\n{arguments}'.rstrip()
