"""One step: a request to the model, and the tool calls it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import AbortError, CallSuspended
from ..kernel.abort import AbortSignal
from ..messages import AssistantMessage
from ..model import AnswerCollector, Finish, ModelFailure, ModelRequest, Retrying
from ..session import checkpoint
from ..session.events import AssistantMessageRecord, ModelRetry
from .batch import run_batch
from .hooks import MODEL_EVENT
from .prompt import build_request
from .resume import PendingCall
from .resumption import Resumption

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["ModelRequestError", "StepOutcome", "run_pending", "run_step"]


class ModelRequestError(Exception):
    """The model could not be asked; carries why."""

    def __init__(self, failure: ModelFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


_NO_END = ModelFailure("CONNECTION_FAILED", "the model's answer broke off: its stream ended without an end")


class StepOutcome:
    """How a step ended: whether the model wants another one, and why it stopped writing."""

    __slots__ = ("called", "concluded", "finish", "message")

    def __init__(self, message: AssistantMessage | None, finish: str) -> None:
        self.message = message
        self.finish = finish
        self.called = False
        self.concluded = False


async def run_step(agent: Agent, turn: int, step: int, signal: AbortSignal) -> StepOutcome:
    """Claim what waits, ask the model, record its answer, run its calls.

    Raises:
        ModelRequestError: the request failed for good; what was visible of the answer is recorded.
        AbortError: the signal fired before the request.
        CallSuspended: a call waits for a person.
        SessionError: the log could not be kept.
    """
    for message in agent.inbox.claim(turn_boundary=step == 1):
        agent.append_user_message(message)
    request = await build_request(agent, signal)
    await checkpoint(agent.session, signal)
    answer = await _ask(agent, request, turn, step, signal)
    outcome = _record(agent, answer, turn, step)
    if not isinstance(answer.end, Finish):
        raise ModelRequestError(_NO_END if answer.end is None else answer.end.failure)
    if outcome.message is not None:
        # Also after an abort: each call that is in the log gets its result, even if none starts (HOST-156).
        calls = outcome.message.tool_calls
        if calls:
            outcome.called = True
            outcome.concluded = await run_batch(agent, [PendingCall(call) for call in calls], signal)
    return outcome


async def run_pending(agent: Agent, resumption: Resumption, signal: AbortSignal) -> StepOutcome:
    """Run the calls that an earlier turn left pending; a step without a request to the model (D34).

    Raises:
        CallSuspended: a call waits for a person, again or now; or the turn was stopped before any of them ran.
        SessionError: the log could not be kept.
    """
    try:
        await checkpoint(agent.session, signal)
    except AbortError as error:
        raise CallSuspended from error
    resumption.begin()
    outcome = StepOutcome(None, "tool-calls")
    outcome.called = True
    outcome.concluded = await run_batch(agent, resumption.calls, signal, resumption)
    resumption.end()
    return outcome


async def _ask(agent: Agent, request: ModelRequest, turn: int, step: int, signal: AbortSignal) -> AnswerCollector:
    """Read the model's stream to its end, telling observers of every piece as it comes."""
    answer = AnswerCollector()
    stream = agent.model.stream(request, signal)
    try:
        async for event in stream:
            answer.feed(event)
            agent.ctx.bus.emit(MODEL_EVENT, agent, event, scope=agent.scope)
            if isinstance(event, Retrying):
                failure = event.failure
                delay = round(event.delay * 1000)
                retry = ModelRetry(turn, step, event.attempt, delay, failure.code, failure.message)
                agent.session.append(ModelRetry.event_type, retry)
    finally:
        await stream.aclose()
    return answer


def _record(agent: Agent, answer: AnswerCollector, turn: int, step: int) -> StepOutcome:
    message = answer.message()
    end = answer.end
    finish = end.reason if isinstance(end, Finish) else "failed"
    if message is not None:
        if isinstance(end, Finish):
            record = AssistantMessageRecord(turn, step, message, end.reason, end.usage)
        else:
            record = AssistantMessageRecord(turn, step, message)
        agent.session.append(AssistantMessageRecord.event_type, record, "append", ())
    return StepOutcome(message, finish)
