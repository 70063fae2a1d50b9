"""What every code runtime must do, as tests to inherit.

Subclass :class:`RuntimeConformance`, define the fixture ``make_runtime``, and pytest (in asyncio's
auto mode) runs the suite against your runtime::

    class TestMyRuntime(RuntimeConformance):
        @pytest.fixture
        async def make_runtime(self):
            runtimes = []

            def make(**config):
                runtimes.append(MyRuntime(RuntimeConfig(pool_size=0, **config)))
                return runtimes[-1]

            yield make
            for runtime in runtimes:
                await runtime.dispose()

The programs exist in the languages of :data:`dsh_tools.testing.runtime_programs.PROGRAMS`; a runtime
with another language brings its own by overriding ``programs``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec import UNSET

from ..code_runtime import (
    BindingNamespace,
    CodeRunError,
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
    ErrorClassSpec,
)
from ..errors import CodeRuntimeError
from ..json_value import depth_of
from ..kernel import AbortController, AbortSignal
from .runtime_host import Host, OrderedHost, holdings
from .runtime_programs import PROGRAMS

__all__ = ["Host", "MakeRuntime", "RuntimeConformance"]

MakeRuntime = Callable[..., CodeRuntime]

VALUES: list[Any] = [None, True, 0, -5, 1.5, 2**53, "é\n😀", [], {}, [{"a": [1, {}]}, "x"]]


class RuntimeConformance:
    """The suite. Rules are those of the behaviour contract for code runtimes."""

    @pytest.fixture
    def make_runtime(self) -> MakeRuntime:
        """Return a function that makes a runtime with some of the fields of ``RuntimeConfig``."""
        raise TypeError("define the fixture make_runtime")

    @pytest.fixture
    def host(self) -> Host:
        """Return fresh host functions."""
        return Host()

    def programs(self, runtime: CodeRuntime) -> Mapping[str, str]:
        """Return the suite's programs in the runtime's language."""
        return PROGRAMS[runtime.language]

    async def run(
        self, runtime: CodeRuntime, name: str, host: Host | None = None, signal: AbortSignal | None = None, **words: Any
    ) -> CodeRunResult:
        """Run one of the suite's programs, with ``@word@`` in it replaced."""
        program = self.programs(runtime)[name]
        for word, value in words.items():
            program = program.replace(f"@{word}@", str(value))
        bindings = [(host or Host()).namespace()]
        return await runtime.run(CodeRunRequest(program, bindings, signal))

    # ── the seam ──────────────────────────────────────────────────────────────

    async def test_it_says_what_it_is(self, make_runtime: MakeRuntime) -> None:
        """Language, isolation and version are labels (CODE-129)."""
        runtime = make_runtime()
        assert isinstance(runtime, CodeRuntime)
        assert isinstance(runtime.language, str)
        assert isinstance(runtime.isolation, str)
        assert isinstance(runtime.version, str)
        assert runtime.version == make_runtime().version

    async def test_a_program_prints_and_returns(self, make_runtime: MakeRuntime) -> None:
        """Logs in order, and the value (CODE-132)."""
        result = await self.run(make_runtime(), "hello")
        assert result == CodeRunResult(["one", "two"], {"answer": 42})

    async def test_returning_nothing_is_no_value(self, make_runtime: MakeRuntime) -> None:
        """A program that returns nothing has no value (CODE-173, D5)."""
        runtime = make_runtime()
        assert await self.run(runtime, "nothing") == CodeRunResult()
        assert (await self.run(runtime, "empty")).value is UNSET

    async def test_values_cross_unchanged_both_ways(self, make_runtime: MakeRuntime) -> None:
        """Arguments, results and completions arrive as they were sent (CODE-84, 95)."""
        runtime = make_runtime()
        values = {str(place): value for place, value in enumerate(VALUES)}
        seen: list[Any] = []

        async def give(args: Any) -> Any:
            assert args == {}
            return values

        async def take(args: Any) -> Any:
            seen.append(args)
            return True

        functions = {"give": give, "take": take}
        program = self.programs(runtime)["carry"]
        result = await runtime.run(CodeRunRequest(program, [BindingNamespace("tools", functions)]))
        assert (result.value, result.error, seen) == (values, None, [values])
        assert [type(item) for item in VALUES[:6]] == [type(seen[0][str(place)]) for place in range(6)]

    async def test_values_may_nest_5000_levels(self, make_runtime: MakeRuntime, host: Host) -> None:
        """Depth is no obstacle (CODE-84, 182)."""
        result = await self.run(make_runtime(), "deep", host, depth=5000)
        assert result.error is None
        assert depth_of(result.value) == 5000
        assert depth_of(host.calls[0][1]) == 5000

    async def test_arguments_are_frozen(self, make_runtime: MakeRuntime, host: Host) -> None:
        """A host function gets a snapshot (CODE-92)."""
        await self.run(make_runtime(), "hello_call", host)
        with pytest.raises(TypeError, match="frozen"):
            host.calls[0][1]["x"] = 1

    async def test_any_name_can_be_called(self, make_runtime: MakeRuntime, host: Host) -> None:
        """Names that are no identifiers are called by subscript (CODE-94)."""
        assert (await self.run(make_runtime(), "odd_name", host)).value == {"n": 1}

    async def test_a_failure_is_caught_in_the_program(self, make_runtime: MakeRuntime) -> None:
        """A failure has the message and the function's name (CODE-96, 138, 168)."""
        result = await self.run(make_runtime(), "caught")
        assert result.value == ["deliberate failure", "fail"]

    async def test_a_failure_that_is_not_caught_ends_the_program(self, make_runtime: MakeRuntime) -> None:
        """An uncaught failure is the kind ``exception`` (CODE-138, 169)."""
        error = (await self.run(make_runtime(), "uncaught")).error
        assert error is not None
        assert error.kind == "exception"
        assert "ToolCallError: deliberate failure" in error.message

    async def test_namespaces_and_error_classes_have_any_name(self, make_runtime: MakeRuntime, host: Host) -> None:
        """Nothing here is about tools (CODE-137)."""
        runtime = make_runtime()
        helpers = BindingNamespace("helpers", {"fail": host.fail}, ErrorClassSpec("HelperCallError", "helperName"))
        plain = BindingNamespace("plain", {"fail": host.fail})
        request = CodeRunRequest(self.programs(runtime)["other_names"], [host.namespace(), helpers, plain])
        result = await runtime.run(request)
        assert result.error is None
        assert result.value == [["deliberate failure", "fail"], "deliberate failure"]

    async def test_a_name_that_is_not_there_is_the_programs_error(self, make_runtime: MakeRuntime, host: Host) -> None:
        """An undeclared name never reaches the host (CODE-94)."""
        error = (await self.run(make_runtime(), "missing", host)).error
        assert error is not None
        assert error.kind == "exception"
        assert "missing" in error.message
        assert host.calls == []

    async def test_lossy_arguments_are_refused_before_the_host(self, make_runtime: MakeRuntime, host: Host) -> None:
        """What JSON cannot hold is refused in the program (CODE-85, 89, 90)."""
        result = await self.run(make_runtime(), "lossy_arguments", host)
        assert result.value == ["binding arguments must be lossless JSON"] * 3
        assert host.calls == []

    async def test_a_lossy_result_is_refused(self, make_runtime: MakeRuntime) -> None:
        """A host function that returns nonsense fails its call (CODE-91)."""
        result = await self.run(make_runtime(), "lossy_result")
        assert result.value == "binding resolution must be lossless JSON"

    @pytest.mark.parametrize("name", ["lossy_cycle", "lossy_function", "lossy_nan", "lossy_zero", "lossy_awaitable"])
    async def test_a_lossy_completion_is_invalid(self, make_runtime: MakeRuntime, name: str) -> None:
        """What JSON cannot hold is no completion (CODE-85, 173)."""
        error = (await self.run(make_runtime(), name)).error
        assert error == CodeRunError("invalid-output", "program completion must be lossless JSON")

    # ── calls ─────────────────────────────────────────────────────────────────

    async def test_calls_overlap(self, make_runtime: MakeRuntime, host: Host) -> None:
        """Calls run side by side (CODE-101)."""
        result = await self.run(make_runtime(), "overlap", host)
        assert result.value == [0, 1, 2, 3, 4]
        assert host.most_running == 5

    async def test_ten_thousand_calls(self, make_runtime: MakeRuntime, host: Host) -> None:
        """Calls start in the order of their submission, however many (CODE-100)."""
        result = await self.run(make_runtime(), "many", host, count=10_000)
        assert result.error is None
        assert result.value == 49_995_000
        assert [args["n"] for _, args in host.calls] == list(range(10_000))

    async def test_calls_that_nobody_awaits_end_with_the_run(self, make_runtime: MakeRuntime, host: Host) -> None:
        """What the program did not wait for is cancelled and awaited (CODE-147, 172)."""
        begun = time.monotonic()
        result = await self.run(make_runtime(), "not_awaited", host)
        assert result.value == "done"
        assert time.monotonic() - begun < 20
        assert host.running == 0
        assert host.cancelled == len(host.calls)

    # ── failures ──────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("name", ["throws", "syntax_error", "undefined_name"])
    async def test_program_errors(self, make_runtime: MakeRuntime, name: str) -> None:
        """A faulty program is the kind ``exception`` (CODE-158, 169, 177)."""
        error = (await self.run(make_runtime(), name)).error
        assert error is not None
        assert error.kind == "exception"
        assert error.message

    async def test_a_busy_loop_uses_its_compute_budget_up(self, make_runtime: MakeRuntime, host: Host) -> None:
        """A pending call is no excuse (CODE-141, 143, 146)."""
        result = await self.run(make_runtime(compute_ms=300), "spin", host)
        assert result == CodeRunResult(
            ["before"], error=CodeRunError("timeout", "compute budget exhausted (300ms busy)")
        )

    async def test_waiting_costs_no_compute(self, make_runtime: MakeRuntime) -> None:
        """Only CPU time counts (CODE-141)."""
        result = await self.run(make_runtime(compute_ms=400), "wait", seconds=1.0)
        assert result.value == "waited"

    async def test_a_run_ends_at_the_wall_clock(self, make_runtime: MakeRuntime) -> None:
        """The ceiling never pauses (CODE-142)."""
        result = await self.run(make_runtime(max_wall_ms=400), "wait", seconds=60)
        assert result.error == CodeRunError("timeout", "wall-clock ceiling reached (400ms)")

    async def test_memory_is_limited(self, make_runtime: MakeRuntime) -> None:
        """A bomb ends its own run (CODE-144, D4, D42)."""
        runtime = make_runtime(max_old_generation_size_mb=64)
        error = (await self.run(runtime, "memory_bomb")).error
        assert error == CodeRunError("worker-exit", "worker error: out of memory")
        assert (await self.run(runtime, "hello")).error is None

    async def test_an_abort_ends_the_run_and_keeps_the_logs(self, make_runtime: MakeRuntime, host: Host) -> None:
        """An abort stops a loop, too (CODE-143, 146)."""
        controller = AbortController()
        task = asyncio.ensure_future(self.run(make_runtime(), "call_then_spin", host, controller.signal))
        await asyncio.wait_for(host.started.wait(), 30)
        controller.abort("enough")
        assert await task == CodeRunResult(["before"], error=CodeRunError("abort", "enough"))
        assert controller.signal.callback_count == 0

    async def test_an_aborted_signal_starts_nothing(self, make_runtime: MakeRuntime, host: Host) -> None:
        """A signal that has fired before is the outcome (CODE-136)."""
        controller = AbortController()
        controller.abort(ValueError("too late"))
        result = await self.run(make_runtime(), "hello_call", host, controller.signal)
        assert result == CodeRunResult([], error=CodeRunError("abort", "too late"))
        assert host.calls == []

    async def test_a_cancelled_caller_gets_out_after_the_program_has_stopped(
        self, make_runtime: MakeRuntime, host: Host
    ) -> None:
        """Nothing goes on without its caller (D30)."""
        task = asyncio.ensure_future(self.run(make_runtime(), "call_then_spin", host))
        await asyncio.wait_for(host.started.wait(), 30)
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert host.running == 0

    # ── output ────────────────────────────────────────────────────────────────

    async def test_output_is_limited_to_the_byte(self, make_runtime: MakeRuntime) -> None:
        """An exact fit passes, one byte more does not (CODE-148, 150)."""
        fits = await self.run(make_runtime(max_output_bytes=11), "exact_fit")
        assert fits == CodeRunResult(["abc"], "xy")
        over = await self.run(make_runtime(max_output_bytes=10), "exact_fit")
        assert over.value is UNSET
        assert over.error == CodeRunError("output-limit", "outer ")

    async def test_too_much_printing_ends_the_run(self, make_runtime: MakeRuntime, host: Host) -> None:
        """The program cannot catch that, and what fits is kept (CODE-151, 152, 154)."""
        result = await self.run(make_runtime(max_output_bytes=300), "spam", host)
        assert result.error == CodeRunError("output-limit", "outer output exceeded 300 bytes")
        assert result.logs == [*(f"spam line {i}" for i in range(18)), "spa"]
        assert host.calls == []

    async def test_a_failure_too_large_to_tell_is_the_limit(self, make_runtime: MakeRuntime) -> None:
        """A message counts, too (CODE-153)."""
        result = await self.run(make_runtime(max_output_bytes=200), "throws_much")
        assert result.error == CodeRunError("output-limit", "outer output exceeded 200 bytes")

    # ── independence, and the end ─────────────────────────────────────────────

    async def test_nothing_survives_a_run(self, make_runtime: MakeRuntime) -> None:
        """Each run starts from nothing (CODE-156)."""
        runtime = make_runtime()
        assert (await self.run(runtime, "leave_something")).error is None
        assert (await self.run(runtime, "find_something")).value is False

    async def test_a_failed_run_leaves_the_others_alone(self, make_runtime: MakeRuntime) -> None:
        """Runs are independent (CODE-156, field-109)."""
        runtime = make_runtime(compute_ms=2000)
        bad = [self.run(runtime, name) for name in ("spin", "throws", "syntax_error")]
        results = await asyncio.gather(*bad, *(self.run(runtime, "hello") for _ in range(4)))
        assert all(result.error is not None for result in results[:3])
        assert all(result.value == {"answer": 42} for result in results[3:])
        assert (await self.run(runtime, "hello")).value == {"answer": 42}

    # ── deterministic programs ────────────────────────────────────────────────

    async def test_the_same_answers_give_the_same_course(self, make_runtime: MakeRuntime) -> None:
        """Clock, chance and the order of calls come from the request and its answers (D34)."""
        runtime = make_runtime()
        program = self.programs(runtime)["repeat"]
        courses: list[tuple[Any, Any]] = []
        for order, seed in (((0, 1, 2, 3), "a"), ((0, 1, 2, 3), "a"), ((1, 0, 2, 3), "a"), ((0, 1, 2, 3), "b")):
            host = OrderedHost(*order)
            result = await runtime.run(host.request(program, seed))
            assert result.error is None
            courses.append((result.value, host.calls))
        (first, calls), again, (other_order, other_calls), (other_seed, _) = courses
        assert again == (first, calls)
        assert first[4] - first[1] in (4, 4000)  # four answers later, in seconds or milliseconds
        assert [name for name, _ in calls] == ["sleep", "echo", "echo", "echo"]
        assert [args for _, args in calls[2:]] == ["timer", "after"]
        assert [args for _, args in other_calls[2:]] == ["after", "timer"]
        assert other_order == first
        assert other_seed[1] == first[1]
        assert other_seed[0] != first[0]

    # ── lifetime ──────────────────────────────────────────────────────────────

    async def test_disposal_ends_runs_and_refuses_new_ones(self, make_runtime: MakeRuntime, host: Host) -> None:
        """Disposal is an abort for all (CODE-174)."""
        runtime = make_runtime()
        task = asyncio.ensure_future(self.run(runtime, "call_then_spin", host))
        await asyncio.wait_for(host.started.wait(), 30)
        await asyncio.gather(runtime.dispose(), runtime.dispose())
        assert task.done()
        assert task.result() == CodeRunResult(["before"], error=CodeRunError("abort", "runtime disposed"))
        with pytest.raises(CodeRuntimeError, match=r"run\(\) after disposal"):
            await self.run(runtime, "hello")

    async def test_unusable_bindings_are_refused(self, make_runtime: MakeRuntime, host: Host) -> None:
        """Misuse raises (CODE-132 to 135)."""
        runtime = make_runtime()
        for name in ("await", "lambda", "a-b", "console"):
            with pytest.raises(CodeRuntimeError):
                await runtime.run(CodeRunRequest("", [BindingNamespace(name, {})]))
        with pytest.raises(CodeRuntimeError):
            await runtime.run(CodeRunRequest("", [host.namespace(), host.namespace()]))

    async def test_nothing_is_left_behind(self, make_runtime: MakeRuntime, host: Host) -> None:
        """No process, descriptor or task survives (CODE-174, 179)."""

        async def live() -> None:
            runtime = make_runtime(compute_ms=300)
            for name in ("hello", "uncaught", "spin", "not_awaited"):
                await self.run(runtime, name, host)
            await runtime.dispose()

        await live()  # what a library keeps for the whole process is there from now on
        before = holdings()
        await live()
        for _ in range(40):
            if holdings() == before:
                break
            await asyncio.sleep(0.05)
        assert holdings() == before
