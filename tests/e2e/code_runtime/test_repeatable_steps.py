"""The steps of a deterministic program: its timers, and one answer at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.repeatable import START, Replayer, run_answered

from dsh_tools.code_runtime import (
    CodeRunError,
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
    DenoRuntime,
    Determinism,
    HostAnswer,
    MontyRuntime,
)
from dsh_tools.testing.runtime_host import OrderedHost

STUCK = "program is waiting for something that nothing pending can resolve"
DAY = 86_400_000


# ── timers ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("program", "calls", "logs"),
    [
        ("setTimeout(console.log, 5, 'a', 1); await tools.echo(0)", [("sleep", 5), ("echo", 0)], ["a 1"]),
        ("setTimeout(() => {}, -1); setTimeout(() => {}, NaN); setTimeout(() => {}, '7')", [("sleep", 0), ("sleep", 0), ("sleep", 7)], []),
        ("setTimeout(() => {}, 2 ** 31); setInterval(() => {}, 0)", [("sleep", 0), ("sleep", 1)], []),
        ("AbortSignal.timeout(7.9); AbortSignal.timeout(1e12)", [("sleep", 7), ("sleep", 2**31 - 1)], []),
        ("await new Promise((wake) => { let n = 0; const t = setInterval(() => { console.log(++n); if (n === 3) { clearInterval(t); wake(0); } }, 4); })",
         [("sleep", 4)] * 3, ["1", "2", "3"]),
        ("const t = setTimeout(() => console.log('never'), 5); clearTimeout(t); clearTimeout(t); clearTimeout(99); clearTimeout(); await tools.echo(0)",
         [("sleep", 5), ("echo", 0)], []),
        ("const s = AbortSignal.timeout(3); await new Promise((wake) => s.addEventListener('abort', wake)); console.log(s.reason.name)",
         [("sleep", 3)], ["TimeoutError"]),
        ("const t = setTimeout(() => { clearTimeout(t); console.log(typeof t) }, 1); await tools.echo(0)", [("sleep", 1), ("echo", 0)], ["number"]),
        ("for (const wrong of ['code', null]) try { setTimeout(wrong as any, 1) } catch (e) { console.log(e.name) }", [], ["TypeError", "TypeError"]),
        ("try { AbortSignal.timeout(-1) } catch (e) { console.log(e.name) }", [], ["TypeError"]),
    ],
)  # fmt: skip
async def test_timers_are_calls_of_the_host(
    deno: DenoRuntime, program: str, calls: list[tuple[str, Any]], logs: list[str]
):
    # D34
    host = OrderedHost(*range(9))
    assert await deno.run(host.request(program, "00")) == CodeRunResult(logs)
    assert host.calls == calls


async def test_sleeps_of_python_are_calls_of_the_host(monty: MontyRuntime):
    # D34
    program = """
import asyncio, time
async def nap(n):
    await asyncio.sleep(n)
    print(n)
later = tools.echo("later")
time.sleep(0.25)
print(time.time())
await asyncio.gather(nap(0.5), nap(0), nap(-1), nap(1e12))
print(await later)
"""
    host = OrderedHost(0, 1, 4, 3, 5, 2)
    result = await monty.run(host.request(program, "00"))
    assert result == CodeRunResult([f"{START / 1000 + 2}", "-1", "0", "1000000000000.0", "0.5", "later"])
    assert host.calls == [("echo", "later"), *(("sleep", ms) for ms in (250, 500, 0, 0, 2**31 - 1))]


async def test_a_timer_does_not_hold_up_the_end(runtime: CodeRuntime):
    answers: list[HostAnswer] = []

    def sleep(_: float) -> HostAnswer:
        answers.append(HostAnswer(loop=asyncio.get_running_loop()))
        return answers[-1]

    programs = {
        "typescript": "setTimeout(() => {}, 3600_000); return 1",
        "python": "import asyncio\nlater = asyncio.sleep(3600)\nreturn 1",
    }
    determinism = Determinism("00", START, sleep)
    result = await runtime.run(CodeRunRequest(programs[runtime.language], determinism=determinism))
    assert result.value == 1
    assert [answer.cancelled() for answer in answers] == [True]


async def test_a_cleared_timer_is_forgotten_on_both_sides(deno: DenoRuntime):
    # Its answer is cancelled, it keeps no program waiting, and ten thousand may follow each other
    answers: list[HostAnswer] = []

    def sleep(_: float) -> HostAnswer:
        answers.append(HostAnswer(loop=asyncio.get_running_loop()))
        return answers[-1]

    program = (
        "for (let i = 0; i < 20_001; i++) clearTimeout(setTimeout(() => {}, 3600_000)); await new Promise(() => {})"
    )
    result = await deno.run(CodeRunRequest(program, determinism=Determinism("00", START, sleep)))
    assert result.error == CodeRunError("exception", STUCK)
    assert len(answers) == 20_001
    assert all(answer.cancelled() for answer in answers)


async def test_an_answer_to_a_cleared_timer_does_nothing(deno: DenoRuntime):
    # The answers to both calls are on their way together: the first clears the timer of the second
    host = OrderedHost(1, 0, 2)
    program = "const t = setTimeout(() => console.log('never'), 5); await tools.echo(0); clearTimeout(t); return [Date.now(), await tools.echo(1)]"
    result = await deno.run(host.request(program, "00"))
    assert result == CodeRunResult([], [START + 1000, 1])


async def test_a_program_cannot_have_any_number_of_timers(deno: DenoRuntime):
    host = Replayer([], None)
    result = await deno.run(host.request("for (;;) setTimeout(() => {}, 1000)"))
    assert result.error is not None
    assert result.error.message.startswith("RangeError: more than 10000 timers at once")
    assert len(host.calls) == 10_000


@pytest.mark.parametrize("early", [True, False])
async def test_a_timer_that_the_host_cannot_keep_ends_the_run(runtime: CodeRuntime, early: bool):

    def sleep(_: float) -> HostAnswer:
        if early:
            raise ValueError("no clock")
        answer = HostAnswer(loop=asyncio.get_running_loop())
        answer.set_exception(ValueError("no clock"))
        return answer

    programs = {
        "typescript": "await new Promise((wake) => setTimeout(wake, 1))",
        "python": "import time\ntime.sleep(1)",
    }
    determinism = Determinism("00", START, sleep)
    result = await runtime.run(CodeRunRequest(programs[runtime.language], determinism=determinism))
    assert result.error == CodeRunError("worker-exit", "worker error: a timer failed: no clock")


async def test_what_a_timers_callback_throws_ends_the_run(deno: DenoRuntime):
    # CODE-171
    result = await run_answered(deno, "setTimeout(() => { throw new Error('oops') }, 1); await tools.echo(0)", (0, 1))
    assert result.error == CodeRunError("worker-exit", "worker error: oops")


# ── steps ─────────────────────────────────────────────────────────────────────


async def test_each_answer_is_a_step_of_its_own(deno: DenoRuntime):
    # Both answers come in one chunk; all that follows from the first is done before the second
    program = """
