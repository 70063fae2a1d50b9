"""One step's tool calls: logged, run in a lane, committed in the model's order (HOST section 8).

Where a journal is kept, a call that waits for a person ends the batch without a result: what ran has its
result by then, the rest stays pending, and another turn goes on with it (D34).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import CallSuspended
from ..kernel.tasks import outlast
from ..pipeline import ABORTED_BEFORE_DISPATCH, CallLane, Slot
from ..session import DurableModelCall, Event, EventLog, record_call, record_result, record_skipped
from ..tools.execution import ToolCall
from ..tools.result import ToolResult, ToolSuccess
from .resume import PendingCall, journal_for

if TYPE_CHECKING:
    from ..kernel.abort import AbortSignal
    from .agent import Agent
    from .resumption import Resumption

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

    def skip(self) -> None:
        """Say of each call that was never begun that it was not."""
        for call in self.skipped:
            if call.event is None:
                record_skipped(self._log, call.block)
            else:
                record_result(self._log, call.block, call.event, ABORTED_BEFORE_DISPATCH)

    async def park(self) -> None:
        """Keep the arguments of calls that were suspended before their body began; a program's are in its journal."""
        for slot in self._called:
            run, durable = slot.run, slot.call.durable
            if run is not None and run.suspension is not None and not run.execution.state.body_ran:
                assert isinstance(durable, DurableModelCall)
                await durable.park(run.execution, run.entry)


async def run_batch(
    agent: Agent, calls: Sequence[PendingCall], signal: AbortSignal, resumption: Resumption | None = None
) -> bool:
    """Run the calls of one answer; every call ends with exactly one result (HOST-146 to 160).

    Contexts that results bring wait in the inbox for the next step, after all results (HOST-153).
    Calls that an abort kept from starting are logged as such, after those that ran (HOST-155, 156).

    Returns:
        Whether a call concluded the turn (HOST-164).

    Raises:
        CallSuspended: a call waits for a person; it and those after it stay pending. So do all that have not begun
            where this is the signal's reason.
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
        if resumption is not None and durable is not None:
            resumption.follow(durable)
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
        failed = _suspension(lane, batch, signal) is not None
        if not failed:
            raise
    except Exception:
        failed = True
        raise
    finally:
        if not failed and _suspension(lane, batch, signal) is None:
            batch.skip()
    suspension = _suspension(lane, batch, signal)
    if suspension is not None:
        await outlast(parking := asyncio.ensure_future(batch.park()))
        parking.result()
        raise suspension
    return batch.concludes


def _suspension(lane: CallLane[PendingCall], batch: _Batch, signal: AbortSignal) -> CallSuspended | None:
    """Why the batch ends without a result for each call, if it does."""
    if lane.suspended is not None:
        assert lane.suspended.run is not None
        return lane.suspended.run.suspension
    # Whoever stops the turn may leave what has not begun waiting.
    return signal.reason if batch.skipped and isinstance(signal.reason, CallSuspended) else None
