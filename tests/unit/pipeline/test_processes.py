"""Bodies in processes of their own: what crosses, how they are stopped, and that nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support import process_bodies as bodies
from tests.support.calls import ABORTED_AFTER, ABORTED_BEFORE, app, error, make_tool, run, text_of

from dsh_tools import Context, ToolFailure, ToolSuccess, define_tool, tool
from dsh_tools.errors import DefinitionError, InvalidTimeoutError
from dsh_tools.kernel import AbortController
from dsh_tools.pipeline.process import BodyProcesses
from dsh_tools.pipeline.threads import NotBegun
from dsh_tools.services import TimeoutPlugin
from dsh_tools.tools import ErrorInfo

ROOT = Path(__file__).parents[3]


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    async with app(process_grace_ms=200, spare_processes=0) as context:
        yield context


@pytest.fixture
async def patient(no_leaks: None) -> AsyncIterator[Context]:
    """For bodies that end by themselves when they are told to, however slow the machine is."""
    async with app(process_grace_ms=90_000, spare_processes=0) as context:
        yield context


def process_tool(body: Any, **fields: Any) -> Any:
    return make_tool(execute=body, isolation="process", **fields)


async def outcome(ctx: Context, body: Any, arguments: Any = None, **fields: Any) -> Any:
    with contextlib.suppress(Exception):
        ctx.tools.register(process_tool(body))
    return await run(ctx, arguments=arguments, **fields)


async def appears(path: Path) -> str:
    while not path.exists():
        await asyncio.sleep(0.01)
    return path.read_text()


async def until_gone(pids: list[int]) -> None:
    """Fail, by the test's time limit, unless these processes end."""
    while any(is_alive(pid) for pid in pids):
        await asyncio.sleep(0.02)


def end_limit_at_progress(ctx: Context) -> None:
    """Let the time limit of a call be up at its first progress, however slow the machine is."""

    def expire(*_: object) -> None:
        for timer in asyncio.get_running_loop()._scheduled:  # type: ignore[attr-defined]
            if not timer.cancelled() and getattr(timer._callback, "__qualname__", "") == "_Deadline._expire":
                timer._callback()

    ctx.on("tools/progress", expire)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# ── what crosses ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("body", [bodies.echo, bodies.echo_later])
async def test_values_cross_unchanged(ctx: Context, body: Any) -> None:
    ctx.tools.register(process_tool(body))
    values = [None, True, 0, -1, 2**70, 1.5, 1e300, "", "ü\n\ud800", [], {"a": [{"b": None}]}]
    for value in (values, "v\n{}"):
        result = await run(ctx, arguments={"value": value})
        assert isinstance(result, ToolSuccess)
        assert result.value == value
    assert [type(item) for item in values[:8]] == [
        type(item) for item in (await run(ctx, arguments={"value": values})).value[:8]
    ]  # type: ignore[union-attr]


