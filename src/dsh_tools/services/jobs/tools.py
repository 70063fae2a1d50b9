"""The tools ``job_output``, ``job_list`` and ``job_cancel`` (HOST-186 to 189)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pydantic

from ...content import Content, ContentBlock, TextBlock, text
from ...kernel.abort import MAX_TIMEOUT_SECONDS
from ...kernel.markers import hands_on
from ...tools.define import define_tool
from ...tools.events import PRE_EXECUTE, TOOL_RESULT, Decision
from .delivery import CompletionDelivery, Delivery
from .limit import limit_text, status_line
from .records import JOB_FINISHED, JobInfo

if TYPE_CHECKING:
    from ...kernel.context import Context
    from ...kernel.hooks import Next
    from ...tools.definition import ToolDefinition
    from ...tools.execution import CallToken, ToolExecution, ToolRunContext
    from ...tools.result import ToolResult
    from .plugin import Jobs

__all__ = ["JobToolsConfig", "JobToolsPlugin"]

_MAX_WAIT_MS = int(MAX_TIMEOUT_SECONDS * 1000)
_GUIDANCE = (
    "A tool may answer with a background job: the work goes on, and you may do other things meanwhile. Read what came "
    "with job_output, wait with its `wait` only when you need the result now, and end jobs you no longer need with "
    "job_cancel. You are told when a job ends."
)

_PUBLIC_JOB = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "required": True},
        "kind": {"type": "string", "required": True},
        "label": {"type": "string", "required": True},
        "status": {
            "type": "string",
            "enum": ["running", "stopping", "completed", "killed", "failed"],
            "required": True,
        },
        "startedAt": {"type": "integer", "required": True},
        "detail": {"type": "string"},
        "finishedAt": {"type": "integer"},
        "outputLimitBytes": {"type": "integer"},
    },
}
_JOB_ID = {"type": "string", "required": True, "description": "The id that starting the job gave, such as bash-1."}


class JobToolsConfig(pydantic.BaseModel):
    """Configuration of the job tools.

    Parameters:
        wait_timeout_ms: how long ``job_output`` waits where the model names no time.
        max_wait_timeout_ms: the longest that it waits, whatever the model names.
        completion_delivery: ``wakeup`` lets the end of a job start a turn of an idle agent, ``quiet`` does not.
        max_consecutive_wakes: how many such turns there may be until a person has said something.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    wait_timeout_ms: int = pydantic.Field(default=30_000, ge=1, strict=True)
    max_wait_timeout_ms: int = pydantic.Field(default=600_000, ge=1, le=_MAX_WAIT_MS, strict=True)
    completion_delivery: Delivery = "wakeup"
    max_consecutive_wakes: int = pydantic.Field(default=3, ge=0, strict=True)

    @pydantic.model_validator(mode="after")
    def _default_within_cap(self) -> JobToolsConfig:
        if self.wait_timeout_ms > self.max_wait_timeout_ms:
            raise ValueError("waitTimeoutMs must not be greater than maxWaitTimeoutMs")
        return self


class JobToolsPlugin:
    """Looks after background jobs: tools for models, and notices for owners."""

    name = "job-tools"
    inject = ("tools", "jobs")
    Config = JobToolsConfig

    def apply(self, ctx: Context, config: JobToolsConfig) -> None:
        """Register everything for this context's scope."""
        tools = _JobTools(ctx.jobs, config)
        ctx.jobs.look_after()
        for definition in tools.definitions():
            ctx.tools.register(definition)
        ctx.on(PRE_EXECUTE, tools.note_limit, prepend=True)
        ctx.on(TOOL_RESULT, tools.forget_limit)
        delivery = CompletionDelivery(config.completion_delivery, config.max_consecutive_wakes)
        ctx.on(JOB_FINISHED, delivery.deliver)
        ctx.plugin(_Guidance)


class _Guidance:
    name = "job-guidance"
    inject = ("system_prompt",)

    def apply(self, ctx: Context, config: object) -> None:
        ctx.system_prompt.section("tool:jobs", 106, _GUIDANCE)


