"""One step's tool calls: logged, run in a lane, committed in the model's order (HOST section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..messages import ToolCallBlock
from ..pipeline import CallLane, Slot
from ..session import Event, EventLog, record_call, record_result, record_skipped
from ..tools.execution import ToolCall
from ..tools.result import ToolResult, ToolSuccess

if TYPE_CHECKING:
    from ..kernel.abort import AbortSignal
    from .agent import Agent

__all__ = ["run_batch"]


class _Batch:
    """Writes each call's two events, and notes what the calls leave for the turn."""

    def __init__(self, agent: Agent) -> None:
        self.concludes = False
        self.skipped: list[ToolCallBlock] = []
        self._agent = agent
        self._log: EventLog = agent.session
        self._called: dict[Slot[ToolCallBlock], Event] = {}

    def starting(self, slot: Slot[ToolCallBlock]) -> None:
        self._called[slot] = record_call(self._log, slot.tag)

    async def committed(self, slot: Slot[ToolCallBlock], result: ToolResult) -> None:
        record_result(self._log, slot.tag, self._called.pop(slot), result)
        for context in result.additional_contexts or ():
            self._agent.inbox.inject(context)
        if isinstance(result, ToolSuccess) and result.concludes_turn is True:
            self.concludes = True

    def abandoned(self, slot: Slot[ToolCallBlock]) -> None:
        self.skipped.append(slot.tag)


async def run_batch(agent: Agent, calls: Sequence[ToolCallBlock], signal: AbortSignal) -> bool:
    """Run the calls of one answer; every call ends with exactly one result (HOST-146 to 160).

    Contexts that results bring wait in the inbox for the next step, after all results (HOST-153).
    Calls that an abort kept from starting are logged as such, after those that ran (HOST-155, 156).

    Returns:
        Whether a call concluded the turn (HOST-164).

    Raises:
        asyncio.CancelledError: the awaiting task was cancelled; all calls have their result by then.
        Exception: the log or the pipeline itself failed; no result was invented (HOST-160).
    """
    batch = _Batch(agent)
    lane: CallLane[ToolCallBlock] = CallLane(
        agent.ctx.tools,
        batch,
        max_parallel=lambda: agent.config.max_parallel_tool_calls,
        signal=signal,
    )
    for call in calls:
        lane.submit(ToolCall(call.name, call.arguments, call_id=call.id, agent=agent, signal=signal), call)
    lane.close()
    failed = False
    try:
        await lane.run()
    except Exception:
        failed = True
        raise
    finally:
        if not failed:
            for call in batch.skipped:
                record_skipped(agent.session, call)
    return batch.concludes
