"""Going on with a turn that waits for a person, in the process that had it or another one (D34)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..code_mode import program_facts, schema_digest
from ..errors import HarnessError, SessionError
from ..json_value import parse_json
from ..messages import ToolCallBlock
from ..pipeline import ABORTED_BEFORE_DISPATCH
from ..session import (
    RESUME_REFUSED,
    TOOL_OUTCOME_UNKNOWN,
    Event,
    JournalRun,
    JournalService,
    OpenCall,
    OpenEnd,
    ParkedCall,
    dispatches_since,
    record_call,
    record_dispatch,
    record_result,
)
from ..session.events import Aborted, ApprovalAsked, ApprovalDecided, StepEnd, StepStart, TurnEnd, TurnStart
from ..tools.registry import RESERVED_NAME
from ..tools.result import ErrorInfo, ToolFailure, failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..code_runtime import CodeRuntime
    from .agent import Agent

__all__ = ["PendingCall", "close_questions", "discard", "journal_for", "pending_calls"]

_UNKNOWN = failure(
    "the process ended while this tool call ran; its outcome is unknown, "
    "so check what it did before calling the tool again",
    ErrorInfo("ToolOutcomeUnknownError", TOOL_OUTCOME_UNKNOWN),
)
_DISCARDED = failure("the call waited for a person and was given up", ErrorInfo("AbortError", "ABORTED"))


class PendingCall(msgspec.Struct, frozen=True):
    """A call of a batch: a new one, or one that an earlier turn left pending.

    Parameters:
        block: the call as the model wrote it.
        event: its ``tool/call`` event, where it has begun already.
        parked: its frozen arguments, where it was suspended before its body began.
        run: what is kept of its program, where it has begun one.
        result: what it ends in without being run.
    """

    block: ToolCallBlock
    event: Event | None = None
    parked: ParkedCall | None = None
    run: JournalRun | None = None
    result: ToolFailure | None = None


def journal_for(agent: Agent) -> JournalService | None:
    """Return who keeps the state of this agent's calls, if anybody does."""
    service = cast("JournalService | None", agent.ctx.get("journal"))
    return service if service is not None and service.keeps(agent.session) else None


async def pending_calls(agent: Agent) -> list[PendingCall]:
    """Return the calls that a waiting turn left pending, in the model's order; nothing is changed.

    Raises:
        SessionError: ``RESUME_REFUSED``: something that a call depends on has changed; the text says what.
    """
    service = journal_for(agent)
    if service is None:
        raise SessionError("the calls that wait cannot go on: no journal is kept here", RESUME_REFUSED)
    log = agent.session
    kept = await service.journal.load(log.id)
    found: list[PendingCall] = []
    refusals: list[str] = []
    end = OpenEnd(log.events)
    for call in end.calls:
        if call.call_seq is None:
            found.append(PendingCall(call.block))
            continue
        parked, run = kept.parked.get(call.call_seq), kept.runs.get(call.call_seq)
        untouched = call.held_over is not None or call.call_seq in kept.announced
        lost = _lost(log.events, call.block.id, call.call_seq, parked, run, in_order=not end.interrupted)
        if not lost and parked is None and run is None and call.held_over is not None:
            parked = _as_asked(agent, call.call_seq, call.held_over)
        result, changes = (None, [lost]) if lost else _standing(agent, call, parked, run, untouched=untouched)
        refusals += changes
        found.append(PendingCall(call.block, log.events[call.call_seq], parked, run, result))
    if refusals:
        raise SessionError(f"the turn cannot go on: {'; '.join(refusals)}", RESUME_REFUSED)
    return found


def _lost(
    events: Sequence[Event],
    call_id: str,
    call_seq: int,
    parked: ParkedCall | None,
    run: JournalRun | None,
    *,
    in_order: bool,
) -> str | None:
    """Say what the log knows of a call and the journal does not: it is gone, or one of an earlier time.

    Going on from such a journal would do again what has been done. ``in_order`` says that the turn was not broken off
    by the end of its process: then the journal has all that had begun.
    """
    prefix = f"{call_id}:code:"
    logged = {key: event for key, event in dispatches_since(events, call_seq).items() if key.startswith(prefix)}
    if run is None and (logged or (in_order and parked is None)):
        return f'"{call_id}": its journal is not there; it is kept beside the store that the call began in'
    ended = sum(event is None for event in logged.values())
    known = 0 if run is None else sum(step.kind == "call" and step.state != "started" for step in run.steps)
    if ended > known:
        return (
            f'"{call_id}": its journal is older than the session: {ended} of its calls have ended, and it has {known}'
        )
    return None