async def test_a_call_has_a_process_of_its_own_where_the_host_is(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ctx.tools.register(process_tool(bodies.where))
    before = os.getcwd()
    first = (await run(ctx, call_id="c1", root_call_id="r1")).value  # type: ignore[union-attr]
    # The next process has been started already; it goes where the host is by now.
    monkeypatch.setenv("DSH_TEST_VARIABLE", "b\udcff")
    monkeypatch.chdir(tmp_path)
    second = (await run(ctx, call_id="c2")).value  # type: ignore[union-attr]
    assert first["call"] == ["c1", "r1", "t"]
    assert (first["agent"], first["live"], first["stdin"]) == (None, False, "")
    assert len({first["pid"], second["pid"], os.getpid()}) == 3
    assert first["group"] == first["pid"]
    assert first["session"] != os.getsid(0)
    assert (first["folder"], first["variable"]) == (os.path.realpath(before), None)
    assert (second["folder"], second["variable"]) == (str(tmp_path), "b\udcff")


async def test_progress_contexts_and_the_end_of_the_turn_cross(ctx: Context) -> None:
    # PIPE-169, 173
    seen: list[object] = []
    ctx.on("tools/progress", lambda _execution, value: seen.append(value))
    result = await outcome(ctx, bodies.report)
    assert isinstance(result, ToolSuccess)
    assert seen == ["one", {"percent": 50}, "<class 'object'>", "\ud800"]
    contexts = result.additional_contexts
    assert contexts
    assert [text_of(message) for message in contexts] == ["a context", "a message"]  # type: ignore[arg-type]
    assert result.concludes_turn is True


async def test_progress_comes_while_the_body_runs_and_in_whole_pieces(ctx: Context) -> None:
    seen: list[str] = []
    ctx.on("tools/progress", lambda _execution, value: seen.append(value))
    result = await outcome(ctx, bodies.many_reports)
    assert isinstance(result, ToolSuccess)
    assert len(seen) == 200
    assert all(len(piece.partition(" ")[2]) == 5000 for piece in seen)
    for thread in range(4):
        assert [piece.split()[0] for piece in seen if piece.startswith(f"{thread}-")] == [
            f"{thread}-{number}" for number in range(50)
        ]


async def test_large_values_and_arguments_cross(ctx: Context) -> None:
    ctx.tools.register(process_tool(bodies.echo))
    text = "ä" * 4_000_000
    result = await run(ctx, arguments={"value": text})
    assert isinstance(result, ToolSuccess)
    assert result.value == text


async def test_a_value_too_large_is_a_failed_call(ctx: Context) -> None:
    result = await outcome(ctx, bodies.big, {"size": 65 << 20})
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("ToolOutputError", "INVALID_TOOL_OUTPUT")
    assert "at most 67108864 come out of a process" in result.error.message


async def test_a_value_too_deep_for_json_text_is_a_failed_call(ctx: Context) -> None:
    ctx.tools.register(process_tool(bodies.deep))
    assert isinstance(await run(ctx, arguments={"levels": 500}), ToolSuccess)
    result = await run(ctx, arguments={"levels": 600})
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("ToolProcessError", "TOOL_PROCESS_FAILED")
    assert "512" in result.error.message


# ── what goes wrong ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("body", [bodies.fail, bodies.fail_later])
async def test_what_a_body_raises_is_a_failed_call_with_its_text(ctx: Context, body: Any) -> None:
    # PIPE-8 to 12, 131
    ctx.tools.register(process_tool(body))
    expected = {
        "value": error("a plain error"),
        "coded": error("a typed error", ErrorInfo("ToolError", "OUT_OF_PAPER")),
        "exit": error("left by sys.exit"),
        "silent": error("RuntimeError"),
        "surrogate": error("half \\ud800 of a pair"),
        "cancelled": error('tool "t" raised CancelledError although nobody cancelled it'),
        "interrupt": error("KeyboardInterrupt"),
    }
    if body is bodies.fail:
        expected["stop-iteration"] = error("stop")
    else:
        expected = {how: expected[how] for how in ("value", "exit", "cancelled")}
    for how, result in expected.items():
        assert await run(ctx, arguments={"how": how}) == result, how


async def test_a_value_that_is_no_json_is_reported_as_from_any_body(ctx: Context) -> None:
    # PIPE-222
    async def here(args: Any, run: Any) -> Any:
        return {1, 2}

    ctx.tools.register(make_tool("here", here))
    ctx.tools.register(process_tool(bodies.fail))
    far, near = await run(ctx, arguments={"how": "set"}), await run(ctx, "here")
    assert isinstance(far, ToolFailure)
    assert isinstance(near, ToolFailure)
    assert far.error.info == near.error.info
    assert text_of(far).replace('"t"', '"here"') == text_of(near)


async def test_a_process_that_ends_before_its_body_is_a_failed_call(ctx: Context) -> None:
    ctx.tools.register(process_tool(bodies.fail))
    info = ErrorInfo("ToolProcessError", "TOOL_PROCESS_FAILED")
    assert await run(ctx, arguments={"how": "crash"}) == error(
        "the tool's process was ended by signal 11 before the tool returned", info
    )
    assert await run(ctx, arguments={"how": "gone"}) == error(
        "the tool's process exited with code 7 before the tool returned", info
    )
    # The next call has a process of its own again.
    assert await run(ctx, arguments={"how": "value"}) == error("a plain error")


async def test_unexpected_errors_are_masked_and_logged_with_their_trace(
    no_leaks: None, caplog: pytest.LogCaptureFixture
) -> None:
    async with app(mask_errors=True, spare_processes=0) as ctx:
        ctx.tools.register(process_tool(bodies.fail))
        assert text_of(await run(ctx, arguments={"how": "coded"})) == "Error: a typed error"
        assert "error id" in text_of(await run(ctx, arguments={"how": "value"}))
    assert "process_bodies.py" in caplog.text
    assert "ValueError: a plain error" in caplog.text


async def test_what_is_no_frame_is_passed_over(ctx: Context, caplog: pytest.LogCaptureFixture) -> None:
    # The body writes to a descriptor that it found; what it returns still counts, or the call fails.
    result = await outcome(ctx, bodies.fail, {"how": "garbage"})
    assert text_of(result) in ("all the same", "Error: [Errno 9] Bad file descriptor")


async def test_a_module_that_has_gone_is_named(ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "passing.py").write_text("def body(args, run):\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import passing  # type: ignore[import-not-found]

    ctx.tools.register(process_tool(passing.body))
    assert isinstance(await run(ctx), ToolSuccess)
    (tmp_path / "passing.py").write_text("raise OSError('no disk')\n")
    result = await run(ctx)
    assert isinstance(result, ToolFailure)
    assert result.error.message == ('the process could not import "body" of the module "passing": OSError: no disk')


# ── being stopped ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("body", [bodies.sleep_long, bodies.sleep_long_async])
async def test_a_limit_interrupts_the_body_which_cleans_up(patient: Context, tmp_path: Path, body: Any) -> None:
    # HOST-133, 134
    await patient.plugin(TimeoutPlugin())
    end_limit_at_progress(patient)
    patient.tools.register(process_tool(body, timeout_ms=90_000))
    result = await run(patient, arguments={"folder": str(tmp_path)})
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("ToolTimeoutError", "TOOL_TIMEOUT")
    assert text_of(result).splitlines()[:3] == [
        "Error: tool call timed out after 90000ms",
        "[output before the limit]",
        "sleeping",
    ]
    assert (tmp_path / "cleaned").read_text() == "True"


async def test_a_body_that_ignores_the_request_is_killed(ctx: Context, tmp_path: Path) -> None:
    await ctx.plugin(TimeoutPlugin())
    end_limit_at_progress(ctx)
    ctx.tools.register(process_tool(bodies.deaf, timeout_ms=90_000))
    result = await run(ctx, arguments={"folder": str(tmp_path)})
    assert isinstance(result, ToolFailure)
    assert result.error.info == ErrorInfo("ToolTimeoutError", "TOOL_TIMEOUT")
    assert text_of(result).splitlines() == [
        "Error: tool call timed out after 90000ms",
        "[output before the limit]",
        "deaf",
        "[the tool has stopped: it did not end by itself, and its process was killed]",
    ]
    assert not is_alive(int((tmp_path / "body").read_text()))


async def test_everything_that_the_body_has_started_is_killed(ctx: Context, tmp_path: Path) -> None:
    controller = AbortController()
    ctx.tools.register(process_tool(bodies.deaf_family))
    task = asyncio.create_task(run(ctx, arguments={"folder": str(tmp_path)}, signal=controller.signal))
    family: list[int] = [int(pid) for pid in (await appears(tmp_path / "family")).strip("[]").split(",")]
    assert len(family) == 5
    assert all(is_alive(pid) for pid in family)
    controller.abort()
    assert await task == ABORTED_AFTER
    assert not [pid for pid in family if is_alive(pid)]


async def test_what_a_body_leaves_behind_is_ended_with_it(
    ctx: Context, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = await outcome(ctx, bodies.deaf_family, {"folder": str(tmp_path), "leave": True})
    assert text_of(result) == "left"
    family = [int(pid) for pid in (tmp_path / "family").read_text().strip("[]").split(",")]
    assert not [pid for pid in family if is_alive(pid)]
    assert 'tool "t" has left 4 processes, which were ended' in caplog.text


async def test_code_that_lets_no_handler_run_is_killed(ctx: Context) -> None:
    controller = AbortController()
    ctx.on("tools/progress", lambda *_: controller.abort())
    assert await outcome(ctx, bodies.hold_the_lock, signal=controller.signal) == ABORTED_AFTER


async def test_a_body_that_reports_without_end_is_stopped(ctx: Context) -> None:
    controller = AbortController()
    seen: list[str] = []

    def progressed(_execution: Any, value: str) -> None:
        seen.append(value)
        if len(seen) == 500:
            controller.abort()

    ctx.on("tools/progress", progressed)
    assert await outcome(ctx, bodies.report_for_ever, signal=controller.signal) == ABORTED_AFTER
    assert len(seen) >= 500


async def test_a_late_value_is_no_success_and_a_late_error_is_kept(patient: Context) -> None:
    # PIPE-192, 193
    controller = AbortController()
    remove = patient.on("tools/progress", lambda *_: controller.abort())
    patient.tools.register(process_tool(bodies.answer_when_stopped))
    assert await run(patient, signal=controller.signal) == ABORTED_AFTER
    remove()
    other = AbortController()
    patient.on("tools/progress", lambda *_: other.abort())
    patient.tools.register(make_tool("u", bodies.raise_when_stopped, isolation="process"))
    assert await run(patient, "u", signal=other.signal) == error("stopped at 40%")


async def test_cancelling_the_task_ends_the_process_first(ctx: Context, tmp_path: Path) -> None:
    # D30
    results: list[Any] = []
    ctx.on("tools/result", lambda _execution, result: results.append(result))
    ctx.tools.register(process_tool(bodies.deaf))
    task = asyncio.create_task(run(ctx, arguments={"folder": str(tmp_path)}))
    pid = int(await appears(tmp_path / "body"))
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(pid)
    assert results == [ABORTED_AFTER]


async def test_a_call_that_is_aborted_while_it_waits_never_runs(no_leaks: None, tmp_path: Path) -> None:
    # PIPE-199, 224
    async with app(max_processes=1, process_grace_ms=50, spare_processes=0) as ctx:
        ctx.tools.register(process_tool(bodies.deaf))
        ctx.tools.register(make_tool("next", bodies.echo, isolation="process"))
        first, waiting, cancelled = AbortController(), AbortController(), asyncio.Event()
        running = asyncio.create_task(run(ctx, arguments={"folder": str(tmp_path)}, signal=first.signal))
        await appears(tmp_path / "body")
        aborted = asyncio.create_task(run(ctx, "next", signal=waiting.signal))
        native = asyncio.create_task(run(ctx, "next", call_id="native"))
        patient = asyncio.create_task(run(ctx, "next", {"value": 1}))
        results: dict[str, Any] = {}
        ctx.on("tools/result", lambda execution, result: results.setdefault(execution.call_id, result))
        await asyncio.sleep(0.05)
        assert ctx.tools.service.processes.running == 1
        waiting.abort()
        native.cancel()
        assert await aborted == ABORTED_BEFORE
        with pytest.raises(asyncio.CancelledError):
            await native
        assert results["native"] == ABORTED_BEFORE
        assert not patient.done()
        first.abort()
        assert await running == ABORTED_AFTER
        assert text_of(await patient) == "1"
        assert not cancelled.is_set()


async def test_a_place_goes_to_whoever_waits_and_not_to_a_newcomer(no_leaks: None, tmp_path: Path) -> None:
    async with app(max_processes=1, process_grace_ms=50, spare_processes=0) as ctx:
        processes = ctx.tools.service.processes
        most: list[int] = []
        newcomers: list[asyncio.Task[Any]] = []

        def settled(execution: Any, _result: Any) -> None:
            # The place has just been given to a waiting call, which has not moved yet.
            if execution.name == "deaf":
                newcomers.append(asyncio.create_task(run(ctx, "next", {"value": "newcomer"})))

        ctx.on("tools/result", settled)
        ctx.on("tools/state", lambda *_: most.append(processes.running))
        ctx.tools.register(make_tool("deaf", bodies.deaf, isolation="process"))
        ctx.tools.register(make_tool("next", bodies.echo, isolation="process"))
        controller = AbortController()
        first = asyncio.create_task(run(ctx, "deaf", {"folder": str(tmp_path)}, signal=controller.signal))
        await appears(tmp_path / "body")
        cancelled = asyncio.create_task(run(ctx, "next", {"value": "cancelled"}))
        waiting = [asyncio.create_task(run(ctx, "next", {"value": number})) for number in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        controller.abort()
        # Whoever holds the place while it is cancelled gives it on.
        first.add_done_callback(lambda _task: cancelled.cancel())
        await first
        assert [text_of(result) for result in await asyncio.gather(*waiting, *newcomers)] == ["0", "1", "newcomer"]
        with contextlib.suppress(asyncio.CancelledError):
            await cancelled
        assert max(most) == 1
        assert processes.running == 0


async def test_nobody_waits_behind_one_who_has_given_up(no_leaks: None) -> None:
    """The line is looked at in the very moment between a giving up and its notice."""
    processes = BodyProcesses(max_processes=1)
    controller = AbortController()
    await processes._enter(AbortController().signal)
    first = asyncio.create_task(processes._enter(controller.signal))
    await asyncio.sleep(0)
    controller.abort()
    processes._leave()
    second = asyncio.create_task(processes._enter(AbortController().signal))
    with pytest.raises(NotBegun):
        await first
    await second
    processes._leave()
    await processes._enter(AbortController().signal)


async def test_a_limit_that_is_up_before_the_turn_comes_says_so(no_leaks: None, tmp_path: Path) -> None:
    async with app(max_processes=1, process_grace_ms=50, spare_processes=0) as ctx:
        await ctx.plugin(TimeoutPlugin())
        ctx.tools.register(process_tool(bodies.deaf))
        ctx.tools.register(make_tool("next", bodies.echo, isolation="process", timeout_ms=30))
        controller = AbortController()
        running = asyncio.create_task(run(ctx, arguments={"folder": str(tmp_path)}, signal=controller.signal))
        await appears(tmp_path / "body")
        assert text_of(await run(ctx, "next")).splitlines() == [
            "Error: tool call timed out after 30ms",
            "[the tool was not started: its turn had not come yet]",
        ]
        controller.abort()
        await running


async def test_a_body_that_comes_back_twice_counts_once(ctx: Context) -> None:
    result = await outcome(ctx, bodies.fork_and_return)
    assert text_of(result) in ("parent", "child")


async def test_a_body_that_closes_everything_is_a_failed_call(ctx: Context) -> None:
    result = await outcome(ctx, bodies.close_everything)
    assert isinstance(result, ToolFailure)
    assert result.error.message == "the tool's process exited with code 1 before the tool returned"


async def test_names_that_are_no_text_cross(ctx: Context) -> None:
    ctx.tools.register(process_tool(bodies.where))
    result = await run(ctx, call_id="half \ud800 a pair")
    assert isinstance(result, ToolSuccess)
    assert result.value["call"][0] == "half \ud800 a pair"


async def test_the_host_need_not_run_in_its_main_thread(no_leaks: None) -> None:
    """The system tells a child of the end of the thread that started it; that is not the host's end."""

    async def work() -> str:
        async with app(spare_processes=0) as ctx:
            ctx.tools.register(process_tool(bodies.echo_later))
            return text_of(await run(ctx, arguments={"value": "from a thread"}))

    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(work())))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert found == ["from a thread"]


async def test_an_aborted_call_starts_no_process(ctx: Context) -> None:
    controller = AbortController()
    controller.abort()
    assert await outcome(ctx, bodies.echo, signal=controller.signal) == ABORTED_BEFORE


async def test_twenty_calls_at_once_are_bounded(no_leaks: None, tmp_path: Path) -> None:
    async with app(max_processes=4, spare_processes=0) as ctx:
        ctx.tools.register(process_tool(bodies.rendezvous))
        results = await asyncio.gather(*(run(ctx, arguments={"folder": str(tmp_path)}) for _ in range(20)))
    seen = [result.value for result in results]  # type: ignore[union-attr]
    assert len(seen) == 20
    assert max(seen) <= 4


# ── the end ───────────────────────────────────────────────────────────────────


async def test_disposal_ends_running_bodies_and_spare_processes(no_leaks: None, tmp_path: Path) -> None:
    async with app(process_grace_ms=50, spare_processes=2) as ctx:
        ctx.tools.register(process_tool(bodies.deaf))
        task = asyncio.create_task(run(ctx, arguments={"folder": str(tmp_path)}))
        pid = int(await appears(tmp_path / "body"))
        # A keeper and a worker each, for the body and for two spares.
        while len(psutil.Process().children(recursive=True)) < 6:
            await asyncio.sleep(0.02)
    result = await task
    assert isinstance(result, ToolFailure)
    assert "was disposed while the tool was running" in result.error.message
    assert not is_alive(pid)


async def test_without_spares_every_call_starts_its_own(no_leaks: None) -> None:
    async with app(spare_processes=0) as ctx:
        ctx.tools.register(process_tool(bodies.echo))
        assert text_of(await run(ctx, arguments={"value": "x"})) == "x"
        await asyncio.sleep(0.05)
        assert not psutil.Process().children(recursive=True)


async def test_a_spare_that_has_died_is_not_used(no_leaks: None) -> None:
    async with app() as ctx:
        ctx.tools.register(process_tool(bodies.echo))
        assert text_of(await run(ctx, arguments={"value": 1})) == "1"
        while not (spares := psutil.Process().children()):
            await asyncio.sleep(0.01)
        for spare in spares:
            spare.kill()
        while any(psutil.pid_exists(spare.pid) for spare in spares):
            await asyncio.sleep(0.01)
        assert text_of(await run(ctx, arguments={"value": 2})) == "2"


async def test_a_killed_keeper_takes_the_body_with_it(ctx: Context, tmp_path: Path) -> None:
    ctx.tools.register(process_tool(bodies.deaf))
    task = asyncio.create_task(run(ctx, arguments={"folder": str(tmp_path)}))
    pid = int(await appears(tmp_path / "body"))
    parent = psutil.Process(pid).ppid()
    os.kill(parent, signal.SIGKILL)
    result = await task
    assert isinstance(result, ToolFailure)
    assert result.error.message == "the tool's process was killed before the tool returned"
    await until_gone([pid])


async def stopped_keeper(ctx: Context, folder: Path, **arguments: Any) -> tuple[Any, list[int]]:
    ctx.tools.register(process_tool(bodies.stop_the_keeper, name="stops"))
    task = asyncio.create_task(run(ctx, "stops", arguments={"folder": str(folder), **arguments}))
    pids = [int(pid) for pid in (await appears(folder / "pids")).split(",")]
    return task, pids


async def test_a_stopped_keeper_does_its_work_all_the_same(ctx: Context, tmp_path: Path) -> None:
    task, pids = await stopped_keeper(ctx, tmp_path)
    task.cancel()
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not any(is_alive(pid) for pid in pids)


@pytest.mark.parametrize(
    ("then", "text"),
    [("return", "returned"), ("crash", "Error: the tool's process exited with code 7 before the tool returned")],
)
async def test_a_stopped_keeper_reports_how_its_worker_ended(
    ctx: Context, tmp_path: Path, then: str, text: str
) -> None:
    task, pids = await stopped_keeper(ctx, tmp_path, then=then)
    async with asyncio.timeout(20):
        assert text_of(await task) == text
    await until_gone(pids)


async def test_a_keeper_that_is_kept_from_its_work_is_killed_with_all_the_rest(
    ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dsh_tools.pipeline.process.insistence.KILL_FOR", 0.2)
    monkeypatch.setattr("dsh_tools.pipeline.process.insistence._MARGIN", 0.2)
    executions: list[Any] = []
    ctx.on("tools/result", lambda execution, _result: executions.append(execution))
    send = subprocess.Popen.send_signal

    def never_wake(process: Any, number: int) -> None:
        """As if somebody stopped it again each time."""
        if number != signal.SIGCONT:
            send(process, number)

    monkeypatch.setattr(subprocess.Popen, "send_signal", never_wake)
    task, pids = await stopped_keeper(ctx, tmp_path)
    task.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await task
    await until_gone(pids)
    assert executions[0].stop.ending == "killed"
    assert "the keeper of a tool's process does not answer" in caplog.text


HOST = """
import asyncio, sys
from dsh_tools import ToolCall, create_context
from dsh_tools.pipeline import ToolsPlugin
from tests.support.calls import make_tool
from tests.support.process_bodies import deaf_family, stop_the_keeper

async def main():
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin())
        ctx.tools.register(make_tool(execute=deaf_family if len(sys.argv) < 3 else stop_the_keeper, isolation="process"))
        await ctx.tools.execute(ToolCall("t", {"folder": sys.argv[1]}))

asyncio.run(main())
"""


async def test_nothing_outlives_a_host_that_is_killed(tmp_path: Path) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path)], cwd=ROOT)
    try:
        family = [int(pid) for pid in (await appears(tmp_path / "family")).strip("[]").split(",")]
        everything = [child.pid for child in psutil.Process(host.pid).children(recursive=True)]
        assert set(family) - set(everything) <= {family[3]}, "the orphan has another parent, the others are ours"
        await asyncio.sleep(0.3)  # so that a spare is there, too
        everything += [child.pid for child in psutil.Process(host.pid).children(recursive=True)]
    finally:
        host.kill()
        host.wait()
    await until_gone([*family, *everything])


