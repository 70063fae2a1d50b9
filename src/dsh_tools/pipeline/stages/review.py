"""Stage 4: listeners look at the result and may replace, block or add to it (PIPE section P)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import UNSET

from ...content import content_text
from ...errors import ListenerError, LossyJsonError
from ...kernel.hooks import Listener, run_waterfall
from ...messages import UserMessage
from ...tools.blocks import checked_content, checked_contexts
from ...tools.events import POST_EXECUTE, Accept, Block, PostDecision, Review
from ...tools.result import (
    ErrorDetail,
    ToolFailure,
    ToolResult,
    ToolSuccess,
    failure,
    failure_from,
)
from ..cancellation import UNCONTAINED, NativeCancellation
from ..run import Run, abort_outcome
from ..watching import watched
from .body import visible_now
from .check_output import check_output
from .invoke import LOSSY_RESULT
from .snapshot import unknown_tool

__all__ = ["needs_review", "review"]

BLOCKED = "tool result blocked by post-execute policy"
BOTH = "tools/post-execute accept decision cannot replace both value and content"
NOT_ON_FAILURE = "tools/post-execute cannot replace the value of a failed result"


def needs_review(run: Run) -> bool:
    """Whether anything would look at this run's result; if not, the stage is skipped."""
    return run.next == "review" and bool(run.runner.bus.listeners(POST_EXECUTE, run.scope))


async def review(run: Run) -> None:
    """Let post-execute listeners decide about the run's result; on return the result is final."""
    result = run.result
    assert result is not None
    listeners = run.runner.bus.listeners(POST_EXECUTE, run.scope)
    if run.execution.state.trace is not None:
        listeners = watched(listeners, run.execution.state.trace, "reviewer")
    native = NativeCancellation.here()
    try:
        subject = Review(run.execution, result)
        decision: PostDecision = await native.attend(run_waterfall(listeners, subject, Accept, _check_decision))
        result = _apply(run, listeners[0].name, result, decision)
    except asyncio.CancelledError as error:
        if native.by_others:
            run.execution.state.cancelled = True
        else:
            result = failure_from(error)
    except LossyJsonError as error:
        result = failure(f"{LOSSY_RESULT}\n{error.message}")
    except UNCONTAINED:
        raise
    except BaseException as error:
        if native.closing:
            raise
        result = failure_from(error)
    if native.requested:
        if await native.take_own() and not result.is_error:
            result = failure("a listener of tools/post-execute cancelled the task that it ran in")
        run.execution.state.cancelled |= native.requested
    run.settle_with(abort_outcome(run, result), "finish")


def _check_decision(listener: Listener, decision: object) -> None:
    if not isinstance(decision, (Accept, Block)):
        what = f"expected Accept or Block, got {type(decision).__name__}"
        raise ListenerError(listener.name, POST_EXECUTE.name, what)


def _apply(run: Run, listener: str, result: ToolResult, decision: PostDecision) -> ToolResult:
    added = checked_contexts(decision.additional_contexts)
    if added is None:
        raise ListenerError(listener, POST_EXECUTE.name, "additional_contexts must be a list of UserMessage")
    if isinstance(decision, Block):
        return _block(listener, decision, added)
    if decision.value is not UNSET and decision.content is not UNSET:
        return failure(BOTH)
    if decision.value is not UNSET:
        outcome = _replace_value(run, result, decision.value)
        if outcome.is_error:
            return outcome
    elif decision.content is not UNSET:
        content = checked_content(decision.content)
        if content is None:
            raise ListenerError(listener, POST_EXECUTE.name, "content must be a list of content blocks")
        outcome = msgspec.structs.replace(result, content=content)
    else:
        outcome = result
    if added:
        outcome = msgspec.structs.replace(outcome, additional_contexts=(*(outcome.additional_contexts or ()), *added))
    return outcome


def _block(listener: str, decision: Block, added: tuple[UserMessage, ...]) -> ToolFailure:
    """A block keeps nothing of the result but what it brings itself (PIPE-163 to 165, 170)."""
    feedback = checked_content(decision.feedback)
    if feedback is None:
        raise ListenerError(listener, POST_EXECUTE.name, "feedback must be a list of content blocks")
    message = content_text(feedback) or BLOCKED
    return ToolFailure(ErrorDetail(message), feedback, additional_contexts=added or UNSET)


def _replace_value(run: Run, result: ToolResult, value: Any) -> ToolResult:
    """Check and render a replaced value by the definition visible now (PIPE-158, 160, 162)."""
    if not isinstance(result, ToolSuccess):
        return failure(NOT_ON_FAILURE)
    entry = visible_now(run)
    if entry is None:
        return unknown_tool(run)
    outcome = check_output(entry, run.execution, value)
    if outcome.is_error:
        return outcome
    return msgspec.structs.replace(
        outcome, additional_contexts=result.additional_contexts, concludes_turn=result.concludes_turn
    )