def _as_asked(agent: Agent, call_seq: int, question: str) -> ParkedCall | None:
    """A call whose process died while a person was asked about it: what was asked is what runs.

    None for a program: its call is run as the model wrote it.
    """
    asked: Any = next(
        event.data
        for event in agent.session.events[call_seq:]
        if event.type == ApprovalAsked.event_type and event.data["id"] == question
    )
    name: str = asked["toolName"]
    if name == RESERVED_NAME or "argumentsDigest" not in asked:
        return None
    entry = agent.ctx.tools.view(agent.scope).entries.get(name)
    # What its schema was is not known any more; nobody can tell whether it has changed.
    schema = "" if entry is None else schema_digest(entry)
    return ParkedCall(call_seq, name, asked["arguments"], asked["argumentsDigest"], schema)


def _standing(
    agent: Agent, call: OpenCall, parked: ParkedCall | None, run: JournalRun | None, *, untouched: bool
) -> tuple[ToolFailure | None, list[str]]:
    """What becomes of a call that had begun: a result where it must not run, and what keeps it from going on.

    ``untouched`` is a call whose body has not begun: nobody has allowed it yet, or it is a program without a journal.
    """
    view = agent.ctx.tools.view(agent.scope)
    if run is not None or (parked is None and untouched and call.block.name == RESERVED_NAME):
        runtime = cast("CodeRuntime | None", agent.ctx.get("code_runtime"))
        if runtime is None:
            return None, [f'"{call.block.id}": there is no code runtime']
        if RESERVED_NAME not in view.entries:
            return None, [f'"{call.block.id}": programs are not offered any more: tools.mode is "{view.mode}"']
        if run is None:
            return None, []
        facts = program_facts(runtime, view, _program(call.block))
        return None, run.facts.changes(facts)
    if parked is not None:
        entry = view.entries.get(parked.name)
        if entry is None:
            return None, [f'the tool "{parked.name}" is not there any more']
        if schema_digest(entry) != parked.schema:
            return None, [f'the schema of the tool "{parked.name}" has changed']
        may_run = parked.state == "parked" or entry.definition.idempotent or parked.name == RESERVED_NAME
        return (None if may_run else _UNKNOWN), []
    return (None if untouched else _UNKNOWN), []


def _program(block: ToolCallBlock) -> str:
    try:
        arguments: Any = parse_json(block.arguments)
    except HarnessError:
        return ""
    code: object = cast("dict[str, object]", arguments).get("code") if isinstance(arguments, dict) else None
    return code if isinstance(code, str) else ""


def discard(agent: Agent) -> None:
    """End the waiting of a turn: each pending call gets a result that says so, in a turn of its own."""
    log = agent.session
    end = OpenEnd(log.events)
    turn = log.last_turn + 1
    log.append(TurnStart.event_type, TurnStart(turn))
    log.append(StepStart.event_type, StepStart(turn, 1))
    close_questions(agent)
    for dispatch in end.dispatches:
        record_dispatch(log, dispatch.event, is_error=True, content=_DISCARDED.content)
    for call in end.calls:
        if call.call_seq is None:
            record_result(log, call.block, record_call(log, call.block), ABORTED_BEFORE_DISPATCH)
        else:
            record_result(log, call.block, log.events[call.call_seq], _DISCARDED)
    log.append(StepEnd.event_type, StepEnd(turn, 1))
    log.append(TurnEnd.event_type, TurnEnd(turn, Aborted("user")))


def close_questions(agent: Agent) -> None:
    """Withdraw the questions that nobody needs an answer to any more: their calls have ended."""
    open_ids: dict[str, None] = {}
    for event in agent.session.events:
        if event.type == "approval/asked":
            open_ids[event.data["id"]] = None
        elif event.type == ApprovalDecided.event_type:
            open_ids.pop(event.data["id"], None)
        elif event.type == "session/end-seed":
            open_ids.clear()
    for question in open_ids:
        agent.session.append(ApprovalDecided.event_type, ApprovalDecided(question, "cancelled"))