async def test_a_stopped_keeper_does_not_outlive_its_host(tmp_path: Path) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path), "stop"], cwd=ROOT)
    try:
        pids = [int(pid) for pid in (await appears(tmp_path / "pids")).split(",")]
        # The host wakes it now and then; it is stopped when the host dies.
        os.kill(pids[0], signal.SIGSTOP)
    finally:
        host.kill()
        host.wait()
    await until_gone(pids)


# ── definitions ───────────────────────────────────────────────────────────────


async def test_typed_bodies_are_converted_in_their_process(ctx: Context) -> None:
    ctx.tools.register(
        define_tool(
            name="move", description="", parameters=bodies.Point, output=bodies.Point,
            execute=bodies.move, isolation="process", timeout_ms=60_000,
        )
    )  # fmt: skip
    ctx.tools.register(
        define_tool(
            name="add_up", description="", parameters=bodies.Point, output=bodies.Sum,
            execute=bodies.add_up, isolation="process",
        )
    )  # fmt: skip
    ctx.tools.register(bodies.shift)
    ctx.tools.register(bodies.shift_later)
    ctx.tools.register(tool(isolation="process")(bodies.undecorated))
    assert (await run(ctx, "move", {"x": 1})).value == {"x": 2, "y": 1}  # type: ignore[union-attr]
    assert (await run(ctx, "add_up", {"x": 1, "y": 2})).value == {"total": 3}  # type: ignore[union-attr]
    points = [{"x": 1, "y": 1}]
    assert (await run(ctx, "shift", {"points": points})).value == [{"x": 2, "y": 2}]  # type: ignore[union-attr]
    assert (await run(ctx, "shift_later", {"point": points[0]})).value == {"x": 2, "y": 1}  # type: ignore[union-attr]
    assert (await run(ctx, "undecorated", {"number": 4})).value == 8  # type: ignore[union-attr]
    # Called as functions they run here.
    assert bodies.shift_later.isolation == "process"
    assert await bodies.shift_later(bodies.Point(1)) == bodies.Point(2)


