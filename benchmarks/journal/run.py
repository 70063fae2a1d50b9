"""What does it cost to keep the journal of a program, and to go on from it?

    make bench WHAT=journal [ARGS="--rounds 15 --json out.json"]

Programs run in Deno through the whole of Code Mode, in a session that SQLite keeps, with a journal and without. A call
is timed from one body to the next one's, on the host's clock, since a journaled program's own clock stands still
between its answers. Calls are taken in chunks, and the best chunk of a round counts; rounds are interleaved, and
everything that is printed is a median over them, the ratios those of each round.

The last lines are the ratios and whether each bar is kept; the status is 1 where one is not.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import platform
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

from dsh_tools.code_runtime import BindingNamespace, CodeRunRequest, HostAnswer
from dsh_tools.code_runtime.deno import DenoRuntime
from dsh_tools.kernel import Context
from dsh_tools.model import ScriptedModel, call, say
from dsh_tools.services import answer_question, open_questions
from dsh_tools.standard import standard
from dsh_tools.tools import tool

CALLS, CHUNK = 1000, 20
JOURNALED_TO_PLAIN = 1.25
RESUMED_TO_ECHO = 3.0

IN_TURN = f"for (let x = 0; x < {CALLS}; x++) await tools.echo({{ x }});"
THEN_ASK = f"{IN_TURN}\nreturn await tools.pay({{ x: 1 }});"

bodies: list[float] = []


@tool(is_concurrency_safe=True)
async def echo(x: int) -> int:
    """Say it back."""
    bodies.append(time.perf_counter())
    return x


@tool
async def pay(x: int) -> int:
    """Pay."""
    return x


@asynccontextmanager
async def application(folder: Path, *, journal: bool) -> AsyncGenerator[Context]:
    settings: dict[str, Any] = {
        "sessions": {"path": str(folder / "sessions.sqlite")},
        "tools": {"mode": "code"},
        "code": {"pool_size": 1},
        "approval": {"suspend_after": 0},
        "policy": {"rules": [{"tool": "pay", "action": "ask"}]},
        "journal": journal,
    }
    async with standard(**settings) as ctx:
        ctx.tools.register(echo)
        ctx.tools.register(pay)
        yield ctx


async def call_us(ctx: Context, name: str) -> float:
    """Microseconds for one call of a program, in the best chunk."""
    model = ScriptedModel([say("", call("run_code", code=IN_TURN)), say("done")])
    agent = await ctx.agents.create(name, model)
    bodies.clear()
    await agent.run("go")
    await agent.dispose()
    assert len(bodies) == CALLS
    ends = bodies[::CHUNK]
    return min(later - earlier for earlier, later in itertools.pairwise(ends)) / CHUNK * 1e6


async def resume_ms(folder: Path) -> float:
    """Milliseconds from the call of ``resume`` to its end, for a program that has made its calls and waits."""
    async with application(folder, journal=True) as ctx:
        log = await ctx.sessions.create()
        model = ScriptedModel([say("", call("run_code", code=THEN_ASK)), say("done")])
        agent = await ctx.agents.create("main", model, session=log)
        await agent.run("go")
        assert agent.is_waiting
    async with application(folder, journal=True) as ctx:
        await ctx.require("code_runtime").warm()
        (question,) = open_questions((await ctx.sessions.read(log.id)).events)
        await answer_question(ctx.sessions, log.id, question.id, "allowed-once")
        bodies.clear()
        agent = await ctx.agents.create(
            "main", ScriptedModel([say("done")]), session=await ctx.sessions.open(log.id, resume=True)
        )
        begun = time.perf_counter()
        outcome = await agent.resume()
        took = (time.perf_counter() - begun) * 1000
        assert outcome.text == "done"
        assert not bodies, "a journaled call has run again"
        await ctx.sessions.delete(log.id) if ctx.sessions.live(log.id) is None else None
    return took


async def echo_ms() -> float:
    """Milliseconds for a program with as many calls in the bare runtime: no pipeline, no session, no journal."""
    runtime = DenoRuntime()
    await runtime.warm()
    loop = asyncio.get_running_loop()

    def answer(arguments: Any) -> HostAnswer:
        given = HostAnswer(loop=loop)
        given.set_result(arguments["x"])
        return given

    begun = time.perf_counter()
    result = await runtime.run(CodeRunRequest(IN_TURN, (BindingNamespace("tools", {"echo": answer}),)))
    took = (time.perf_counter() - begun) * 1000
    assert result.error is None, result.error
    await runtime.dispose()
    return took


async def measure(rounds: int) -> dict[str, float]:
    plain: list[float] = []
    journaled: list[float] = []
    resumed: list[float] = []
    echoed: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        kept, loose, waiting = (Path(folder) / name for name in ("kept", "loose", "waiting"))
        async with application(loose, journal=False) as without, application(kept, journal=True) as with_journal:
            for number in range(rounds):
                plain.append(await call_us(without, f"plain-{number}"))
                journaled.append(await call_us(with_journal, f"journaled-{number}"))
        for _ in range(rounds):
            echoed.append(await echo_ms())
            resumed.append(await resume_ms(waiting))
    return {
        "call_us": median(plain),
        "journaled_call_us": median(journaled),
        "echo_ms": median(echoed),
        "resume_ms": median(resumed),
        # Of each round: a single lucky chunk on either side would decide about a ratio of the best ones.
        "journaled_to_plain": median(b / a for a, b in zip(plain, journaled, strict=True)),
        "resumed_to_echo": median(b / a for a, b in zip(echoed, resumed, strict=True)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = asyncio.run(measure(options.rounds))
    print(f"{platform.python_implementation()} {platform.python_version()}, {platform.system()}, {CALLS} calls\n")
    print(f"one call of a program in a session   {figures['call_us']:9.1f} µs")
    print(f"the same with a journal              {figures['journaled_call_us']:9.1f} µs")
    print(f"the calls in the bare runtime        {figures['echo_ms']:9.1f} ms")
    print(f"resuming a program that made them    {figures['resume_ms']:9.1f} ms\n")
    bars = (
        ("journaled / plain call", figures["journaled_to_plain"], JOURNALED_TO_PLAIN),
        ("resume / bare calls", figures["resumed_to_echo"], RESUMED_TO_ECHO),
    )
    kept = True
    for name, ratio, bar in bars:
        kept = kept and ratio <= bar
        print(f"{name:36} {ratio:6.2f}  (bar {bar})  {'kept' if ratio <= bar else 'MISSED'}")
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
