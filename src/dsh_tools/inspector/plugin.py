"""The plugin: attaches the page to an application."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ..agent.hooks import MODEL_EVENT
from ..errors import ConfigError
from ..json_value import to_json_text
from ..model import Finish, ModelFailed, ReasoningDelta, Retrying, TextDelta
from ..services import APPROVAL_ASKED, APPROVAL_DECIDED
from ..session import SESSION_EVENT, SESSION_OPEN, EventLog
from ..tools.events import TOOL_PROGRESS, TOOL_RESULT, TOOL_STATE, TOOL_SUSPENDED, TOOLS_CHANGE
from .config import InspectorConfig
from .service import Inspector
from .source import LiveSource, Source
from .stages import StageTimesPlugin
from .waiting import Resume

if TYPE_CHECKING:
    from ..agent import Agent
    from ..kernel import Context
    from ..model import ModelEvent
    from ..session import Event, Sessions
    from ..tools import ToolDefinition
    from ..tools.execution import ToolExecution
    from ..tools.result import ToolResult
    from ..tools.stopping import CallStatus

__all__ = ["InspectorPlugin"]

_ENDS_ANSWER = frozenset({"assistant/message", "turn/end"})


class InspectorPlugin:
    """Serves the inspector's page for an application and provides it as ``inspector``.

    ``ctx.require("inspector").url`` is the address to open. With ``ctx.approval`` the pages answer questions.

    Parameters:
        source: sessions to look at instead of the application's own.
        fallback: finds definitions for the cards of tools that the application does not have.
        resume: goes on with stored sessions that wait for a person, once they are answered here; see :data:`Resume`.
            Without it such an answer is kept in its session, and counts when something else resumes that.
    """

    name = "inspector"
    inject = ("tools",)
    Config = InspectorConfig

    def __init__(
        self,
        source: Source | None = None,
        fallback: Callable[[str], ToolDefinition | None] | None = None,
        resume: Resume | None = None,
    ) -> None:
        self._source = source
        self._fallback = fallback
        self._resume = resume

    async def apply(self, ctx: Context, config: InspectorConfig) -> None:
        """Start to serve.

        Raises:
            ConfigError: the address is taken, there are no sessions to show, or the extra is missing.
        """
        source = self._source
        if source is None:
            sessions = ctx.get("sessions")
            if sessions is None:
                raise ConfigError("the inspector needs sessions: mount SessionsPlugin, or give it a source")
            source = LiveSource(cast("Sessions", sessions))
            ctx.plugin(StageTimesPlugin())
        inspector = Inspector(ctx, source, config, self._fallback, self._resume)
        _listen(ctx, inspector)
        ctx.effect(lambda: inspector.dispose, "inspector")
        await inspector.start()
        ctx.provide("inspector", inspector)


def _listen(ctx: Context, inspector: Inspector) -> None:
    hub, desk = inspector.hub, inspector.desk

    def logged(log: EventLog, event: Event) -> None:
        if event.type in _ENDS_ANSWER:
            hub.end_answer(log.id)
        hub.touch(log.id)
        inspector.sessions_changed()

    def model_event(agent: Agent, event: ModelEvent) -> None:
        session = agent.session.id
        if isinstance(event, TextDelta):
            hub.delta(session, "text", event.text)
        elif isinstance(event, ReasoningDelta):
            hub.delta(session, "reasoning", event.text)
        elif isinstance(event, Retrying | ModelFailed):
            hub.end_answer(session)
        elif isinstance(event, Finish):
            hub.touch(session)

    def progressed(execution: ToolExecution, value: object) -> None:
        session = _session_of(execution)
        if session is not None:
            hub.progress(session, execution.call_id, _progress_text(value))

    def stands(execution: ToolExecution, status: CallStatus) -> None:
        session = _session_of(execution)
        if session is not None:
            hub.state(session, execution.call_id, status)

    def settled(execution: ToolExecution, _result: ToolResult) -> None:
        session = _session_of(execution)
        if session is not None:
            hub.end_call(session, execution.call_id)

    def suspended(execution: ToolExecution) -> None:
        session = _session_of(execution)
        if session is not None:
            hub.end_call(session, execution.call_id)

    if inspector.source.is_live:
        ctx.on(SESSION_EVENT, logged)
        ctx.on(SESSION_OPEN, lambda _log: inspector.sessions_changed())
        ctx.on(MODEL_EVENT, model_event)
        ctx.on(TOOL_PROGRESS, progressed)
        ctx.on(TOOL_STATE, stands)
        ctx.on(TOOL_SUSPENDED, suspended)
        ctx.on(TOOL_RESULT, settled)
    ctx.on(TOOLS_CHANGE, lambda: hub.broadcast("tools", {}))
    ctx.on(APPROVAL_ASKED, desk.asked)
    ctx.on(APPROVAL_DECIDED, lambda request, answer: desk.decided(request, answer.outcome, answer.reason))


def _session_of(execution: ToolExecution) -> str | None:
    log: Any = getattr(execution.agent, "session", None)
    return log.id if isinstance(log, EventLog) else None


def _progress_text(value: object) -> str:
    if isinstance(value, str):
        return value if value.endswith("\n") else value + "\n"
    try:
        return to_json_text(cast("Any", value)) + "\n"
    except Exception:
        return repr(value)[:1000] + "\n"
