"""TypeScript programs in Deno processes; needs ``dsh-tools[code]``."""

from __future__ import annotations

from .runtime import DenoRuntime

__all__ = ["DenoRuntime"]