async def test_functions_of_classes_are_found(ctx: Context) -> None:
    ctx.tools.register(make_tool("a", bodies.Holder.static, isolation="process"))
    ctx.tools.register(make_tool("b", bodies.Holder.of_class, isolation="process"))
    assert text_of(await run(ctx, "a")) == "static"
    assert text_of(await run(ctx, "b")) == "Holder"


def local(args: Any, run: Any) -> str:
    return "here"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (lambda args, run: 1, "a lambda has no name"),
        (bodies.Holder().method, "Holder.method is the method of an object"),
        (bodies.Holder(), "Holder objects have no name of their own"),
    ],
)
async def test_what_no_process_can_find_is_refused_with_advice(ctx: Context, body: Any, why: str) -> None:
    def closure(args: Any, run: Any) -> str:
        return why

    for given, reason in ((body, why), (closure, "closure is defined inside a function")):
        with pytest.raises(DefinitionError) as refused:
            ctx.tools.register(process_tool(given))
        assert reason in refused.value.message
        assert "at the top level of a module" in refused.value.message
        with pytest.raises(DefinitionError, match="cannot run in a process of its own"):
            define_tool(name="t", description="", parameters={}, output=str, execute=given, isolation="process")


async def test_a_name_that_leads_elsewhere_is_refused_at_registration(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DefinitionError, match='"replaced" is something else in the module'):
        ctx.tools.register(process_tool(bodies.the_first))
    ctx.tools.register(process_tool(bodies.replaced))
    ctx.tools.register(make_tool("local", local, isolation="process"))
    monkeypatch.delattr(sys.modules[__name__], "local")
    with pytest.raises(DefinitionError, match='"local" is not in the module'):
        ctx.tools.register(make_tool("other", execute=_KEPT, isolation="process"))


