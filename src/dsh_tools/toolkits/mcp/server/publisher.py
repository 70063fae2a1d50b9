"""The visible tools of a context, as a server of the official SDK."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ....errors import HarnessError
from ....services import ApprovalAnswer, ApprovalRequest
from ....services.system_prompt import AssembleRequest
from ....tools import RESERVED_NAME, TOOL_PROGRESS, TOOLS_CHANGE, Mode, ToolExecution, ToolSchema
from .elicitation import FORM, UNAVAILABLE, answer_of, can_elicit, elicitation
from .listing import published_result, published_tool
from .live import LiveCall, Question

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.models import InitializationOptions
    from mcp.server.session import ServerSession

    from ....kernel import Context

__all__ = ["Publisher"]

_log = logging.getLogger("dsh_tools")

# How long a call waits for an answer that the client gives with its next request, in seconds.
_PATIENCE = 600.0
# How many connections are told of changes; a client that is forgotten lists the tools again by itself.
_SESSIONS = 256
_APPROVAL = "approval"


class _Server(Server[Any]):
    """Says that its list of tools changes."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class Publisher:
    """Publishes the tools that one scope sees; every call goes through the whole pipeline.

    Parameters:
        context: the application; tools, approval and prompt service are taken from it.
        mode: how tools are shown: each by itself, or as one that runs programs; None is the context's own.
        name: what the server calls itself.
    """

    def __init__(self, context: Context, mode: Mode | None = None, name: str = "dsh-tools") -> None:
        self._context = context.create_scope("mcp server")
        if mode is not None:
            self._context.tools.present_as(mode)
        self._ids = itertools.count(1)
        self._running: dict[str, tuple[LiveCall, ServerRequestContext[Any, Any]]] = {}
        self._parked: dict[str, tuple[LiveCall, Question, asyncio.TimerHandle]] = {}
        self._sessions: dict[int, tuple[object, ServerSession]] = {}
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)
        self._tasks: set[asyncio.Task[None]] = set()
        self._announcing = False
        self.server: Server[Any] = _Server(
            name,
            version=version("dsh-tools"),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self._listening,
        )
        self._context.on(TOOLS_CHANGE, self._changed, everywhere=True)
        self._context.on(TOOL_PROGRESS, self._progress)
        if self._context.get("approval") is not None:
            self._context.approval.answer_with(self._answer)

    async def close(self) -> None:
        """Stop every call and wait for it; the server has to be stopped before."""
        self._listening.close()
        calls = [call for call, _ in self._running.values()] + [parked[0] for parked in self._parked.values()]
        for _, _, timer in self._parked.values():
            timer.cancel()
        self._parked.clear()
        for call in calls:
            call.abort("the server is stopping")
        for call in calls:
            await call.finished()
        await self._context.dispose()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # ── listing ───────────────────────────────────────────────────────────────

    async def _list_tools(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._remember(ctx.session)
        entries = self._context.tools.view(self._context.scope).entries
        try:
            schemas, sdk = await self._shown()
        except HarnessError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message) from error
        tools = [
            published_tool(
                schema, entries.get(schema.name), schema.description + (sdk if schema.name == RESERVED_NAME else "")
            )
            for schema in schemas
        ]
        return types.ListToolsResult(tools=tools)

    async def _shown(self) -> tuple[Sequence[ToolSchema], str]:
        """Return what a model would be shown, and the text that it needs to write programs.

        Clients have no system prompt, so that text goes with the tool that runs them.

        Raises:
            HarnessError: programs are wanted, and nothing can run them.
        """
        if self._context.get("system_prompt") is None:
            return self._context.tools.schemas(self._context.scope), ""
        prompt = await self._context.system_prompt.assemble(AssembleRequest(self._context))
        sections = [section.text for section in prompt.sections if section.name.startswith("tools:")]
        return prompt.tools, "".join(f"\n\n{text}" for text in sections)

    def _remember(self, session: ServerSession) -> None:
        """Keep a connection of the older protocol, so that it can be told of changes."""
        owner = session.client_params
        if owner is None or session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        self._sessions[id(owner)] = (owner, session)
        while len(self._sessions) > _SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def _changed(self) -> None:
        # Many registrations in a row are one change for the clients.
        if not self._announcing:
            self._announcing = True
            task = asyncio.get_running_loop().create_task(self._announce())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _announce(self) -> None:
        await asyncio.sleep(0)
        self._announcing = False
        await self._bus.publish(ToolsListChanged())
        for _, session in list(self._sessions.values()):
            try:
                await session.send_tool_list_changed()
            except Exception as error:
                _log.debug("a client could not be told of changed tools: %s", error)

    # ── calling ───────────────────────────────────────────────────────────────

    async def _call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.request_state is not None:
            call = self._resume(params)
        else:
            arguments: Mapping[str, Any] = params.arguments or {}
            call = LiveCall(self._context, params.name, arguments, f"mcp-{next(self._ids)}")
        self._running[call.call_id] = (call, ctx)
        try:
            return await self._drive(call, ctx)
        except asyncio.CancelledError:
            call.abort("the client cancelled the call")
            # The SDK cancels again at every await, but for shielded ones.
            with anyio.CancelScope(shield=True):
                await call.finished()
            raise
        finally:
            del self._running[call.call_id]

    async def _drive(
        self, call: LiveCall, ctx: ServerRequestContext[Any, Any]
    ) -> types.CallToolResult | types.InputRequiredResult:
        while True:
            question = await call.next_question()
            if question is None:
                entry = self._context.tools.view(call.scope).entries.get(call.name)
                return published_result(entry, call.arguments, call.result)
            if not can_elicit(ctx.session.client_capabilities):
                question.settle(UNAVAILABLE)
            elif ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return self._park(call, question)
            else:
                question.settle(await _ask(ctx, question))

    def _park(self, call: LiveCall, question: Question) -> types.InputRequiredResult:
        """Let the call wait for the client's next request, which brings the answer (2026-07-28 on)."""
        state = secrets.token_urlsafe(24)
        timer = asyncio.get_running_loop().call_later(_PATIENCE, partial(self._forget, state))
        self._parked[state] = (call, question, timer)
        return types.InputRequiredResult(input_requests={_APPROVAL: elicitation(question.text)}, request_state=state)

    def _resume(self, params: types.CallToolRequestParams) -> LiveCall:
        parked = self._parked.get(params.request_state or "")
        if parked is None or (params.name, params.arguments or {}) != (parked[0].name, parked[0].arguments):
            raise MCPError(types.INVALID_PARAMS, "no call waits for this answer; it may have come too late")
        call, question, timer = self._parked.pop(params.request_state or "")
        timer.cancel()
        question.settle(answer_of((params.input_responses or {}).get(_APPROVAL)))
        return call

    def _forget(self, state: str) -> None:
        call, question, _ = self._parked.pop(state)
        question.settle(UNAVAILABLE)
        call.abort("nobody answered")

    async def _answer(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        return await request.agent.ask(request) if isinstance(request.agent, LiveCall) else None

    def _progress(self, execution: ToolExecution, value: object) -> None:
        running = self._running.get(execution.root_call_id)
        if running is None:
            return
        # Goes nowhere where the client did not ask for progress.
        task = asyncio.get_running_loop().create_task(_report(running[1], value, next(self._ids)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _ask(ctx: ServerRequestContext[Any, Any], question: Question) -> ApprovalAnswer:
    try:
        found = await ctx.session.elicit_form(question.text, FORM, related_request_id=ctx.request_id)
    except MCPError as error:
        _log.warning("the client could not ask: %s", error)
        return UNAVAILABLE
    return answer_of(found)


async def _report(ctx: ServerRequestContext[Any, Any], value: object, count: int) -> None:
    """Hand progress on: numbers as such, anything else as a message with a count."""
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    progress, total, message = fields.get("progress"), fields.get("total"), fields.get("message")
    if isinstance(progress, (int, float)):
        known_total = total if isinstance(total, (int, float)) else None
        await ctx.session.report_progress(progress, known_total, message if isinstance(message, str) else None)
    else:
        await ctx.session.report_progress(count, None, str(cast("object", value))[:1000])