const slow = async (name: string) => {
  await tools.echo(name);
  for (let i = 0; i < 50; i++) { await null; console.log(name, i, Date.now()); }
};
await Promise.all([slow("a"), slow("b")]);
"""
    result = await deno.run(OrderedHost(1, 0).request(program, "00"))
    expected = [f"{name} {i} {START + 1000 * k}" for k, name in ((1, "b"), (2, "a")) for i in range(50)]
    assert result == CodeRunResult(expected)


async def test_a_rejection_counts_as_lost_at_the_end_of_its_step(deno: DenoRuntime):
    # CODE-171: whether it is caught in a later step must not depend on when that begins
    program = """
let lost: any;
const first = tools.echo(0).then(() => { lost = Promise.reject(new Error("lost")); });
await tools.echo(1);
await lost.catch(() => {});
return "caught";
"""
    for _ in range(5):
        assert (await run_answered(deno, program, (0, 1), (1, 2))).error == CodeRunError(
            "worker-exit", "worker error: lost"
        )


async def test_work_of_other_threads_ends_in_its_order(deno: DenoRuntime):
    program = """
const sizes = [3_000_000, 10, 1_000_000, 0];
const all = sizes.map((size, i) => crypto.subtle.digest("SHA-256", new Uint8Array(size)).then((d) => console.log(i, d.byteLength)));
tools.echo(0).then(() => console.log("reply"));
await Promise.all(all);
const key = await crypto.subtle.importKey("raw", new Uint8Array(8), { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
const mark = await crypto.subtle.sign({ name: "HMAC" }, key, new Uint8Array(3));
console.log(await crypto.subtle.verify("HMAC", key, mark, new Uint8Array(3)), await crypto.subtle.verify("HMAC", key, mark, new Uint8Array(4)));
for (const wrong of [() => crypto.subtle.sign("ECDSA", key, new Uint8Array(3)), () => crypto.subtle.digest("MD5", new Uint8Array(3))])
  await wrong().catch((error: any) => console.log(error.name));
await tools.echo(1);
"""
    result = await run_answered(deno, program, (0, 1), (1, 2))
    rest = ["true false", "NotSupportedError", "NotSupportedError", "reply"]
    assert result == CodeRunResult([*(f"{i} 32" for i in range(4)), *rest])


async def test_faults_in_arguments_have_the_place_of_their_call(monty: MontyRuntime):
    # An argument that JSON cannot hold is refused by this process, and waits for no other answer
    program = """
lost, kept = tools.echo((1, 2)), tools.echo(2)
import time
try:
    await lost
except ToolCallError as error:
    print(error, time.time())
print(await kept)
"""
    result = await run_answered(monty, program, (0, 1000))
    assert result.error is None
    assert result.logs == [f"binding arguments must be lossless JSON {START / 1000}", "0"]


async def test_more_calls_than_fit_at_once(monty: MontyRuntime):
    program = "import asyncio\nreturn len(await asyncio.gather(*[tools.echo(n) for n in range(1500)]))"
    assert (await run_answered(monty, program, *((n, n) for n in range(1500)))).value == 1500
