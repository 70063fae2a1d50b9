"""Where untrusted programs run: the seam, and one runtime for each language. It knows nothing of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_exports import lazy_exports
from .bindings import check_bindings, is_bindable
from .budgets import RuntimeConfig
from .plugin import CodeRuntimeConfig, CodeRuntimePlugin
from .seam import (
    FAILURE_KINDS,
    BindingFunction,
    BindingNamespace,
    CodeRunError,
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
    Determinism,
    ErrorClassSpec,
    FailureKind,
    HostAnswer,
)

if TYPE_CHECKING:
    from .deno import DenoRuntime
    from .monty import PYTHON_SUBSET, MontyRuntime
else:
    __getattr__, __dir__ = lazy_exports(
        __name__, {"deno": ("DenoRuntime",), "monty": ("PYTHON_SUBSET", "MontyRuntime")}
    )

__all__ = [
    "FAILURE_KINDS",
    "PYTHON_SUBSET",
    "BindingFunction",
    "BindingNamespace",
    "CodeRunError",
    "CodeRunRequest",
    "CodeRunResult",
    "CodeRuntime",
    "CodeRuntimeConfig",
    "CodeRuntimePlugin",
    "DenoRuntime",
    "Determinism",
    "ErrorClassSpec",
    "FailureKind",
    "HostAnswer",
    "MontyRuntime",
    "RuntimeConfig",
    "check_bindings",
    "is_bindable",
]
