"""The job tools, their limits, and the notices of ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pydantic
import pytest
from tests.support.agents import LoggedAgent, LoneAgent
from tests.support.jobs import ScriptedWork, settled

from dsh_tools.content import TextBlock, content_text
from dsh_tools.kernel.abort import AbortController
from dsh_tools.kernel.context import Context, create_context
from dsh_tools.messages import MessageSource, user_message
from dsh_tools.pipeline.service import ToolsPlugin
from dsh_tools.services import JobOutcome, JobsPlugin, JobToolsPlugin, SystemPromptPlugin
from dsh_tools.services.jobs.limit import limit_text
from dsh_tools.tools.events import POST_EXECUTE, PRE_EXECUTE, Accept, Deny
from dsh_tools.tools.execution import ToolCall
from dsh_tools.tools.result import ErrorInfo, ToolFailure, ToolSuccess


class IdleAgent(LoggedAgent):
    """An agent that is busy or idle as a test says."""

    is_idle = True


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    context = create_context()
    await context.plugin(ToolsPlugin())
    await context.plugin(JobsPlugin())
    await context.plugin(JobToolsPlugin(), {"wait_timeout_ms": 50, "max_wait_timeout_ms": 100})
    yield context
    await context.dispose()


def start(ctx: Context, work: Any, owner: Any = None, **more: Any) -> str:
    return ctx.jobs.start(**{"kind": "bash", "label": "make", "run": work, "owner": owner, **more}).job_id


async def call(ctx: Context, name: str, agent: Any = None, signal: Any = None, **arguments: Any) -> Any:
    return await ctx.tools.execute(ToolCall(name, arguments, agent=agent, signal=signal))


# ── the tools ─────────────────────────────────────────────────────────────────


async def test_output_and_status(ctx: Context):
    # HOST-186, 187
    agent, work = LoggedAgent(), ScriptedWork()
    job = start(ctx, work, agent)
    work.pending = "compiling\n"
    result = await call(ctx, "job_output", agent, job_id=job)
    assert isinstance(result, ToolSuccess)
    assert result.value["text"] == "compiling\n"
    assert content_text(result.content) == "compiling\n[status: running]"
    assert content_text((await call(ctx, "job_output", agent, job_id=job)).content) == (
        "(no new output)\n[status: running]"
    )
    work.end(JobOutcome("completed", "exit code: 2"))
    await settled()
    result = await call(ctx, "job_output", agent, job_id=job)
    assert content_text(result.content) == "(no new output)\n[status: completed, exit code: 2]"
    assert set(result.value["job"]) == {"id", "kind", "label", "status", "detail", "startedAt", "finishedAt"}


async def test_the_list(ctx: Context):
    # HOST-187
    agent = LoggedAgent()
    result = await call(ctx, "job_list", agent)
    assert (result.value, content_text(result.content)) == ([], "(no background jobs)")
    start(ctx, ScriptedWork(), agent, output_limit_bytes=5_000)
    start(ctx, ScriptedWork(), LoggedAgent(session="another"))
    result = await call(ctx, "job_list", agent)
    assert content_text(result.content) == "bash-1 [status: running] make"
    assert [set(job) for job in result.value] == [{"id", "kind", "label", "status", "startedAt", "outputLimitBytes"}]


async def test_cancelling(ctx: Context):
    # HOST-177, 187; the tool is called job_cancel, see docs/decisions
    agent, work = LoggedAgent(), ScriptedWork()
    work.ends_on_cancel = None
    job = start(ctx, work, agent)
    result = await call(ctx, "job_cancel", agent, job_id=job, reason="wrong branch")
    assert result.value["outcome"] == "cancellation-requested"
    assert result.value["job"]["status"] == "stopping"
    assert content_text(result.content) == "bash-1: cancellation requested\n[status: stopping]"
    assert work.reasons == ["wrong branch"]
    work.end(JobOutcome("killed"))
    await settled()
    result = await call(ctx, "job_cancel", agent, job_id=job)
    assert result.value["outcome"] == "already-finished"
    assert content_text(result.content) == "bash-1: it had already finished\n[status: killed]"


@pytest.mark.parametrize("tool", ["job_output", "job_cancel"])
async def test_jobs_out_of_reach_are_errors(ctx: Context, tool: str):
    # HOST-174
    job = start(ctx, ScriptedWork(), LoggedAgent())
    stranger = LoggedAgent(session="another")
    for agent in (stranger, None):
        result = await call(ctx, tool, agent, job_id=job)
        assert content_text(result.content) == f"Error: job {job} belongs to another session"
    result = await call(ctx, tool, stranger, job_id="bash-77")
    assert content_text(result.content) == "Error: unknown job bash-77"


async def test_waiting_for_the_end(ctx: Context):
    # HOST-186, 189
    work = ScriptedWork()
    job = start(ctx, work)
    waiting = asyncio.create_task(call(ctx, "job_output", job_id=job, wait=True))
    await settled()
    work.pending = "all done"
    work.end()
    assert content_text((await waiting).content) == "all done\n[status: completed]"


@pytest.mark.parametrize(("timeout", "at_most"), [(None, 0.5), (5, 0.3), (10**9, 0.9)])
async def test_a_wait_that_times_out_is_a_normal_result(ctx: Context, timeout: int | None, at_most: float):
    # HOST-186, 189: the model's time is capped
    job = start(ctx, ScriptedWork())
    arguments = {} if timeout is None else {"timeout_ms": timeout}
    began = asyncio.get_running_loop().time()
    result = await call(ctx, "job_output", job_id=job, wait=True, **arguments)
    assert asyncio.get_running_loop().time() - began < at_most
    assert content_text(result.content) == "(no new output)\n[status: running]"


async def test_a_wait_that_is_given_up_leaves_the_job(ctx: Context):
    # HOST-178
    caller = AbortController()
    job = start(ctx, ScriptedWork())
    waiting = asyncio.create_task(call(ctx, "job_output", signal=caller.signal, job_id=job, wait=True))
    await settled()
    caller.abort()
    result = await waiting
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("AbortError", "ABORTED")
    assert ctx.jobs.get(job).status == "running"


async def test_the_tools_are_exclusive_and_have_no_limit_of_their_own(ctx: Context):
    # HOST-186, 189
    for name in ("job_output", "job_list", "job_cancel"):
        definition = ctx.tools.get(name)
        assert definition is not None
        assert definition.timeout_ms is None
        assert ctx.tools.execution_mode(ToolCall(name, {"job_id": "x"})) == "exclusive"


@pytest.mark.parametrize(
    "config",
    [
        {"wait_timeout_ms": 200, "max_wait_timeout_ms": 100},
        {"wait_timeout_ms": 0},
        {"max_wait_timeout_ms": 2_147_483_648},
        {"completion_delivery": "loud"},
        {"max_consecutive_wakes": -1},
        {"unknown": 1},
    ],
)
async def test_wrong_config_is_a_load_error(ctx: Context, config: dict[str, Any]):
    # HOST-186
    scoped = ctx.create_scope("agent")
    with pytest.raises(pydantic.ValidationError):
        await scoped.plugin(JobToolsPlugin(), config)


async def test_guidance_is_in_the_prompt_while_there_is_one(ctx: Context):
    # HOST-64
    await ctx.plugin(SystemPromptPlugin())
    await settled()
    sections = (await ctx.system_prompt.assemble()).sections
    assert [section.order for section in sections if section.name == "tool:jobs"] == [106]


# ── the limit ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("short\n[status: running]", 100, "short\n[status: running]"),
        ("0123456789\n[status: running]", 25, "3456789\n[status: running]"),
        ("ääää\n[status: running]", 21, "ä\n[status: running]"),
        ("0123456789\n[status: running]", 18, "[status: running]"),
        ("0123456789\n[status: running]", 5, "ning]"),
        ("Error: " + "x" * 50, 10, "x" * 10),
        ("a\n[status: running]\nmore", 6, "]\nmore"),
    ],
)
def test_the_end_and_the_status_are_kept(text: str, limit: int, expected: str):
    # HOST-188
    cut = limit_text(text, limit)
    assert cut == expected
    assert len(cut.encode()) <= limit


async def test_the_limit_is_on_the_complete_text(ctx: Context):
    # HOST-188
    agent, work = LoggedAgent(), ScriptedWork()
    job = start(ctx, work, agent, output_limit_bytes=40)
    work.pending = "".join(f"line {number}\n" for number in range(1000))
    result = await call(ctx, "job_output", agent, job_id=job)
    shown = content_text(result.content)
    assert len(shown.encode()) <= 40
    assert shown.endswith("line 999\n[status: running]")
    assert len(result.value["text"]) > 5_000


async def test_the_limit_holds_for_denials_and_errors(ctx: Context):
    # HOST-188
    agent, work = LoggedAgent(), ScriptedWork()
    job = start(ctx, work, agent, output_limit_bytes=30)
    denial = ctx.on(PRE_EXECUTE, lambda execution, next: Deny("no " * 100))
    assert len(content_text((await call(ctx, "job_output", agent, job_id=job)).content)) == 30
    denial()

    def fail(review: Any, next: Any) -> Any:
        raise RuntimeError("x" * 100)

    failing = ctx.on(POST_EXECUTE, fail)
    assert content_text((await call(ctx, "job_output", agent, job_id=job)).content) == "x" * 30
    failing()
    blocks = [TextBlock("a" * 50), TextBlock("b" * 50)]
    ctx.on(POST_EXECUTE, lambda review, next: Accept(content=blocks))
    assert (await call(ctx, "job_output", agent, job_id=job)).content == tuple(blocks)


async def test_the_limit_is_noted_before_any_policy(ctx: Context):
    # HOST-188: a policy that makes the job unreachable does not lift it
    scoped = ctx.create_scope("agent")
    agent, work = LoggedAgent(scoped.scope), ScriptedWork()
    agent.ctx = scoped  # type: ignore[attr-defined]
    job = start(ctx, work, agent, output_limit_bytes=25)

    async def end_the_owner(execution: Any, next: Any) -> Any:
        await scoped.dispose()
        return await next()

    ctx.on(PRE_EXECUTE, end_the_owner)
    result = await call(ctx, "job_output", agent, job_id=job)
    text = content_text(result.content)
    assert len(text) <= 25
    assert "Error: unknown job bash-1".endswith(text)


# ── notices ───────────────────────────────────────────────────────────────────


async def finish_one(ctx: Context, agent: Any, outcome: JobOutcome | None = None, *, streams: bool = True) -> str:
    work = ScriptedWork(streams=streams)
    job = start(ctx, work, agent)
    work.end(outcome)
    await settled()
    return job


async def test_an_owner_is_told_once(ctx: Context):
    # HOST-183, 185
    await ctx.create_scope("second mount").plugin(JobToolsPlugin())
    agent = IdleAgent()
    agent.is_idle = False
    await finish_one(ctx, agent, JobOutcome("completed", "exit code: 0"))
    (notice,) = agent.inbox.injected
    assert agent.inbox.steered == []
    assert notice.source == MessageSource("job", plugin="jobs")
    text = content_text(notice.content)  # type: ignore[arg-type]
    assert text.startswith("[Background job bash-1 (make) has ended: completed, exit code: 0]")
    assert "job_output" in text


async def test_output_that_comes_at_the_end_is_in_the_notice(ctx: Context):
    # HOST-185
    agent = IdleAgent()
    await finish_one(ctx, agent, JobOutcome(output="the answer"), streams=False)
    assert content_text(agent.inbox.steered[0].content).endswith("]\nthe answer")  # type: ignore[arg-type]
    await finish_one(ctx, agent, JobOutcome(output="x" * 10_000), streams=False)
    assert "job_output" in content_text(agent.inbox.steered[1].content)  # type: ignore[arg-type]


async def test_an_idle_owner_is_woken_a_few_times_until_a_person_speaks(ctx: Context):
    # HOST-185
    agent = IdleAgent()

    async def woken() -> int:
        await finish_one(ctx, agent)
        return len(agent.inbox.steered)

    assert [await woken() for _ in range(5)] == [1, 2, 3, 3, 3]
    assert len(agent.inbox.injected) == 2
    agent.session.append("user/message", user_message("a notice", MessageSource("job")), "append")
    assert await woken() == 3
    agent.session.append("user/message", user_message("how is it going?"), "append")
    assert [await woken() for _ in range(4)] == [4, 5, 6, 6]


async def test_a_quiet_delivery_wakes_nobody(no_leaks: None):
    # HOST-185
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin())
        await ctx.plugin(JobsPlugin())
        await ctx.plugin(JobToolsPlugin(), {"completion_delivery": "quiet"})
        agent = IdleAgent()
        await finish_one(ctx, agent)
        assert (len(agent.inbox.steered), len(agent.inbox.injected)) == (0, 1)


async def test_what_is_known_already_is_not_told(ctx: Context):
    # HOST-178, 185
    agent = IdleAgent()
    for learn in ("cancel", "wait"):
        work = ScriptedWork()
        job = start(ctx, work, agent)
        if learn == "cancel":
            ctx.jobs.cancel(job, agent)
        else:
            waiting = asyncio.create_task(ctx.jobs.wait(job, agent, timeout_ms=10_000))
            await settled()
            work.end()
            await waiting
        await settled()
    assert agent.inbox.steered == agent.inbox.injected == []


async def test_jobs_without_owner_and_owners_without_inbox_are_told_nothing(ctx: Context):
    # HOST-185
    await finish_one(ctx, None)
    await finish_one(ctx, LoneAgent())
    assert len(ctx.jobs.list()) == 1
