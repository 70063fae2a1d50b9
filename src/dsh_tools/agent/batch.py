"""One step's tool calls: logged, run in a lane, committed in the model's order (HOST section 8).

Where a journal is kept, a call that waits for a person ends the batch without a result: what ran has its
result by then, the rest stays pending, and another turn goes on with it (D34).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import CallSuspended
from ..pipeline import ABORTED_BEFORE_DISPATCH, CallLane, Slot
from ..session import DurableModelCall, Event, EventLog, record_call, record_result, record_skipped
from ..tools.execution import ToolCall
from ..tools.result import ToolResult, ToolSuccess
from .resume import PendingCall, journal_for

if TYPE_CHECKING:
    from ..kernel.abort import AbortSignal
    from .agent import Agent

__all__ = ["run_batch"]


class _Batch:
    """Writes each call's two events, and notes what the calls leave for the turn."""

    def __init__(self, agent: Agent) -> None:
        self.concludes = False
        self.skipped: list[PendingCall] = []
        self._agent = agent
        self._log: EventLog = agent.session
        self._called: dict[Slot[PendingCall], Event] = {}

    def starting(self, slot: Slot[PendingCall]) -> None:
        begun, durable = slot.tag.event, slot.call.durable
        event = record_call(self._log, slot.tag.block) if begun is None else begun
        if isinstance(durable, DurableModelCall):
            durable.starting(slot.tag.block.name, event.seq, is_resumed=begun is not None)
        self._called[slot] = event

    async def committed(self, slot: Slot[PendingCall], result: ToolResult) -> None:
        record_result(self._log, slot.tag.block, self._called.pop(slot), result)
        for context in result.additional_contexts or ():
            self._agent.inbox.inject(context)
        if isinstance(result, ToolSuccess) and result.concludes_turn is True:
            self.concludes = True

    def abandoned(self, slot: Slot[PendingCall]) -> None:
        self.skipped.append(slot.tag)


async def run_batch(agent: Agent, calls: Sequence[PendingCall], signal: AbortSignal) -> bool:
    """Run the calls of one answer; every call ends with exactly one result (HOST-146 to 160).

    Contexts that results bring wait in the inbox for the next step, after all results (HOST-153).
    Calls that an abort kept from starting are logged as such, after those that ran (HOST-155, 156).

    Returns:
        Whether a call concluded the turn (HOST-164).

    Raises:
        CallSuspended: a call waits for a person; it and those after it stay pending.
        asyncio.CancelledError: the awaiting task was cancelled; all calls have their result by then.
        Exception: the log or the pipeline itself failed; no result was invented (HOST-160).
    """
    batch = _Batch(agent)
    lane: CallLane[PendingCall] = CallLane(
        agent.ctx.tools,
        batch,
        max_parallel=lambda: agent.config.max_parallel_tool_calls,
        signal=signal,
    )
    keeper = journal_for(agent)
    for call in calls:
        if call.result is not None and call.event is not None:
            record_result(agent.session, call.block, call.event, call.result)
            continue
        block, parked = call.block, call.parked
        durable = None if keeper is None else keeper.new_call(agent.session, parked, call.run)
        # What was approved is what runs: the very arguments that were shown, not the model's text once more.
        arguments = block.arguments if parked is None else parked.arguments
        lane.submit(
            ToolCall(block.name, arguments, call_id=block.id, agent=agent, signal=signal, durable=durable), call
        )
    lane.close()
    failed = False
    try:
        await lane.run()
    except asyncio.CancelledError:
        # What was suspended before the cancellation came stays pending.
        failed = lane.suspended is not None
        if not failed:
            raise
    except Exception:
        failed = True
        raise
    finally:
        if not failed and lane.suspended is None:
            for call in batch.skipped:
                _record_skipped(agent.session, call)
    if lane.suspended is not None:
        raise await _park(lane.suspended)
    return batch.concludes


def _record_skipped(log: EventLog, call: PendingCall) -> None:
    if call.event is None:
        record_skipped(log, call.block)
    else:
        record_result(log, call.block, call.event, ABORTED_BEFORE_DISPATCH)


async def _park(slot: Slot[PendingCall]) -> CallSuspended:
    """Keep the arguments of a call that was suspended before its body began; a program's state is in its journal."""
    run = slot.run
    assert run is not None
    assert run.suspension is not None
    durable = slot.call.durable
    if isinstance(durable, DurableModelCall) and not run.execution.state.body_ran:
        await durable.park(run.execution, run.entry)
    return run.suspension
