"""The tools page: what every scope sees and why not more, signatures, calls so far, and calling."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..content import content_text
from ..errors import ConfigError, HarnessError
from ..kernel import AbortController, Scope
from ..messages import record_json
from ..schema import SdkTool, render_sdk_python, to_typescript
from ..session import ReplayedCall, replay_calls
from ..tools import PresentedResult, ToolCall, view_of_call, view_of_result
from ..tools.cards import view_to_json
from ..tools.result import ToolFailure
from .rows import clip

if TYPE_CHECKING:
    from ..kernel import Context
    from ..tools.registered import RegisteredTool
    from .source import Source

__all__ = ["Catalogue"]

_SESSIONS = 20
"""How many of the newest sessions count for the figures."""
_RECENT = 8
"""How many recent calls of a tool are listed."""


class Catalogue:
    """Describes tools and calls them.

    Parameters:
        ctx: the application.
        source: the sessions that the figures come from.
        allow_calls: whether pages may call tools.
    """

    def __init__(self, ctx: Context, source: Source, allow_calls: bool) -> None:
        self._ctx = ctx
        self._source = source
        self._allow_calls = allow_calls
        self._contexts: dict[str, Context] = {}
        self._running: set[AbortController] = set()
        self._numbers = 0
        self._figures: dict[str, tuple[int, list[ReplayedCall]]] = {}

    # ── describing ────────────────────────────────────────────────────────────

    async def describe(self) -> dict[str, Any]:
        """Return every scope with its tools and what is hidden from it, and the figures of each tool."""
        scopes: list[dict[str, Any]] = [self._scope("", None)]
        scopes += [self._scope(agent.name, agent.scope) for agent in self._agents()]
        return {"scopes": scopes, "figures": await self._tell_figures(), "calls": self._allow_calls}

    def _agents(self) -> Iterable[Any]:
        agents: Any = self._ctx.get("agents")
        return () if agents is None else agents

    def _scope(self, name: str, scope: Scope | None) -> dict[str, Any]:
        registry = self._ctx.tools.service.registry
        view = registry.view(scope)
        hidden = [known for known in registry.known(scope) if known not in view.entries]
        return {
            "name": name,
            "mode": view.mode,
            "tools": [describe_tool(entry) for entry in view.entries.values()],
            "hidden": [] if scope is None else [self._why_hidden(scope, known) for known in hidden],
        }

    def _why_hidden(self, scope: Scope, name: str) -> dict[str, Any]:
        found = self._ctx.tools.service.registry.masks_hiding(scope, name)
        masks: list[dict[str, Any]] = []
        for key, mask in found:
            denied = name in mask.deny
            allowed = [] if mask.allow is None else sorted(mask.allow)
            masks.append({"scope": key.name, "denied": denied, "allows": [] if denied else allowed})
        return {"name": name, "by": masks}

    async def _tell_figures(self) -> dict[str, Any]:
        figures: dict[str, dict[str, Any]] = {}
        for session, call in await self._recent_calls():
            figure = figures.setdefault(call.name, {"calls": 0, "failures": 0, "recent": []})
            figure["calls"] += 1
            figure["failures"] += call.is_error
            if len(figure["recent"]) < _RECENT:
                recent: dict[str, Any] = {
                    "session": session,
                    "seq": call.call_seq,
                    "time": call.started_at,
                    "took": call.finished_at - call.started_at,
                    "isError": call.is_error,
                    "text": content_text(call.content)[:200],
                }
                if call.error is not None:
                    recent["code"] = call.error.code
                figure["recent"].append(recent)
        return figures

    async def _recent_calls(self) -> list[tuple[str, ReplayedCall]]:
        """The calls of the newest sessions, newest first; a session that did not grow is not read again."""
        found: list[tuple[str, ReplayedCall]] = []
        seen: dict[str, tuple[int, list[ReplayedCall]]] = {}
        for summary in (await self._source.summaries())[:_SESSIONS]:
            session = summary.header.id
            kept = self._figures.get(session)
            if kept is None or kept[0] != summary.length:
                try:
                    events = (await self._source.read(session)).events
                except HarnessError:
                    # Gone or broken meanwhile; the page shows what there is.
                    continue
                kept = (summary.length, replay_calls(events))
            seen[session] = kept
            found += [(session, call) for call in kept[1]]
        self._figures = seen
        return sorted(found, key=lambda item: -item[1].started_at)

    # ── calling ───────────────────────────────────────────────────────────────

    async def call(self, scope_name: str, name: str, arguments: Any, left: asyncio.Event) -> dict[str, Any]:
        """Run one call through the whole pipeline, as a caller below the given scope.

        Parameters:
            scope_name: the agent whose tools and policies apply; ``""`` for what everybody has.
            name: the tool.
            arguments: JSON text, or a JSON object.
            left: set when the page that asked has gone; the call is aborted then.

        Raises:
            ConfigError: calls are switched off, or there is no such scope.
        """
        if not self._allow_calls:
            raise ConfigError("calling tools from the page is switched off")
        caller = self._caller(scope_name)
        self._numbers += 1
        controller = AbortController()
        self._running.add(controller)
        watch = asyncio.create_task(_abort_when(left, controller))
        begin = time.perf_counter()
        try:
            result = await caller.tools.execute(
                ToolCall(name, arguments, call_id=f"page-{self._numbers}", agent=caller, signal=controller.signal)
            )
        finally:
            self._running.discard(controller)
            watch.cancel()
            await asyncio.wait({watch})
        definition = caller.tools.get(name, caller.scope)
        presented = PresentedResult(result.content, result.is_error, result.meta)
        answer: dict[str, Any] = {
            "name": name,
            "isError": result.is_error,
            "content": [record_json(block) for block in result.content],
            "took": round((time.perf_counter() - begin) * 1000, 1),
        }
        if isinstance(result, ToolFailure) and result.error.info is not UNSET:
            answer["code"] = result.error.info.code
        for key, view in (
            ("callView", view_of_call(definition, arguments)),
            ("view", view_of_result(definition, arguments, presented)),
        ):
            if view is not None:
                answer[key] = view_to_json(view)
        return clip(answer)[0]

    def _caller(self, scope_name: str) -> Context:
        parent: Scope | None = None
        if scope_name:
            found = next((agent for agent in self._agents() if agent.name == scope_name), None)
            if found is None:
                raise ConfigError(f'there is no agent "{scope_name}" now')
            parent = found.scope
        caller = self._contexts.get(scope_name)
        if caller is None or caller.scope is None or (parent is not None and parent not in caller.scope.chain()):
            caller = self._contexts[scope_name] = self._ctx.create_scope("inspector page", parent)
        return caller

    async def close(self) -> None:
        """Abort the calls that run."""
        for controller in tuple(self._running):
            controller.abort("the inspector has stopped")


async def _abort_when(left: asyncio.Event, controller: AbortController) -> None:
    await left.wait()
    controller.abort("the page has gone")


def describe_tool(entry: RegisteredTool) -> dict[str, Any]:
    """Return what the page shows of one tool."""
    definition = entry.definition
    described: dict[str, Any] = {
        "name": entry.name,
        "description": entry.schema.description,
        "parameters": entry.schema.parameters,
        "output": entry.output.json,
        "owner": entry.owner or "",
        "idempotent": definition.idempotent,
        "isolation": definition.isolation,
        "overlaps": definition.is_concurrency_safe is not None,
        "typescript": to_typescript(entry.schema.parameters),
        "typescriptOutput": to_typescript(entry.output),
        "python": _python(entry),
    }
    if definition.timeout_ms is not None:
        described["timeoutMs"] = definition.timeout_ms
    return clip(described)[0]


def _python(entry: RegisteredTool) -> str:
    """The SDK text of this one tool, without the fence around it."""
    schema = entry.schema
    fenced = render_sdk_python([SdkTool(schema.name, "", schema.parameters, entry.output)])
    return "\n".join(line for line in fenced.split("\n") if not line.startswith("```"))
