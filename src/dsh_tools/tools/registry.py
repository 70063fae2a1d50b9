"""Where tools are found: layers by scope, restrictions, presentation modes, cached views.

The registry stores and answers; it runs nothing and tells nobody. Lifetimes and change
notifications belong to the service that wraps it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence

from ..errors import (
    DuplicateToolError,
    EmptyRestrictionError,
    PresentationConflictError,
    RegistrationError,
    ReservedNameError,
    RestrictionError,
    UnknownRestrictionError,
)
from ..kernel.scope import Scope
from .registered import RegisteredTool
from .visibility import Layer, Mask, Mode, View, fold_view, known_names

__all__ = ["RESERVED_NAME", "ToolRegistry"]

RESERVED_NAME = "run_code"
MODES: tuple[Mode, ...] = ("native", "code", "both")


class ToolRegistry:
    """All registered tools.

    Parameters:
        mode: how tools are shown where no scope says otherwise (PIPE-56).
    """

    def __init__(self, mode: Mode = "native") -> None:
        self.default_mode: Mode = check_mode(mode)
        self.transport: RegisteredTool | None = None
        self._global = Layer()
        self._scoped: weakref.WeakKeyDictionary[Scope, Layer] = weakref.WeakKeyDictionary()
        self._global_view: View | None = None
        # With the count of parent links it was folded at. A value must not hold its own key, or no scope ever goes.
        self._views: weakref.WeakKeyDictionary[Scope, tuple[int, View]] = weakref.WeakKeyDictionary()

    # ── reading ───────────────────────────────────────────────────────────────

    def view(self, scope: Scope | None) -> View:
        """Return what ``scope`` sees; None is the global view (PIPE-36)."""
        if scope is None:
            if self._global_view is None:
                self._global_view = fold_view((self._global,), self.default_mode, self.transport)
            return self._global_view
        links = Scope.links
        cached = self._views.get(scope)
        if cached is not None and cached[0] == links:
            return cached[1]
        view = fold_view(self._layers(scope.chain()), self.default_mode, self.transport)
        self._views[scope] = (links, view)
        return view

    def known(self, scope: Scope | None) -> dict[str, None]:
        """Names visible to ``scope`` before masking, own ones included; order validation needs them (PIPE-68)."""
        layers = (self._global,) if scope is None else self._layers(scope.chain())
        return known_names(layers)

    def everywhere(self) -> list[RegisteredTool]:
        """Return every registered tool, whichever scope it belongs to and whatever is hidden from whom."""
        layers = [self._global, *self._scoped.values()]
        tools = [tool for layer in layers for tool in layer.tools.values()]
        return tools if self.transport is None else [*tools, self.transport]

    def masks_hiding(self, scope: Scope, name: str) -> list[tuple[Scope, Mask]]:
        """The restrictions on ``scope``'s chain that hide an inherited ``name``."""
        return [
            (key, mask)
            for key in reversed(scope.chain())
            if (layer := self._scoped.get(key)) is not None
            for mask in layer.masks
            if not mask.admits(name)
        ]

    def _layers(self, chain: Sequence[Scope]) -> list[Layer]:
        layers = [self._global]
        layers.extend(layer for key in reversed(chain) if (layer := self._scoped.get(key)) is not None)
        return layers

    # ── writing ───────────────────────────────────────────────────────────────

    def add(self, tool: RegisteredTool, scope: Scope | None) -> None:
        """Store a compiled tool, or raise and leave nothing behind (PIPE-17, 22, 23, 27)."""
        name = tool.name
        if name == RESERVED_NAME:
            raise ReservedNameError(f'tool name "{name}" is reserved for the Code Mode presentation transport')
        layer = self._peek(scope)
        if layer is not None and name in layer.tools:
            raise DuplicateToolError(
                f'tool "{name}" is already registered'
                + (
                    "; to give one agent its own version, register it through agent.ctx"
                    if scope is None
                    else " in this scope"
                )
            )
        self._open(scope).tools[name] = tool
        self._changed()

    def remove(self, tool: RegisteredTool, scope: Scope | None) -> None:
        """Forget exactly this registration; a later one of the same name stays (PIPE-13, 14)."""
        layer = self._peek(scope)
        if layer is not None and layer.tools.get(tool.name) is tool:
            del layer.tools[tool.name]
            self._close(layer, scope)

    def make_mask(self, scope: Scope, allow: Iterable[str] | None, deny: Iterable[str] | None) -> Mask:
        """Check a restriction on what ``scope`` inherits and copy its lists (PIPE-39 to 46)."""
        if allow is None and deny is None:
            raise EmptyRestrictionError("restrict() without allow or deny is a no-op; name at least one list")
        allowed = None if allow is None else _names("allow", allow)
        denied = [] if deny is None else _names("deny", deny)
        listed = [*(allowed or ()), *denied]
        if RESERVED_NAME in listed:
            raise RestrictionError(
                f"restrict() cannot name reserved Code Mode presentation transport {RESERVED_NAME!r}"
            )
        inherited = known_names(self._layers(scope.chain()[1:]))
        unknown = [name for name in listed if name not in inherited]
        if unknown:
            names = ", ".join(f'"{name}"' for name in unknown)
            raise UnknownRestrictionError(
                f"restrict() names unknown global tool{'s' if len(unknown) > 1 else ''} {names}; "
                f"known global tools: {', '.join(sorted(inherited)) or '(none)'}"
            )
        return Mask(None if allowed is None else frozenset(allowed), frozenset(denied))

    def add_mask(self, mask: Mask, scope: Scope) -> None:
        """Store a checked restriction."""
        self._open(scope).masks.append(mask)
        self._changed()

    def remove_mask(self, mask: Mask, scope: Scope) -> None:
        """Lift one restriction (PIPE-49)."""
        layer = self._peek(scope)
        if layer is not None and any(mask is kept for kept in layer.masks):
            layer.masks = [kept for kept in layer.masks if kept is not mask]
            self._close(layer, scope)

    def set_mode(self, mode: Mode, scope: Scope) -> None:
        """Declare how ``scope`` shows its tools; one declaration at a time (PIPE-58)."""
        check_mode(mode)
        layer = self._peek(scope)
        if layer is not None and layer.mode is not None:
            raise PresentationConflictError(
                f'present_as("{mode}") conflicts with "{layer.mode}" already declared in this scope'
            )
        self._open(scope).mode = mode
        self._changed()

    def clear_mode(self, scope: Scope) -> None:
        """Take ``scope``'s declaration back; it follows its ancestors again."""
        layer = self._peek(scope)
        if layer is not None:
            layer.mode = None
            self._close(layer, scope)

    def set_transport(self, tool: RegisteredTool | None) -> None:
        """Give Code Mode's ``run_code`` its place in every view that is not native (PIPE-60)."""
        self.transport = tool
        self._changed()

    def _peek(self, scope: Scope | None) -> Layer | None:
        return self._global if scope is None else self._scoped.get(scope)

    def _open(self, scope: Scope | None) -> Layer:
        return self._global if scope is None else self._scoped.setdefault(scope, Layer())

    def _close(self, layer: Layer, scope: Scope | None) -> None:
        if scope is not None and layer.is_empty:
            self._scoped.pop(scope, None)
        self._changed()

    def _changed(self) -> None:
        self._global_view = None
        self._views.clear()


def check_mode(mode: object) -> Mode:
    """Return ``mode`` if it is one, else raise :class:`RegistrationError` naming the three."""
    for known in MODES:
        if mode == known:
            return known
    raise RegistrationError(f'mode must be "native", "code" or "both", got {mode!r}')


def _names(role: str, names: Iterable[str]) -> list[str]:
    listed: list[object] = [] if isinstance(names, (str, bytes)) else list(names)
    if isinstance(names, (str, bytes)) or not all(isinstance(name, str) for name in listed):
        raise RestrictionError(f"restrict({role}=…) takes a list of tool names, got {names!r}")
    return [name for name in listed if isinstance(name, str)]