_KEPT = local


def test_a_tool_inside_a_function_is_refused_when_it_is_made() -> None:
    with pytest.raises(DefinitionError, match="inner is defined inside a function"):

        @tool(isolation="process")
        def inner() -> int:
            """Inner."""
            return 1

    @dataclass_like
    class Local:
        x: int

    with pytest.raises(DefinitionError, match="put their classes at the top level of a module"):
        define_tool(name="t", description="", parameters=Local, output=str, execute=bodies.echo, isolation="process")


def dataclass_like(cls: type) -> Any:
    import dataclasses

    return dataclasses.dataclass(cls)


def test_contradicting_options_are_refused() -> None:
    with pytest.raises(DefinitionError, match="drop run_in_thread"):
        tool(isolation="process", run_in_thread=True)(bodies.undecorated)
    with pytest.raises(DefinitionError, match='isolation must be "process" or left out'):
        tool(isolation="thread")(bodies.undecorated)  # type: ignore[call-overload]
    with pytest.raises(InvalidTimeoutError, match='give it isolation="process"'):
        tool(timeout_ms=5)(bodies.undecorated)
    with pytest.raises(DefinitionError, match='isolation must be "task", "thread" or "process"'):
        define_tool(
            name="t",
            description="",
            parameters={},
            output=str,
            execute=bodies.echo,
            isolation="moon",  # type: ignore[call-overload]
        )


