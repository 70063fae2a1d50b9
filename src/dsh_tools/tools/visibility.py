"""What each scope sees: layers and masks, folded into one ordered view.

Pure functions over plain records; the registry keeps the records and caches the views.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from .registered import RegisteredTool

__all__ = ["Layer", "Mask", "Mode", "View", "fold_view", "known_names"]

Mode: TypeAlias = Literal["native", "code", "both"]
"""How a scope's tools are shown to its model (PIPE-56)."""


class Mask(msgspec.Struct, frozen=True, eq=False):
    """One restriction: name sets over what a scope inherits (PIPE-46 to 50)."""

    allow: frozenset[str] | None
    deny: frozenset[str]

    def admits(self, name: str) -> bool:
        """Whether an inherited name survives this mask."""
        return name not in self.deny and (self.allow is None or name in self.allow)


class Layer(msgspec.Struct, eq=False):
    """What was registered through one scope, in order."""

    tools: dict[str, RegisteredTool] = msgspec.field(default_factory=dict[str, RegisteredTool])
    masks: list[Mask] = msgspec.field(default_factory=list[Mask])
    mode: Mode | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the layer holds nothing and can be dropped (HOST-52)."""
        return not self.tools and not self.masks and self.mode is None


class View(msgspec.Struct, frozen=True, eq=False):
    """The tools one scope sees, in order, and the mode they are shown in."""

    entries: dict[str, RegisteredTool]
    mode: Mode


def known_names(inherited_layers: Sequence[Layer]) -> dict[str, None]:
    """Names a scope inherits before any masking, in order (PIPE-45)."""
    return {name: None for layer in inherited_layers for name in layer.tools}


def fold_view(layers: Sequence[Layer], default_mode: Mode, transport: RegisteredTool | None) -> View:
    """Fold layers, weakest first (global, farthest ancestor, …, own), into a view (PIPE-33, 48, 64, 65, D22).

    A shadowing tool keeps the place of the name it shadows, unless that name is masked.
    ``transport`` is Code Mode's ``run_code``; it comes last in a view that is not native (PIPE-60).
    """
    entries: dict[str, RegisteredTool] = {}
    mode = default_mode
    for layer in layers:
        if layer.masks:
            entries = {name: entry for name, entry in entries.items() if all(mask.admits(name) for mask in layer.masks)}
        entries.update(layer.tools)
        if layer.mode is not None:
            mode = layer.mode
    if transport is not None and mode != "native":
        entries[transport.name] = transport
    return View(entries, mode)
