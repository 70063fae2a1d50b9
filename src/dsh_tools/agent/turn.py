"""One turn: steps until the model has nothing more to do (HOST-124, 144 to 169)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ..errors import AbortError, CallSuspended, HarnessError, describe_exception
from ..kernel.abort import AbortSignal
from ..session import EventLog, repair_drafts
from ..session.events import (
    Aborted,
    Completed,
    Failed,
    MaxTokens,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    Waiting,
)
from .resume import close_questions
from .resumption import Resumption
from .step import ModelRequestError, run_pending, run_step

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["run_turn"]

_log = logging.getLogger("dsh_tools")


async def run_turn(agent: Agent, signal: AbortSignal, resumption: Resumption | None = None) -> TurnEndReason:
    """Run one turn to its end and return why it ended; the reason is in the log, too.

    A turn that ends as waiting is durable when this returns: whatever holds it may go away.

    Parameters:
        resumption: what an earlier turn left pending; its calls are the first step. While they have not been looked
            at, the turn ends as waiting whatever ends it.

    Raises:
        asyncio.CancelledError: the awaiting task was cancelled; the turn has been ended in the log.
    """
    log = agent.session
    turn = log.last_turn + 1
    log.append(TurnStart.event_type, TurnStart(turn))
    reason: TurnEndReason = Aborted("user")
    try:
        reason = await _run_steps(agent, turn, signal, resumption)
    except CallSuspended:
        reason = Waiting() if resumption is None else resumption.reason
    except AbortError:
        reason = agent.abort_reason(signal)
    except ModelRequestError as error:
        reason = Failed(error.failure.message, error.failure.code)
    except asyncio.CancelledError:
        reason = agent.abort_reason(signal)
        raise
    except Exception as error:
        _log.exception("turn %d of session %s failed", turn, log.id)
        _close_open_calls(log, resumption)
        reason = Failed(describe_exception(error), error.code if isinstance(error, HarnessError) else "INTERNAL")
    except BaseException as error:
        # An adapter that calls sys.exit(), or whose native part panics: it goes on, but the log is in order.
        _close_open_calls(log, resumption)
        reason = Failed(describe_exception(error), "INTERNAL")
        raise
    finally:
        if resumption is not None:
            if resumption.waits:
                reason = resumption.reason
            elif not isinstance(reason, Waiting):
                close_questions(agent)
        log.append(TurnEnd.event_type, TurnEnd(turn, reason))
    if isinstance(reason, Waiting):
        await log.flush()
    return reason


async def _run_steps(agent: Agent, turn: int, signal: AbortSignal, resumption: Resumption | None) -> TurnEndReason:
    log = agent.session
    end: TurnEndReason = Completed()
    for step in range(1, agent.config.max_steps + 1):
        log.append(StepStart.event_type, StepStart(turn, step))
        try:
            if resumption is not None and step == 1:
                outcome = await run_pending(agent, resumption, signal)
            else:
                outcome = await run_step(agent, turn, step, signal)
        except (AbortError, CallSuspended, ModelRequestError, asyncio.CancelledError):
            log.append(StepEnd.event_type, StepEnd(turn, step))
            raise
        log.append(StepEnd.event_type, StepEnd(turn, step))
        if signal.aborted or outcome.finish == "aborted":
            return agent.abort_reason(signal)
        if outcome.finish == "max-tokens":
            end = MaxTokens()
        goes_on = outcome.called and not outcome.concluded
        if not goes_on and not agent.inbox.waiting("next-step"):
            return end
    return Failed(f"the turn did not end within {agent.config.max_steps} steps", "STEP_LIMIT")


def _close_open_calls(log: EventLog, resumption: Resumption | None) -> None:
    """Close what an internal failure left open, as a repair after a crash would: a call whose outcome
    nobody knows says so, and the history stays one that a model can be asked with (HOST-128, 160).

    Calls that wait on, because they have not been looked at, are none of them.
    """
    waits = resumption is not None and resumption.waits
    for draft in repair_drafts(log.events):
        if waits and draft.type != StepEnd.event_type:
            continue
        if draft.type != TurnEnd.event_type:
            log.append_draft(draft)
