"""``ctx.tools``: the registry and the pipeline as one service, bound to the context that uses it.

Registrations go to the layer of the context they are made through, and end with it (PIPE-15, 30).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pydantic

from ..errors import RegistrationError, ScopeRequiredError
from ..kernel.abort import MAX_TIMEOUT_MS
from ..kernel.scope import EVERY_SCOPE
from ..tools.definition import ToolDefinition
from ..tools.events import TOOL_PROGRESS, TOOL_STATE, TOOLS_CHANGE
from ..tools.execution import AgentLike, ToolCall, ToolExecution, check_call
from ..tools.registered import ToolSchema, compile_definition
from ..tools.registry import RESERVED_NAME, ToolRegistry
from ..tools.result import ToolResult
from ..tools.visibility import Mode, View
from .cancellation import UNCONTAINED
from .explain import Explanation, explain
from .guards import Guard, GuardTable
from .pipeline import dispatch, execute, finish, prepare
from .policies import PolicyTable
from .process import BodyProcesses
from .run import Run, Tracer
from .stages.snapshot import classify_arguments
from .threads import BodyThreads

if TYPE_CHECKING:
    from ..json_value import JsonValue
    from ..kernel.context import Context
    from ..kernel.effect import Disposer
    from ..kernel.scope import Scope

__all__ = ["ExecutionMode", "ToolService", "Tools", "ToolsConfig", "ToolsPlugin"]

ExecutionMode: TypeAlias = Literal["parallel", "exclusive"]
"""Whether a call may overlap with others (PIPE-202)."""


class ToolsConfig(pydantic.BaseModel):
    """Configuration of the tool service.

    Parameters:
        mode: how tools are shown to models: ``native``, ``code`` or ``both`` (PIPE-56).
        max_parallel_sub_calls: how many sub-calls of one program may overlap (PIPE-61).
        mask_errors: give the model an error id instead of the text of unexpected exceptions.
        max_threads: how many synchronous bodies run at once.
        max_processes: how many bodies in processes of their own run at once; further ones wait.
        spare_processes: how many processes stand ready, so that a call need not wait for one to start; they are
            started with the first call.
        process_grace_ms: how long such a body has to end by itself when its call has to stop, in milliseconds;
            then its process is killed, with everything that it has started.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    mode: Mode = "native"
    max_parallel_sub_calls: int = 10
    mask_errors: bool = False
    max_threads: int = pydantic.Field(default=32, ge=1)
    max_processes: int = pydantic.Field(default=8, ge=1)
    spare_processes: int = pydantic.Field(default=1, ge=0)
    process_grace_ms: float = pydantic.Field(default=2000, ge=0, le=MAX_TIMEOUT_MS)

    @pydantic.field_validator("max_parallel_sub_calls", mode="before")
    @classmethod
    def _positive(cls, value: object) -> object:
        if type(value) is not int or value < 1:
            raise ValueError("maxParallelSubCalls must be a positive integer")
        return value


class ToolService:
    """The one registry and pipeline of an application; :class:`Tools` is the face a context sees.

    Parameters:
        context: the context that provides the service; approval is looked up on it at each ask.
        config: see :class:`ToolsConfig`.
    """

    def __init__(self, context: Context, config: ToolsConfig | None = None) -> None:
        self.config = config if config is not None else ToolsConfig()
        self.context: Context = context
        self.bus = context.bus
        self.registry = ToolRegistry(self.config.mode)
        self.guards = GuardTable()
        self.threads = BodyThreads(self.config.max_threads)
        self.processes = BodyProcesses(
            self.config.max_processes, self.config.spare_processes, self.config.process_grace_ms / 1000
        )
        self.mask_errors = self.config.mask_errors
        self.states_watched = False
        self._unfollow = self.bus.follow(TOOL_STATE, self._watch_states)
        self.tracer: Tracer | None = None
        self.policies = PolicyTable()

    def _watch_states(self, observed: bool) -> None:
        self.states_watched = observed

    def for_context(self, context: Context) -> Tools:
        """Return the face of this service for one context; the kernel calls it for ``context.tools``."""
        return Tools(self, context)

    def report_progress(self, execution: ToolExecution, value: object) -> None:
        """Deliver a progress value to the observers of ``tools/progress``."""
        self.bus.emit(TOOL_PROGRESS, execution, value, scope=execution.scope)

    def changed(self) -> None:
        """Tell everybody that the visible tools may have changed (PIPE-70)."""
        self.bus.emit(TOOLS_CHANGE, scope=EVERY_SCOPE)

    def trace_with(self, tracer: Tracer) -> Callable[[], None]:
        """Let ``tracer`` look at every call that comes in; returns what ends that.

        Raises:
            RegistrationError: somebody else traces the calls.
        """
        if self.tracer is not None:
            raise RegistrationError("the calls are traced already; there can be one tracer")
        self.tracer = tracer

        def end() -> None:
            self.tracer = None

        return end

    async def dispose(self) -> None:
        """End bodies in processes, wait for synchronous ones, and end their threads."""
        self._unfollow()
        await self.processes.dispose()
        await self.threads.dispose()


