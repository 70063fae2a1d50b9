"""The default composition: the registry with the services that most applications want (D10, D35)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pydantic

from .agent import AgentsPlugin
from .code_mode import CodeModePlugin
from .code_runtime import CodeRuntimeConfig, CodeRuntimePlugin
from .kernel import Context, config_error, create_context
from .pipeline import ToolsConfig, ToolsPlugin
from .services import (
    ApprovalConfig,
    ApprovalPlugin,
    CallRecordPlugin,
    JobsConfig,
    JobsPlugin,
    JobToolsConfig,
    JobToolsPlugin,
    LimitsConfig,
    LimitsPlugin,
    LocalSpillConfig,
    LocalSpillPlugin,
    MetricsConfig,
    MetricsPlugin,
    PolicyConfig,
    PolicyPlugin,
    PromptHistoryPlugin,
    RepeatReminderConfig,
    RepeatReminderPlugin,
    RetryConfig,
    RetryPlugin,
    SpillPolicyConfig,
    SpillPolicyPlugin,
    SystemPromptConfig,
    SystemPromptPlugin,
    TimeoutPlugin,
    TracingConfig,
    TracingPlugin,
)
from .session import DurabilityPlugin, JournalPlugin, RecorderPlugin, SessionsConfig, SessionsPlugin

__all__ = ["StandardConfig", "mount_standard", "standard"]


class StandardConfig(pydantic.BaseModel):
    """Settings of the default composition; each field is the config of the plugin it names.

    Parameters:
        tools: registry and pipeline.
        sessions: where session logs are kept; in memory by default.
        call_records: whether every call leaves a record in its session; None for sessions in a store, not in memory.
        journal: whether a journal is kept, so that calls can wait for a person; None for sessions in a store, not in
            memory. With it the programs of Code Mode have a clock and random numbers that repeat themselves.
        approval: whether and how people are asked.
        policy: rules that allow, ask for or deny calls.
        system_prompt: what a model is told before the conversation.
        jobs: background jobs.
        job_tools, spill, spill_policy, limits, retry, repeat_reminder, tracing, metrics: further services, each
            mounted only where it is configured (``{}`` takes its defaults).
        code: the runtime of programs; mounted where this is given, or where ``tools.mode`` is not ``native``.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    tools: ToolsConfig = pydantic.Field(default_factory=ToolsConfig)
    sessions: SessionsConfig = pydantic.Field(default_factory=lambda: SessionsConfig(store="memory"))
    call_records: bool | None = None
    journal: bool | None = None
    approval: ApprovalConfig = pydantic.Field(default_factory=ApprovalConfig)
    policy: PolicyConfig = pydantic.Field(default_factory=PolicyConfig)
    system_prompt: SystemPromptConfig = pydantic.Field(default_factory=SystemPromptConfig)
    jobs: JobsConfig = pydantic.Field(default_factory=JobsConfig)
    job_tools: JobToolsConfig | None = None
    spill: LocalSpillConfig | None = None
    spill_policy: SpillPolicyConfig | None = None
    limits: LimitsConfig | None = None
    retry: RetryConfig | None = None
    repeat_reminder: RepeatReminderConfig | None = None
    tracing: TracingConfig | None = None
    metrics: MetricsConfig | None = None
    code: CodeRuntimeConfig | None = None

    @property
    def records_calls(self) -> bool:
        """Whether calls leave records."""
        return self.sessions.store != "memory" if self.call_records is None else self.call_records

    @property
    def keeps_journal(self) -> bool:
        """Whether a journal is kept."""
        return self.sessions.store != "memory" if self.journal is None else self.journal

    @property
    def code_runtime(self) -> CodeRuntimeConfig | None:
        """The runtime to mount, None for none."""
        if self.code is None and self.tools.mode != "native":
            return CodeRuntimeConfig()
        return self.code


async def mount_standard(ctx: Context, config: StandardConfig | None = None) -> None:
    """Mount the default composition on a context and wait until it is ready.

    Raises:
        ValidationError: a plugin's config is wrong.
        ConfigError: programs are wanted, and the extra that runs them is not installed; the text says which.
    """
    settings = config if config is not None else StandardConfig()
    for plugin, plugin_config in (
        (ToolsPlugin(), settings.tools),
        (SessionsPlugin(), settings.sessions),
        *(((JournalPlugin(), None),) if settings.keeps_journal else ()),
        (RecorderPlugin(), None),
        (DurabilityPlugin(), None),
        (TimeoutPlugin(), None),
        (ApprovalPlugin(), settings.approval),
        (PolicyPlugin(), settings.policy),
        (SystemPromptPlugin(), settings.system_prompt),
        (CodeModePlugin(), None),
        (PromptHistoryPlugin(), None),
        (JobsPlugin(), settings.jobs),
    ):
        await ctx.plugin(plugin, plugin_config)
    for plugin, plugin_config in (
        (JobToolsPlugin(), settings.job_tools),
        (LocalSpillPlugin(), settings.spill),
        (SpillPolicyPlugin(), settings.spill_policy),
        (LimitsPlugin(), settings.limits),
        (RetryPlugin(), settings.retry),
        (RepeatReminderPlugin(), settings.repeat_reminder),
        (TracingPlugin(), settings.tracing),
        (MetricsPlugin(), settings.metrics),
    ):
        if plugin_config is not None:
            await ctx.plugin(plugin, plugin_config)
    if settings.records_calls:
        await ctx.plugin(CallRecordPlugin())
    if settings.code_runtime is not None:
        await ctx.plugin(CodeRuntimePlugin(), settings.code_runtime)
    # Last, because what is mounted last ends first: agents need all the others to end their turns in order.
    await ctx.plugin(AgentsPlugin())


@asynccontextmanager
async def standard(config: StandardConfig | None = None, **settings: Any) -> AsyncGenerator[Context]:
    """An application with the default composition, for the length of an ``async with`` block.

    ::

        async with standard(tools={"mode": "native"}) as ctx:
            ctx.tools.register(my_tool)

    Parameters:
        config: the settings as a record.
        settings: or as keywords, each a plugin's config as a mapping.

    Raises:
        ConfigError: a setting is wrong or unknown; the text has a line ``key: what is wrong`` for each.
    """
    try:
        chosen = StandardConfig.model_validate(settings) if config is None else config
    except pydantic.ValidationError as error:
        raise config_error(error, StandardConfig) from error
    async with create_context() as ctx:
        await mount_standard(ctx, chosen)
        yield ctx
