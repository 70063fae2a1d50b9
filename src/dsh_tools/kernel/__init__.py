"""Lifetimes: contexts, plugins, effects, services, scopes, hook points and abort signals.

The kernel knows nothing of tools. Public names only; the modules are private to this package.
"""

from __future__ import annotations

from .abort import MAX_TIMEOUT_MS, MAX_TIMEOUT_SECONDS, NEVER, AbortController, AbortSignal, CancelScope
from .completion import Completion
from .config_faults import config_error, fault_key, fault_text
from .context import Context, ContextBound, create_context
from .effect import Cleanup, Disposer, EffectBody
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
from .markers import Effects, effect_free, effects_of, hands_on
from .plugin import Fiber
from .recipe import Plugin, PluginObject
from .scope import EVERY_SCOPE, ParentLink, Scope
from .service import ServiceKey
from .state import FiberState

__all__ = [
    "EVERY_SCOPE",
    "MAX_TIMEOUT_MS",
    "MAX_TIMEOUT_SECONDS",
    "NEVER",
    "AbortController",
    "AbortSignal",
    "BailHook",
    "CancelScope",
    "Cleanup",
    "Completion",
    "Context",
    "ContextBound",
    "Disposer",
    "EffectBody",
    "Effects",
    "EmitHook",
    "Fiber",
    "FiberState",
    "Hook",
    "HookBus",
    "Listener",
    "Next",
    "ParallelHook",
    "ParentLink",
    "Plugin",
    "PluginObject",
    "Scope",
    "SerialHook",
    "ServiceKey",
    "WaterfallHook",
    "WaterfallListener",
    "config_error",
    "create_context",
    "effect_free",
    "effects_of",
    "fault_key",
    "fault_text",
    "hands_on",
    "run_waterfall",
]
