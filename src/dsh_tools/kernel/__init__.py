"""Lifetimes: contexts, plugins, effects, services, scopes, hook points and abort signals.

The kernel knows nothing of tools. Public names only; the modules are private to this package.
"""

from __future__ import annotations

from .abort import MAX_TIMEOUT_SECONDS, NEVER, AbortController, AbortSignal, CancelScope
from .hooks import (
    BailHook,
    EmitHook,
    Hook,
    HookBus,
    Listener,
    Next,
    ParallelHook,
    SerialHook,
    WaterfallHook,
    WaterfallListener,
    run_waterfall,
)
from .scope import EVERY_SCOPE, ParentLink, Scope

__all__ = [
    "EVERY_SCOPE",
    "MAX_TIMEOUT_SECONDS",
    "NEVER",
    "AbortController",
    "AbortSignal",
    "BailHook",
    "CancelScope",
    "EmitHook",
    "Hook",
    "HookBus",
    "Listener",
    "Next",
    "ParallelHook",
    "ParentLink",
    "Scope",
    "SerialHook",
    "WaterfallHook",
    "WaterfallListener",
    "run_waterfall",
]
