"""The service ``code_runtime``: a runtime whose lifetime is a plugin's (CODE-129, 130)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pydantic

from .budgets import RuntimeConfig

if TYPE_CHECKING:
    from ..kernel.context import Context
    from .seam import CodeRuntime

__all__ = ["CodeRuntimeConfig", "CodeRuntimePlugin"]

_DEFAULTS = RuntimeConfig()


class CodeRuntimeConfig(pydantic.BaseModel):
    """Which language programs are written in, and what they may use; see :class:`RuntimeConfig`.

    ``prewarm`` says that workers start when the plugin is mounted, not at the first program.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    language: Literal["typescript", "python"] = "typescript"
    prewarm: bool = True
    compute_ms: float = _DEFAULTS.compute_ms
    max_wall_ms: float = _DEFAULTS.max_wall_ms
    max_output_bytes: int = _DEFAULTS.max_output_bytes
    max_old_generation_size_mb: float = _DEFAULTS.max_old_generation_size_mb
    pool_size: int = _DEFAULTS.pool_size
    max_idle_seconds: float = _DEFAULTS.max_idle_seconds

    def budgets(self) -> RuntimeConfig:
        """Return the runtime's part.

        Raises:
            ConfigError: a value is out of range.
        """
        return RuntimeConfig(**self.model_dump(exclude={"language", "prewarm"}))


class CodeRuntimePlugin:
    """Provides the runtime of one language as the service ``code_runtime``.

    There is one in a context: a second provider is refused. When the plugin goes, the service goes
    first, then every run ends, and the plugin's disposal waits for the last process.
    """

    name = "code-runtime"
    Config = CodeRuntimeConfig

    def apply(self, ctx: Context, config: CodeRuntimeConfig) -> None:
        """Make the runtime and provide it.

        Raises:
            ConfigError: a value is out of range, or the language's extra is not installed.
            ServiceConflictError: a runtime is provided already.
        """
        # A runtime takes a while to import, and few applications run programs in both languages.
        if config.language == "typescript":
            from .deno import DenoRuntime as Runtime
        else:
            from .monty import MontyRuntime as Runtime

        runtime = Runtime(config.budgets())
        ctx.effect(lambda: runtime.dispose, "code runtime")
        service: CodeRuntime = runtime
        ctx.provide("code_runtime", service)
        if config.prewarm:
            runtime.prewarm()