class Tools:
    """The tool service as one context sees it."""

    def __init__(self, service: ToolService, context: Context) -> None:
        self.service = service
        self._context = context

    # ── registering ───────────────────────────────────────────────────────────

    def register(self, definition: ToolDefinition) -> Disposer:
        """Register a tool in this context's layer: global, or its scope's own (PIPE-13 to 30).

        Returns:
            What takes exactly this registration back; the context's disposal does it too.

        Raises:
            DefinitionError: the definition is incomplete or contradicts itself.
            JsonSchemaError: a schema is outside what can be enforced.
            ReservedNameError: the name is ``run_code``.
            DuplicateToolError: the name is taken in this layer.
        """
        tool = compile_definition(definition)
        tool.owner = self._context.fiber.name
        scope = self._context.scope
        registry = self.service.registry
        return self._apply(lambda: registry.add(tool, scope), lambda: registry.remove(tool, scope))

    def restrict(self, *, allow: Iterable[str] | None = None, deny: Iterable[str] | None = None) -> Disposer:
        """Hide inherited tools from this context's scope and its descendants (PIPE-39 to 55).

        Raises:
            ScopeRequiredError: the context has no scope.
            EmptyRestrictionError: neither list is given.
            RestrictionError: a list names ``run_code`` or a tool that is not inherited.
        """
        scope = self._scope("restrict()")
        registry = self.service.registry
        mask = registry.make_mask(scope, allow, deny)
        return self._apply(lambda: registry.add_mask(mask, scope), lambda: registry.remove_mask(mask, scope))

    def present_as(self, mode: Mode) -> Disposer:
        """Declare how this context's scope shows its tools: ``native``, ``code`` or ``both`` (PIPE-56 to 60).

        Raises:
            ScopeRequiredError: the context has no scope.
            PresentationConflictError: the scope has declared its mode already.
        """
        scope = self._scope("present_as()")
        registry = self.service.registry
        return self._apply(lambda: registry.set_mode(mode, scope), lambda: registry.clear_mode(scope))

    def guard(self, guard: Guard) -> Disposer:
        """Add a check that can only deny; it runs after every other policy (PIPE section H).

        ``guard(execution)`` returns None, or the reason of a denial. It sees all calls, or those of
        this context's scope and its descendants.
        """
        scope = self._context.scope
        return self._context.effect(lambda: self.service.guards.add(guard, scope), "guard")

    def declare_policy(self, name: str, document: JsonValue, *, rules: Iterable[str] = ()) -> Disposer:
        """Say which rules are in force for this context's scope, or for everybody (D43).

        An approval is bound to them: an answer that was given under other rules does not count.

        Parameters:
            name: whose rules they are.
            document: the rules as JSON; what counts is whether it is the same.
            rules: the rules' names, as their listener notes them in traces; reports of coverage list them.

        Raises:
            LossyJsonError: the document is not JSON.
        """
        scope = self._context.scope
        names = tuple(rules)
        return self._context.effect(lambda: self.service.policies.add(name, document, scope, names), f'policy "{name}"')

    def policy_digest(self, scope: Scope | None = None) -> str | None:
        """Return the digest of the rules declared for ``scope``; None where nobody declared any."""
        return self.service.policies.digest(scope)

    def _apply(self, do: Callable[[], object], undo: Callable[[], object]) -> Disposer:
        """Make a change whose undoing belongs to this context, then tell everybody (HOST-54)."""

        def body() -> Callable[[], None]:
            do()
            return take_back

        def take_back() -> None:
            undo()
            self.service.changed()

        disposer = self._context.effect(body, "tools")
        self.service.changed()
        return disposer

    def _scope(self, operation: str) -> Scope:
        scope = self._context.scope
        if scope is None:
            raise ScopeRequiredError(
                f"{operation} requires a scoped context; call it on an agent's context or on ctx.create_scope(…)"
            )
        return scope

    # ── looking ───────────────────────────────────────────────────────────────

    def get(self, name: str, scope: Scope | None = None) -> ToolDefinition | None:
        """Return the definition that ``scope`` (None: the global view) resolves, or None (PIPE-36)."""
        entry = self.view(scope).entries.get(name)
        return None if entry is None else entry.definition

    def schemas(self, scope: Scope | None = None) -> list[ToolSchema]:
        """Return what a model is told about each visible tool, in order (PIPE-62 to 67).

        The list is new at each call; the schemas in it are frozen. ``run_code`` is not part of it:
        this is the full set of capabilities, whatever the mode.
        """
        return [entry.schema for entry in self.view(scope).entries.values() if entry.name != RESERVED_NAME]

    def view(self, scope: Scope | None = None) -> View:
        """Return the visible tools and the mode they are shown in."""
        return self.service.registry.view(scope)

    def mode(self, scope: Scope | None = None) -> Mode:
        """Return the presentation mode in force for ``scope`` (PIPE-56)."""
        return self.view(scope).mode

    def known_names(self, scope: Scope | None = None) -> list[str]:
        """Names that an order may mention for ``scope``, restricted ones included (PIPE-68)."""
        mode = self.mode(scope)
        names = [] if mode == "code" else list(self.service.registry.known(scope))
        return names if mode == "native" else [*names, RESERVED_NAME]

    # ── running ───────────────────────────────────────────────────────────────

    def execute(self, call: ToolCall) -> Coroutine[Any, Any, ToolResult]:
        """Run one call through the whole pipeline and return its one result (PIPE section I).

        Raises:
            asyncio.CancelledError: the awaiting task was cancelled; the call has settled first.
            TypeError: ``call`` is something else, or its name or id is.
        """
        # What is as it should be passes without a further call.
        if type(call) is not ToolCall or type(call.name) is not str or type(call.call_id) is not str:
            check_call(call, "execute()")
        return execute(self.service, call)

    def explain(self, call: ToolCall) -> Coroutine[Any, Any, Explanation]:
        """Foresee what policy would decide about a call, and why. Nothing runs, nobody is asked, nothing is logged.

        Guards and the listeners that declare themselves :func:`effect_free` are consulted; the answer names
        those that cannot be.

        Raises:
            TypeError: ``call`` is something else, or its name or id is.
        """
        check_call(call, "explain()")
        return explain(self.service, call)

    def execution_mode(self, call: ToolCall) -> ExecutionMode:
        """Say whether this call may overlap with others now; anything unclear is exclusive (PIPE-202 to 204)."""
        return execution_mode(self.service, call)

    def mode_shows(self, call: ToolCall) -> bool:
        """Whether the mode of this call shows when it is prepared: it may overlap exactly if it gets to its body."""
        agent: AgentLike | None = call.agent
        entry = self.service.registry.view(None if agent is None else agent.scope).entries.get(call.name)
        return entry is not None and entry.safe_if_valid

    def prepare(self, call: ToolCall) -> Coroutine[Any, Any, Run]:
        """Take a call up to its body; for schedulers (PIPE-234)."""
        return prepare(self.service, call)

    def dispatch(self, run: Run) -> Coroutine[Any, Any, None]:
        """Run a prepared call's body; for schedulers."""
        return dispatch(run)

    def finish(self, run: Run) -> Coroutine[Any, Any, ToolResult]:
        """Review and settle a run; for schedulers."""
        return finish(run)


def execution_mode(service: ToolService, call: ToolCall) -> ExecutionMode:
    """Classify one call: ``parallel`` only where its tool's classifier returns exactly True (PIPE-202)."""
    agent: AgentLike | None = call.agent
    view = service.registry.view(None if agent is None else agent.scope)
    entry = view.entries.get(call.name)
    if entry is None:
        return "exclusive"
    if view.mode == "code" and call.parent is None and call.name != RESERVED_NAME:
        return "exclusive"
    try:
        classify = entry.definition.is_concurrency_safe
        verdict: Any = classify is not None and classify(classify_arguments(entry, call))
    except UNCONTAINED:
        raise
    except BaseException:
        return "exclusive"
    return "parallel" if verdict is True else "exclusive"


class ToolsPlugin:
    """Provides ``ctx.tools``."""

    name = "tools"
    Config = ToolsConfig

    def apply(self, ctx: Context, config: ToolsConfig) -> None:
        """Provide the service; on disposal wait for running synchronous bodies."""
        service = ToolService(ctx, config)
        ctx.effect(lambda: service.dispose, "tool threads")
        ctx.provide("tools", service)