async def test_a_limit_on_a_thread_is_refused_with_the_process_as_advice(ctx: Context) -> None:
    # D44
    with pytest.raises(InvalidTimeoutError, match='cannot be stopped; give it isolation="process"'):
        ctx.tools.register(make_tool(execute=bodies.echo, isolation="thread", timeout_ms=5))
    ctx.tools.register(process_tool(bodies.echo, timeout_ms=5))


SCRIPT = """
import asyncio
from dataclasses import dataclass
from dsh_tools import ToolCall, create_context, tool
from dsh_tools.pipeline import ToolsPlugin

@dataclass
class Pair:
    left: int
    right: int

@tool(isolation="process")
def swap(pair: Pair) -> Pair:
    "Swap."
    return Pair(pair.right, pair.left)

async def main():
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin())
        ctx.tools.register(swap)
        result = await ctx.tools.execute(ToolCall("swap", {"pair": {"left": 1, "right": 2}}))
        print(result.content[0].text)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["script", "module"])
def test_a_program_may_hold_its_own_bodies(tmp_path: Path, how: str) -> None:
    (tmp_path / "program.py").write_text(SCRIPT)
    command = ["program.py"] if how == "script" else ["-m", "program"]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["{", '"left":', "2,", '"right":', "1", "}"], done.stderr


def test_a_program_without_its_guard_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SCRIPT.replace('if __name__ == "__main__":\n    ', ""))
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    # The process ran the program, too; its own call was refused, and then it did what it was there for.
    assert "program.py calls a tool" in done.stderr
    assert "while its process imports it" in done.stderr
    assert done.stdout.split() == ["{", '"left":', "2,", '"right":', "1", "}"]


async def test_signals_that_the_host_has_blocked_reach_the_process(patient: Context, tmp_path: Path) -> None:
    controller = AbortController()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    try:
        patient.tools.register(process_tool(bodies.sleep_long))
        patient.on("tools/progress", lambda *_: controller.abort())
        assert await run(patient, arguments={"folder": str(tmp_path)}, signal=controller.signal) == ABORTED_AFTER
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert (tmp_path / "cleaned").read_text() == "True"


def test_a_body_that_was_typed_in_is_refused(tmp_path: Path) -> None:
    program = SCRIPT.replace('if __name__ == "__main__":\n    ', "")
    done = subprocess.run(
        [sys.executable, "-"], input=program, cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert "swap was typed in, and is in no file" in done.stderr
