"""Assembling a prompt from what is registered."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ...errors import HarnessError, PromptError, describe_exception
from ...kernel.scope import EVERY_SCOPE
from ...kernel.tasks import is_awaitable
from .interpolate import VARIABLE_NAME, interpolate
from .layers import LayeredList, LayeredNames
from .ordering import order_tools
from .records import (
    SYSTEM_PROMPT_ASSEMBLE,
    SYSTEM_PROMPT_ASSEMBLED,
    SYSTEM_PROMPT_CHANGE,
    AssembledPrompt,
    AssembleRequest,
    Assembly,
    PromptSection,
    TextSource,
    ToolOffer,
    ToolProvider,
    ValueSource,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...kernel.hooks import HookBus
    from ...kernel.scope import Scope

__all__ = ["SystemPromptService"]

_SEPARATOR = "\n\n"


class _Source(msgspec.Struct, frozen=True, eq=False):
    """A registered section or context."""

    name: str
    order: float
    text: TextSource
    complete: bool
    literal: bool


class SystemPromptService:
    """What is registered for prompts, and the assembly of one.

    Parameters:
        bus: where assemblies and changes are told.
        tool_order: the configured order of tools, checked; None orders them by name.
    """

    def __init__(self, bus: HookBus, tool_order: Sequence[str] | None = None) -> None:
        self._bus = bus
        self._tool_order = tool_order
        self._sections: LayeredNames[_Source] = LayeredNames("section")
        self._contexts: LayeredNames[_Source] = LayeredNames("runtime context")
        self._variables: LayeredNames[ValueSource] = LayeredNames("variable")
        self._providers: LayeredList[ToolProvider] = LayeredList()
        self._suppressors: LayeredList[object] = LayeredList()

    # ── registering: each returns what takes it back ──────────────────────────

    def add_section(
        self,
        scope: Scope | None,
        name: str,
        order: float,
        text: TextSource,
        *,
        complete: bool = False,
        literal: bool = False,
        context: bool = False,
    ) -> Callable[[], None]:
        """Add a section, or with ``context`` a runtime context.

        Raises:
            TypeError: the order is not a finite number (HOST-62).
            PromptError: the layer has one of this name.
        """
        if isinstance(order, bool) or not isinstance(order, (int, float)) or not math.isfinite(order):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f'the order of section "{name}" must be a finite number, got {order!r}')
        layer = self._contexts if context else self._sections
        return self._told(layer.add(name, _Source(name, order, text, complete, literal), scope))

    def add_variable(self, scope: Scope | None, name: str, value: ValueSource) -> Callable[[], None]:
        """Add a variable.

        Raises:
            PromptError: the name is not lower case letters, digits and underscores, or is taken in the layer.
        """
        if VARIABLE_NAME.fullmatch(name) is None:
            raise PromptError(f"a variable's name must match ^[a-z][a-z0-9_]*$, got {name!r}")
        return self._told(self._variables.add(name, value, scope))

    def add_provider(self, scope: Scope | None, provider: ToolProvider) -> Callable[[], None]:
        """Add a tool provider; all that a scope sees contribute (HOST-73)."""
        return self._told(self._providers.add(provider, scope))

    def suppress_contexts(self, scope: Scope | None) -> Callable[[], None]:
        """Leave runtime contexts out until everyone who asked for that has taken it back (HOST-72)."""
        return self._told(self._suppressors.add(object(), scope))

    def _told(self, remove: Callable[[], None]) -> Callable[[], None]:
        """Tell everybody of a change, now and when it is taken back (HOST-79)."""

        def take_back() -> None:
            remove()
            self._bus.emit(SYSTEM_PROMPT_CHANGE, scope=EVERY_SCOPE)

        self._bus.emit(SYSTEM_PROMPT_CHANGE, scope=EVERY_SCOPE)
        return take_back

    # ── assembling ────────────────────────────────────────────────────────────

    async def assemble(self, request: AssembleRequest | None = None) -> AssembledPrompt:
        """Assemble the prompt that this agent gets now.

        Raises:
            PromptError: something does not fit together; the text names the section, variable or tool.
            AbortError: the request's signal has fired.
        """
        request = AssembleRequest() if request is None else request
        request.signal.throw_if_aborted()
        scope = request.scope
        sources = list(self._sections.visible(scope).values())
        complete = [source.name for source in sources if source.complete]
        if len(complete) > 1:
            names = ", ".join(f'"{name}"' for name in complete)
            raise PromptError(f"only one section can be complete, and {names} are")
        collected = await self._collect(request, sources)
        alone = tuple(section for section in collected.sections if section.name in complete)
        final: Any = await self._bus.waterfall(SYSTEM_PROMPT_ASSEMBLE, request, lambda: collected, scope=scope)
        if not isinstance(final, Assembly):
            what = type(final).__name__
            raise PromptError(f"a listener of system-prompt/assemble returned {what}; expected an Assembly")
        if complete:
            final = msgspec.structs.replace(final, sections=alone)
        if any(True for _ in self._suppressors.visible(scope)):
            final = msgspec.structs.replace(final, contexts=())
        prompt = _render(final)
        self._bus.emit(SYSTEM_PROMPT_ASSEMBLED, request, prompt, scope=scope)
        return prompt

    async def _collect(self, request: AssembleRequest, sources: list[_Source]) -> Assembly:
        variables: dict[str, str | None] = {}
        for name, value in self._variables.visible(request.scope).items():
            variables[name] = await _value_of(name, value, request)
        offers: list[ToolOffer] = []
        for provider in self._providers.visible(request.scope):
            offer: Any = provider(request)
            offers.append(await offer if is_awaitable(offer) else offer)
        return Assembly(
            await _texts(sources, request),
            await _texts(list(self._contexts.visible(request.scope).values()), request),
            variables,
            order_tools(offers, self._tool_order),
        )


async def _texts(sources: list[_Source], request: AssembleRequest) -> tuple[PromptSection, ...]:
    """Compute the texts, in their order (HOST-63)."""
    sections: list[PromptSection] = []
    for source in sorted(sources, key=lambda source: source.order):
        text = await _ask(f'section "{source.name}"', source.text, request)
        if not isinstance(text, str):
            raise PromptError(f'section "{source.name}" gave {type(text).__name__}; expected a text')
        sections.append(PromptSection(source.name, source.order, text, source.literal))
    return tuple(sections)


async def _value_of(name: str, value: ValueSource, request: AssembleRequest) -> str | None:
    given = await _ask(f"variable {{{{{name}}}}}", value, request)
    if given is None or isinstance(given, str):
        return given
    raise PromptError(f"variable {{{{{name}}}}} gave {type(given).__name__}; expected a text or None")


async def _ask(what: str, source: TextSource | ValueSource, request: AssembleRequest) -> object:
    if isinstance(source, str):
        return source
    try:
        given: Any = source(request)
        return await given if is_awaitable(given) else given
    except HarnessError:
        raise
    except Exception as error:
        raise PromptError(f"{what} failed: {describe_exception(error)}") from error


def _render(assembly: Assembly) -> AssembledPrompt:
    """Interpolate, drop what is empty, join (HOST-70)."""
    sections = tuple(
        msgspec.structs.replace(section, text=text)
        for section in assembly.sections
        if (text := _final_text(section, assembly))
    )
    contexts = [context.text for context in assembly.contexts if context.text]
    system = _SEPARATOR.join(section.text for section in sections)
    return AssembledPrompt(system, tuple(assembly.tools), _SEPARATOR.join(contexts), sections)


def _final_text(section: PromptSection, assembly: Assembly) -> str:
    return section.text if section.literal else interpolate(section.name, section.text, assembly.variables)
