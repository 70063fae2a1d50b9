"""The values of an assembly, and its hook points."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from ...kernel.abort import NEVER
from ...kernel.hooks import EmitHook, WaterfallHook
from ...tools.registered import ToolSchema
from .explain import Fingerprint, fingerprint

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal
    from ...kernel.scope import Scope
    from ...tools.execution import AgentLike

__all__ = [
    "IDENTITY_ORDER",
    "PERSONA_ORDER",
    "SYSTEM_PROMPT_ASSEMBLE",
    "SYSTEM_PROMPT_ASSEMBLED",
    "SYSTEM_PROMPT_CHANGE",
    "TOOL_GUIDANCE_ORDER",
    "AssembleRequest",
    "AssembledPrompt",
    "Assembly",
    "PromptSection",
    "TextSource",
    "ToolOffer",
    "ToolProvider",
    "ValueSource",
]

IDENTITY_ORDER: Final = -100
PERSONA_ORDER: Final = 0
TOOL_GUIDANCE_ORDER: Final = 100
"""Where guidance on tools begins; the band ends at 199 (HOST-64)."""


class AssembleRequest(msgspec.Struct, frozen=True, eq=False):
    """Who the prompt is for. Everything is optional; providers manage without (HOST-80).

    Parameters:
        agent: the agent; its scope decides what is visible.
        signal: fires when nobody needs the prompt any more.
    """

    agent: AgentLike | None = None
    signal: AbortSignal = NEVER

    @property
    def scope(self) -> Scope | None:
        """The agent's scope."""
        return None if self.agent is None else self.agent.scope


TextSource: TypeAlias = str | Callable[[AssembleRequest], str | Awaitable[str]]
"""A text, or a function that gives it at each assembly."""

ValueSource: TypeAlias = str | Callable[[AssembleRequest], str | Awaitable[str | None] | None]
"""A variable's value, or a function that gives it; None is no value."""


class PromptSection(msgspec.Struct, frozen=True):
    """One section, or one runtime context, with its text.

    Parameters:
        name: unique among what one scope sees.
        order: its place; ties are kept in the order of registration.
        text: what it says; an empty one is left out.
        literal: True leaves double braces alone.
    """

    name: str
    order: float
    text: str
    literal: bool = False


class ToolOffer(msgspec.Struct, frozen=True):
    """What a tool provider gives.

    Parameters:
        schemas: the tools to show; name, description and parameters of each are taken.
        known_names: all names that an order may mention, hidden ones too; by default those shown (HOST-73).
        last: names that come after all others where the order does not list them.
    """

    schemas: Sequence[ToolSchema]
    known_names: Sequence[str] | None = None
    last: Sequence[str] = ()


ToolProvider: TypeAlias = Callable[[AssembleRequest], ToolOffer | Awaitable[ToolOffer]]


class Assembly(msgspec.Struct, frozen=True):
    """A prompt before it is rendered; what listeners of ``system-prompt/assemble`` return.

    It is immutable: ``msgspec.structs.replace(await next(), tools=…)`` makes another one.
    """

    sections: tuple[PromptSection, ...]
    contexts: tuple[PromptSection, ...]
    variables: Mapping[str, str | None]
    tools: tuple[ToolSchema, ...]


class AssembledPrompt(msgspec.Struct, frozen=True):
    """A prompt, ready to send.

    Parameters:
        system: the system prompt.
        tools: the tools' wire schemas, in order.
        context: the text of the runtime contexts; empty where there are none.
        sections: the rendered sections that ``system`` consists of.
    """

    system: str
    tools: tuple[ToolSchema, ...]
    context: str
    sections: tuple[PromptSection, ...]

    @property
    def fingerprint(self) -> Fingerprint:
        """Digests of the prefix and its parts; keep it to explain the next change."""
        return fingerprint(
            [(section.name, section.text) for section in self.sections],
            [(tool.name, [tool.description, tool.parameters]) for tool in self.tools],
        )


SYSTEM_PROMPT_ASSEMBLE: WaterfallHook[AssembleRequest, Assembly] = WaterfallHook("system-prompt/assemble")
"""Change an assembly. Listener: ``(request, next) -> Assembly``; its answer counts (HOST-79)."""

SYSTEM_PROMPT_ASSEMBLED: EmitHook[AssembleRequest, AssembledPrompt] = EmitHook("system-prompt/assembled")
"""Observe a prompt that was assembled, after everything that changes it."""

SYSTEM_PROMPT_CHANGE: EmitHook[()] = EmitHook("system-prompt/change")
"""Observe that something was registered or taken back, in whatever scope."""
