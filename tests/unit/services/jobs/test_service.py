"""Starting, reading, waiting for, cancelling and ending jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pydantic
import pytest
from tests.support.agents import LoggedAgent, LoneAgent
from tests.support.jobs import ScriptedWork, settled

from dsh_tools.errors import AbortError, JobError
from dsh_tools.kernel.abort import AbortController
from dsh_tools.kernel.context import Context, create_context
from dsh_tools.services import (
    JOB_FINISHED,
    JOBS_CHANGE,
    JobHandle,
    JobOutcome,
    JobOutput,
    JobRun,
    JobsPlugin,
    task_work,
)
from dsh_tools.services.jobs.records import FinishedJob


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    context = create_context()
    await context.plugin(JobsPlugin(), {"max_concurrent_jobs_per_owner": 3})
    context.jobs.look_after()
    yield context
    await context.dispose()


def start(ctx: Context, run: Any, owner: Any = None, **more: Any) -> str:
    return ctx.jobs.start(**{"kind": "test", "label": "a label", "run": run, "owner": owner, **more}).job_id


class OwningAgent(LoggedAgent):
    """An agent with a context that can end."""

    def __init__(self, ctx: Context, session: str = "s1") -> None:
        self.ctx = ctx.create_scope("agent")
        super().__init__(self.ctx.scope, session)


# ── starting ──────────────────────────────────────────────────────────────────


async def test_a_handle_is_fit_to_be_a_tools_value(ctx: Context):
    # HOST-171
    handle = ctx.jobs.start(kind="bash", label="make", run=ScriptedWork())
    assert isinstance(handle, JobHandle)
    assert msgspec.to_builtins(handle) == {"kind": "background", "jobId": "bash-1"}


async def test_ids_count_for_each_kind_and_only_jobs_that_exist(ctx: Context):
    # HOST-171
    assert start(ctx, ScriptedWork()) == "test-1"
    assert start(ctx, ScriptedWork(), kind="other") == "other-1"

    def fail() -> Any:
        raise OSError("no such program")

    with pytest.raises(OSError, match="no such program"):
        start(ctx, fail)
    assert [job.id for job in ctx.jobs.list()] == ["test-1", "other-1"]
    assert start(ctx, ScriptedWork()) == "test-2"


async def test_the_checks_come_in_order_and_before_the_work(ctx: Context):
    # HOST-170
    class Agents:
        alive: list[Any] = []

        def __iter__(self) -> Any:
            return iter(self.alive)

    ctx.provide("agents", Agents())
    work, stranger = ScriptedWork(), LoggedAgent()
    bad: dict[str, Any] = {"kind": "", "label": "", "output_limit_bytes": 0, "owner": stranger}
    for name, good, complaint in [
        ("kind", "test", "kind cannot be empty"),
        ("label", "a label", "label cannot be empty"),
        ("output_limit_bytes", 10, "outputLimitBytes must be a positive integer"),
        ("owner", None, "must be an agent that is alive"),
    ]:
        with pytest.raises(JobError, match=complaint):
            ctx.jobs.start(**{"run": work, **bad})
        bad[name] = good
    for _ in range(3):
        start(ctx, ScriptedWork())
    with pytest.raises(JobError, match="3 background jobs are running already"):
        ctx.jobs.start(**{"run": work, **bad})
    assert work.runs == 0
    assert len(ctx.jobs.list()) == 3
    Agents.alive.append(stranger)
    assert start(ctx, work, stranger) == "test-4"
    assert work.runs == 1


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "10", 2**53])
async def test_a_wrong_limit_is_refused(ctx: Context, limit: Any):
    # HOST-170
    with pytest.raises(JobError, match="outputLimitBytes"):
        start(ctx, ScriptedWork(), output_limit_bytes=limit)


async def test_without_somebody_to_look_after_it_no_job_starts(no_leaks: None):
    # HOST-170, 183
    async with create_context() as ctx:
        await ctx.plugin(JobsPlugin())
        work = ScriptedWork()
        with pytest.raises(JobError, match="not available") as refused:
            start(ctx, work, kind="")
        assert refused.value.code == "NO_JOB_CONTROLLER"
        scoped, other = ctx.create_scope("agent"), ctx.create_scope("other")
        child = ctx.create_scope("child", scoped.scope)
        control = scoped.jobs.look_after()
        start(ctx, work, LoneAgent(scoped.scope))
        start(ctx, ScriptedWork(), LoneAgent(child.scope))
        for owner in (LoneAgent(other.scope), LoneAgent(), None):
            with pytest.raises(JobError):
                start(ctx, ScriptedWork(), owner)
        control()
        with pytest.raises(JobError):
            start(ctx, ScriptedWork(), LoneAgent(scoped.scope))
        ctx.jobs.look_after()
        start(ctx, ScriptedWork())


async def test_an_aborted_call_starts_nothing_and_a_later_abort_stops_nothing(ctx: Context):
    # HOST-180
    caller, work = AbortController(), ScriptedWork()
    job = start(ctx, work, signal=caller.signal)
    caller.abort()
    await settled()
    assert ctx.jobs.get(job).status == "running"
    with pytest.raises(AbortError):
        start(ctx, work, signal=caller.signal)
    assert (work.runs, len(ctx.jobs.list())) == (1, 1)


async def test_capacity_is_for_each_owner_and_counts_what_is_alive(ctx: Context):
    # HOST-172
    agent, twin = LoggedAgent(), LoggedAgent()
    works = [ScriptedWork() for _ in range(3)]
    jobs = [start(ctx, work, agent) for work in works]
    for owner in (agent,):
        with pytest.raises(JobError, match="already"):
            start(ctx, ScriptedWork(), owner)
    start(ctx, ScriptedWork(), twin)
    start(ctx, ScriptedWork())
    works[0].ends_on_cancel = None
    ctx.jobs.cancel(jobs[0], agent)
    assert ctx.jobs.get(jobs[0], agent).status == "stopping"
    with pytest.raises(JobError, match="already"):
        start(ctx, ScriptedWork(), agent)
    works[0].end()
    await settled()
    start(ctx, ScriptedWork(), agent)


async def test_wrong_config_is_refused(no_leaks: None):
    async with create_context() as ctx:
        for value in (0, -1, 1.5, True):
            with pytest.raises(pydantic.ValidationError):
                await ctx.plugin(JobsPlugin(), {"max_concurrent_jobs_per_owner": value})


# ── life ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("outcome", "status", "detail"),
    [
        (JobOutcome(), "completed", None),
        (JobOutcome("completed", "exit code: 3"), "completed", "exit code: 3"),
        (JobOutcome("killed"), "killed", None),
        (JobOutcome("failed", "why"), "failed", "why"),
        (RuntimeError("boom"), "failed", "boom"),
        (asyncio.CancelledError(), "killed", None),
    ],
)
async def test_a_job_ends_as_its_work_reports(ctx: Context, outcome: Any, status: str, detail: str | None):
    # HOST-173, 175
    work = ScriptedWork()
    job = start(ctx, work)
    assert ctx.jobs.get(job).is_over is False
    if isinstance(outcome, BaseException):
        if isinstance(outcome, asyncio.CancelledError):
            work.done.cancel()
        else:
            work.done.set_exception(outcome)
    else:
        work.end(outcome)
    await settled()
    info = ctx.jobs.get(job)
    assert (info.status, info.is_over) == (status, True)
    assert (None if info.detail is msgspec.UNSET else info.detail) == detail


async def test_snapshots_are_fresh_and_consume_nothing(ctx: Context):
    # HOST-175
    agent, work = LoggedAgent(), ScriptedWork()
    job = start(ctx, work, agent, output_limit_bytes=100)
    work.pending = "output"
    before = ctx.jobs.get(job, agent)
    assert msgspec.to_builtins(before) == {
        "id": "test-1",
        "kind": "test",
        "label": "a label",
        "status": "running",
        "startedAt": before.started_at,
        "reported": False,
        "outputLimitBytes": 100,
        "ownerSession": "s1",
    }
    work.end()
    await settled()
    (after,) = ctx.jobs.list(agent)
    assert before.status == "running"
    assert after.status == "completed"
    assert after.finished_at >= after.started_at  # type: ignore[operator]
    assert after.reported is False
    assert work.pending == "output"


async def test_streamed_output_is_read_once(ctx: Context):
    # HOST-176
    work = ScriptedWork()
    job = start(ctx, work)
    work.pending = "one\n"
    assert ctx.jobs.read(job).text == "one\n"
    assert ctx.jobs.read(job).text == ""
    work.pending = "two\n"
    work.end()
    await settled()
    assert ctx.jobs.get(job).reported is False
    read = ctx.jobs.read(job)
    assert (read.text, read.job.status, read.job.reported) == ("two\n", "completed", True)
    assert ctx.jobs.read(job).text == ""


async def test_output_that_comes_at_the_end_is_given_each_time(ctx: Context):
    # HOST-176
    work = ScriptedWork(streams=False)
    job = start(ctx, work)
    assert ctx.jobs.read(job).text == ""
    assert ctx.jobs.get(job).reported is False
    work.end(JobOutcome(output="all of it"))
    await settled()
    assert [ctx.jobs.read(job).text for _ in range(2)] == ["all of it", "all of it"]
    assert ctx.jobs.get(job).reported is True


async def test_cancelling_asks_the_work_and_leaves_the_end_to_it(ctx: Context):
    # HOST-177
    work = ScriptedWork()
    work.ends_on_cancel = None
    job = start(ctx, work)
    assert ctx.jobs.cancel(job, reason="no longer needed") == "cancellation-requested"
    assert work.reasons == ["no longer needed"]
    info = ctx.jobs.get(job)
    assert (info.status, info.reported) == ("stopping", True)
    work.end(JobOutcome("completed", "exit code: 0"))
    await settled()
    assert ctx.jobs.get(job).status == "completed"
    assert ctx.jobs.cancel(job) == "already-finished"
    assert work.reasons == ["no longer needed"]


async def test_a_cancel_that_fails_changes_nothing(ctx: Context):
    # HOST-177
    work = ScriptedWork()
    work.cancel_error = PermissionError("not yours")
    job = start(ctx, work)
    with pytest.raises(PermissionError):
        ctx.jobs.cancel(job)
    info = ctx.jobs.get(job)
    assert (info.status, info.reported) == ("running", False)
    work.end()


async def test_cancelling_a_finished_job_leaves_its_output(ctx: Context):
    # HOST-189
    work = ScriptedWork()
    job = start(ctx, work)
    work.pending = "last words"
    work.end()
    await settled()
    assert ctx.jobs.cancel(job) == "already-finished"
    assert ctx.jobs.get(job).reported is False
    assert ctx.jobs.read(job).text == "last words"


# ── the fence ─────────────────────────────────────────────────────────────────


async def test_jobs_are_reached_from_their_own_session_only(ctx: Context):
    # HOST-174
    owner, colleague, stranger, lone = LoggedAgent(), LoggedAgent(), LoggedAgent(session="s2"), LoneAgent()
    mine, free = start(ctx, ScriptedWork(), owner), start(ctx, ScriptedWork())
    logless = start(ctx, ScriptedWork(), lone)
    for caller, visible in [
        (owner, [mine, free]),
        (colleague, [mine, free]),
        (stranger, [free]),
        (lone, [free, logless]),
        (LoneAgent(), [free]),
        (None, [free]),
    ]:
        assert [job.id for job in ctx.jobs.list(caller)] == visible
    for reach in (ctx.jobs.get, ctx.jobs.read, ctx.jobs.cancel):
        for caller in (stranger, lone, None):
            with pytest.raises(JobError, match=f"job {mine} belongs to another session"):
                reach(mine, caller)
        with pytest.raises(JobError, match="unknown job nothing-1"):
            reach("nothing-1", owner)
    with pytest.raises(JobError, match="another session"):
        await ctx.jobs.wait(mine, stranger, timeout_ms=10)


# ── waiting ───────────────────────────────────────────────────────────────────


async def test_waiting_ends_with_the_job(ctx: Context):
    # HOST-178, 179
    work = ScriptedWork()
    job = start(ctx, work)
    waits = [asyncio.create_task(ctx.jobs.wait(job, timeout_ms=10_000)) for _ in range(2)]
    await settled()
    work.end(JobOutcome("completed", "done"))
    for info in await asyncio.gather(*waits):
        assert (info.status, info.detail, info.reported) == ("completed", "done", True)
    assert (await ctx.jobs.wait(job, timeout_ms=10_000)).status == "completed"


async def test_a_wait_that_times_out_gives_what_there_is(ctx: Context):
    # HOST-178
    job = start(ctx, ScriptedWork())
    info = await ctx.jobs.wait(job, timeout_ms=10)
    assert (info.status, info.reported) == ("running", False)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "10", None])
async def test_the_time_to_wait_is_checked(ctx: Context, timeout: Any):
    # HOST-178
    job = start(ctx, ScriptedWork())
    with pytest.raises(JobError, match="positive number"):
        await ctx.jobs.wait(job, timeout_ms=timeout)


async def test_an_aborted_wait_leaves_the_job_alone(ctx: Context):
    # HOST-178
    caller = AbortController()
    job = start(ctx, ScriptedWork())
    wait = asyncio.create_task(ctx.jobs.wait(job, timeout_ms=10_000, signal=caller.signal))
    await settled()
    caller.abort()
    with pytest.raises(AbortError, match=r"^wait aborted$"):
        await wait
    with pytest.raises(AbortError, match=r"^wait aborted$"):
        await ctx.jobs.wait(job, timeout_ms=10_000, signal=caller.signal)
    info = ctx.jobs.get(job)
    assert (info.status, info.reported) == ("running", False)
    assert caller.signal.callback_count == 0


@pytest.mark.parametrize("by", ["signal", "task"])
async def test_an_abort_just_before_the_end_does_not_swallow_the_notice(ctx: Context, by: str):
    # HOST-178: in the same tick
    finished: list[FinishedJob] = []
    ctx.on(JOB_FINISHED, finished.append)
    caller, work = AbortController(), ScriptedWork()
    job = start(ctx, work)
    wait = asyncio.create_task(ctx.jobs.wait(job, timeout_ms=10_000, signal=caller.signal))
    await settled()
    if by == "signal":
        caller.abort()
    else:
        wait.cancel()
    work.end()
    with pytest.raises(AbortError if by == "signal" else asyncio.CancelledError):
        await wait
    await settled()
    assert ctx.jobs.get(job).reported is False
    assert finished[0].claim() is True


async def test_an_end_that_reached_the_waiter_beats_a_later_abort(ctx: Context):
    # HOST-178
    caller, work = AbortController(), ScriptedWork()
    job = start(ctx, work)
    wait = asyncio.create_task(ctx.jobs.wait(job, timeout_ms=10_000, signal=caller.signal))
    await settled()
    ctx.on(JOBS_CHANGE, caller.abort)
    work.end()
    assert (await wait).status == "completed"


# ── observers ─────────────────────────────────────────────────────────────────


async def test_the_end_is_told_last_and_contained(ctx: Context, caplog: pytest.LogCaptureFixture):
    # HOST-179
    heard: list[str] = []
    work = ScriptedWork()
    job = start(ctx, work)
    wait = asyncio.create_task(ctx.jobs.wait(job, timeout_ms=10_000))
    wait.add_done_callback(lambda task: heard.append("waiter"))
    await settled()

    def fail(finished: FinishedJob) -> None:
        raise RuntimeError("listener")

    ctx.on(JOB_FINISHED, fail)
    ctx.on(JOB_FINISHED, lambda finished: heard.append(f"finished {finished.job.reported}"))
    ctx.on(JOBS_CHANGE, lambda: heard.append(f"change {ctx.jobs.get(job).status}"))
    work.end()
    await settled()
    assert heard == ["change completed", "finished True", "waiter"]
    await wait


async def test_the_end_is_told_to_the_owners_scope(ctx: Context):
    # HOST-183
    mine, other = ctx.create_scope("mine"), ctx.create_scope("other")
    heard: list[str] = []
    for name, context in (("mine", mine), ("other", other), ("global", ctx)):
        context.on(JOB_FINISHED, lambda finished, name=name: heard.append(name))
    work = ScriptedWork()
    start(ctx, work, LoneAgent(mine.scope))
    work.end()
    await settled()
    assert heard == ["mine", "global"]


async def test_one_end_is_claimed_once(ctx: Context):
    # HOST-183
    claims: list[bool] = []
    for _ in range(3):
        ctx.on(JOB_FINISHED, lambda finished: claims.append(finished.claim()))
    work = ScriptedWork()
    start(ctx, work)
    work.end()
    await settled()
    assert claims == [True, False, False]


# ── the end of owners and of the service ──────────────────────────────────────


async def test_an_owners_end_is_the_end_of_its_jobs(ctx: Context):
    # HOST-181, 184
    finished: list[FinishedJob] = []
    ctx.on(JOB_FINISHED, finished.append)
    agent = OwningAgent(ctx)
    twin = OwningAgent(ctx)
    work, others = ScriptedWork(), ScriptedWork()
    work.ends_on_cancel = None
    start(ctx, work, agent)
    kept = start(ctx, others, twin)
    ending = asyncio.ensure_future(agent.ctx.dispose())
    await settled()
    assert work.reasons == ["its agent has ended"]
    assert not ending.done()
    work.end(JobOutcome("killed"))
    await ending
    # The twin is another agent, though of the same session: its job goes on.
    assert [job.id for job in ctx.jobs.list(twin)] == [kept]
    assert ctx.jobs.get(kept, twin).status == "running"
    assert [one.claim() for one in finished] == [False]


async def test_a_dead_owner_gets_no_job(ctx: Context):
    # HOST-170
    agent = OwningAgent(ctx)
    await agent.ctx.dispose()
    work = ScriptedWork()
    with pytest.raises(JobError, match="alive"):
        start(ctx, work, agent)
    assert work.runs == 0


async def test_what_cannot_be_cancelled_at_the_end_is_given_up_with_a_warning(
    ctx: Context, caplog: pytest.LogCaptureFixture
):
    # HOST-181
    agent, work = OwningAgent(ctx), ScriptedWork()
    work.cancel_error = PermissionError("not yours")
    start(ctx, work, agent)
    with caplog.at_level(logging.WARNING, "dsh_tools"):
        await agent.ctx.dispose()
    assert "test-1 could not be cancelled" in caplog.text
    assert ctx.jobs.list(agent) == []


async def test_the_services_end_cancels_and_waits_and_tells_nobody(no_leaks: None):
    # HOST-182
    ctx = create_context()
    fiber = ctx.plugin(JobsPlugin())
    await fiber
    ctx.jobs.look_after()
    heard: list[str] = []
    ctx.on(JOB_FINISHED, lambda finished: heard.append("finished"))
    ctx.on(JOBS_CHANGE, lambda: heard.append("change"))
    agent, works = OwningAgent(ctx), [ScriptedWork(), ScriptedWork()]
    jobs = ctx.jobs
    start(ctx, works[0], agent)
    start(ctx, works[1])
    heard.clear()
    await fiber.dispose()
    assert [work.reasons for work in works] == [["the jobs service ends"]] * 2
    assert set(heard) == {"change"}
    assert jobs.list(agent) == []
    with pytest.raises(JobError):
        jobs.start(kind="test", label="late", run=works[0])
    await agent.ctx.dispose()
    await ctx.dispose()


# ── making work ───────────────────────────────────────────────────────────────


async def test_an_async_function_as_a_job(ctx: Context):
    go_on = asyncio.Event()

    async def body(run: JobRun) -> str:
        run.write("begun\n")
        await go_on.wait()
        return "result"

    job = start(ctx, task_work(body))
    await settled()
    assert ctx.jobs.read(job).text == "begun\n"
    go_on.set()
    info = await ctx.jobs.wait(job, timeout_ms=10_000)
    assert info.status == "completed"
    assert ctx.jobs.read(job).text == "result"


async def test_an_async_function_that_fails_or_is_cancelled(ctx: Context):
    async def fail(run: JobRun) -> None:
        raise ValueError("bad input")

    async def hang(run: JobRun) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            run.write(f"stopped: {run.signal.reason}")

    failed = await ctx.jobs.wait(start(ctx, task_work(fail)), timeout_ms=10_000)
    assert (failed.status, failed.detail) == ("failed", "bad input")
    job = start(ctx, task_work(hang))
    await settled()
    ctx.jobs.cancel(job, reason="enough")
    info = await ctx.jobs.wait(job, timeout_ms=10_000)
    assert (info.status, info.detail) == ("killed", "enough")
    assert ctx.jobs.read(job).text == "stopped: enough"


async def test_a_function_that_ignores_its_cancellation_completes(ctx: Context):
    # HOST-177: the work reports how it ended
    async def stubborn(run: JobRun) -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "finished all the same"
        return ""

    job = start(ctx, task_work(stubborn))
    await settled()
    ctx.jobs.cancel(job)
    assert (await ctx.jobs.wait(job, timeout_ms=10_000)).status == "completed"


def test_of_unread_output_the_end_is_kept():
    output = JobOutput(keep_chars=10)
    for number in range(100):
        output.write(f"{number:02d}\n")
    text = output.read_new()
    assert text == "[290 characters dropped]\n\n97\n98\n99\n"
    assert output.read_new() == ""
    output.write("more")
    assert output.read_new() == "more"