class _JobTools:
    def __init__(self, jobs: Jobs, config: JobToolsConfig) -> None:
        self._jobs = jobs
        self._config = config
        self._limits: dict[CallToken, int] = {}

    def definitions(self) -> list[ToolDefinition]:
        return [self._output_tool(), self._list_tool(), self._cancel_tool()]

    def _output_tool(self) -> ToolDefinition:
        most = self._config.max_wait_timeout_ms
        return define_tool(
            name="job_output",
            description="Read the new output of a background job, and see how it stands. Can wait until it has ended.",
            parameters={
                "job_id": _JOB_ID,
                "wait": {"type": "boolean", "description": "Wait until the job has ended before reading."},
                "timeout_ms": {
                    "type": "number",
                    "description": f"How long to wait at most, in milliseconds; {self._config.wait_timeout_ms} by "
                    f"default, at most {most}. When the time is up you get what there is.",
                },
            },
            output={
                "type": "object",
                "additionalProperties": False,
                "properties": {"text": {"type": "string", "required": True}, "job": {**_PUBLIC_JOB, "required": True}},
            },
            execute=self._output,
            render=_render_output,
            finalize_content=self._finalize,
        )

    def _list_tool(self) -> ToolDefinition:
        return define_tool(
            name="job_list",
            description="List the background jobs of this session.",
            parameters={},
            output={"type": "array", "items": _PUBLIC_JOB},
            execute=self._list,
            render=_render_list,
        )

    def _cancel_tool(self) -> ToolDefinition:
        return define_tool(
            name="job_cancel",
            description="Ask a background job to stop. Its remaining output can still be read.",
            parameters={
                "job_id": _JOB_ID,
                "reason": {"type": "string", "description": "Why, in a few words."},
            },
            output={
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "outcome": {
                        "type": "string",
                        "enum": ["cancellation-requested", "already-finished"],
                        "required": True,
                    },
                    "job": {**_PUBLIC_JOB, "required": True},
                },
            },
            execute=self._cancel,
            render=_render_cancel,
        )

    async def _output(self, args: Any, run: ToolRunContext) -> Any:
        job_id = args["job_id"]
        if args.get("wait"):
            wanted = args.get("timeout_ms", self._config.wait_timeout_ms)
            limit = min(wanted, self._config.max_wait_timeout_ms)
            await self._jobs.wait(job_id, run.agent, timeout_ms=limit, signal=run.signal)
        read = self._jobs.read(job_id, run.agent)
        return {"text": read.text, "job": _public(read.job)}

    async def _list(self, args: Any, run: ToolRunContext) -> Any:
        return [_public(job) for job in self._jobs.list(run.agent)]

    async def _cancel(self, args: Any, run: ToolRunContext) -> Any:
        outcome = self._jobs.cancel(args["job_id"], run.agent, args.get("reason"))
        return {"outcome": outcome, "job": _public(self._jobs.get(args["job_id"], run.agent))}

    # ── the limit on what a model reads (HOST-188) ────────────────────────────

    @hands_on
    async def note_limit(self, execution: ToolExecution, next: Next[Decision]) -> Decision:
        """Note the job's limit before any policy has a say, so that it holds for denials, too."""
        # The arguments of a tool that the caller can't see have not been looked at: they may be anything.
        arguments = execution.arguments
        if execution.name == "job_output" and isinstance(arguments, dict):
            job_id = cast("dict[str, object]", arguments).get("job_id")
            for job in self._jobs.list(execution.agent):
                if job.id == job_id and isinstance(job.output_limit_bytes, int):
                    self._limits[execution.token] = job.output_limit_bytes
        return await next()

    def forget_limit(self, execution: ToolExecution, result: ToolResult) -> None:
        """Drop the note once the call has settled."""
        self._limits.pop(execution.token, None)

    def _finalize(self, execution: ToolExecution, result: ToolResult) -> Sequence[ContentBlock] | None:
        limit = self._limits.get(execution.token)
        if limit is None or len(result.content) != 1 or not isinstance(result.content[0], TextBlock):
            return None
        return text(limit_text(result.content[0].text, limit))


def _public(job: JobInfo) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(job)
    del fields["reported"]
    fields.pop("ownerSession", None)
    return fields


def _render_output(args: Any, value: Any) -> Content:
    body = value["text"].rstrip("\n") or "(no new output)"
    return text(f"{body}\n{status_line(value['job'])}")


def _render_list(args: Any, value: Any) -> Content:
    lines = [f"{job['id']} {status_line(job)} {job['label']}" for job in value]
    return text("\n".join(lines) or "(no background jobs)")


def _render_cancel(args: Any, value: Any) -> Content:
    what = "cancellation requested" if value["outcome"] == "cancellation-requested" else "it had already finished"
    return text(f"{value['job']['id']}: {what}\n{status_line(value['job'])}")
