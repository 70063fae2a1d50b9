"""The order of tools in a prompt: by name, or as the configuration lists them (HOST-75 to 77)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ...errors import PromptError
from ...json_value import snapshot
from ...tools.registered import ToolSchema
from .records import ToolOffer

__all__ = ["UNLISTED_TOOLS", "check_order", "order_tools"]

UNLISTED_TOOLS: Final = "<unlisted-tools>"
"""The place, in a configured order, of the tools that it does not list."""


def check_order(order: Sequence[str]) -> None:
    """Check a configured order.

    Raises:
        ValueError: the place of the unlisted tools is not named exactly once, or a name comes twice.
    """
    if order.count(UNLISTED_TOOLS) != 1:
        raise ValueError(f'toolOrder must hold "{UNLISTED_TOOLS}" exactly once')
    doubled = [name for index, name in enumerate(order) if name in order[:index]]
    if doubled:
        raise ValueError(f'toolOrder lists "{doubled[0]}" twice')


def order_tools(offers: Iterable[ToolOffer], order: Sequence[str] | None) -> tuple[ToolSchema, ...]:
    """Return the tools of all offers in their order: copies, of name, description and parameters only (HOST-74).

    Raises:
        PromptError: two offers hold one name, a tool has the name of the marker, or the order
            lists a name that no provider knows.
    """
    tools: dict[str, ToolSchema] = {}
    known: set[str] = set()
    last: list[str] = []
    for offer in offers:
        known.update((tool.name for tool in offer.schemas) if offer.known_names is None else offer.known_names)
        last += offer.last
        for tool in offer.schemas:
            _add(tools, tool)
    for name in order or ():
        if name != UNLISTED_TOOLS and name not in known:
            raise PromptError(f'toolOrder lists unregistered tool "{name}"')
    listed = set(order or ())
    rest = sorted((name for name in tools if name not in listed), key=lambda name: (name in last, _code_units(name)))
    names = [name for place in order or (UNLISTED_TOOLS,) for name in (rest if place == UNLISTED_TOOLS else [place])]
    return tuple(tools[name] for name in names if name in tools)


def _add(tools: dict[str, ToolSchema], tool: ToolSchema) -> None:
    if tool.name == UNLISTED_TOOLS:
        raise PromptError(f'a tool cannot have the name "{UNLISTED_TOOLS}": it stands for the unlisted tools')
    if tool.name in tools:
        raise PromptError(f'two providers offer a tool "{tool.name}"')
    tools[tool.name] = ToolSchema(tool.name, tool.description, snapshot(tool.parameters))


def _code_units(name: str) -> bytes:
    """The key of an order by UTF-16 code units, which is the same on every machine."""
    return name.encode("utf-16-be", errors="surrogatepass")
