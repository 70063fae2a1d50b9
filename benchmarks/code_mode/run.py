"""What does it cost to run a program, and what does each of its calls cost?

    make bench WHAT=code_mode [ARGS="--rounds 15 --json out.json"]

Programs run in Deno through the whole of Code Mode: ``run_code`` and every sub-call pass the pipeline. Beside them, in
the same run, stand echoes of JSON lines over the pipes of the same Deno binary: a plain one, whose Python side uses
asyncio's streams and ``json``, and the leanest one that Python can do; and an echo between a worker thread and its
parent in Node, where there is Node.

Rounds are short and interleaved, and the best of each counts, so that a busy machine hurts all alike. The last lines
are the ratios and whether each bar is kept; the status is 1 where one is not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import shutil
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dsh_tools.code_mode import CodeModePlugin
from dsh_tools.code_runtime import CodeRuntimePlugin
from dsh_tools.kernel import Context, create_context
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.tools import ToolCall, tool

HERE = Path(__file__).parent
# Calls in turn are timed in chunks, and the best chunk counts: the machine seldom leaves a long stretch alone.
CHUNKS, CHUNK = 50, 20
SLEEP_MS = 5

WARM_START_MS = 6.0
WARM_TO_COLD = 1 / 3
CALL_TO_ECHO = 1.6
OVERLAP = 5.0

# When the first statement ran, on the clock that the host has, too.
FIRST_STATEMENT = "return performance.timeOrigin + performance.now()"
IN_TURN = """
let best = Infinity;
for (let chunk = 0; chunk < CHUNKS; chunk++) {
  const start = performance.now();
  for (let i = 0; i < SIZE; i++) await tools.echo({ x: i });
  best = Math.min(best, ((performance.now() - start) * 1000) / SIZE);
}
return best;
"""
OVERLAPPED = """
await tools.echo({ x: 0 });
const start = performance.now();
await Promise.all(Array.from({ length: COUNT }, (_, x) => tools.echo({ x })));
return ((performance.now() - start) * 1000) / COUNT;
"""
SLEEPING = """
const start = performance.now();
if (TOGETHER) await Promise.all(Array.from({ length: 100 }, (_, x) => tools.nap({ x })));
else for (let x = 0; x < 100; x++) await tools.nap({ x });
return performance.now() - start;
"""


@tool(is_concurrency_safe=True)
async def echo(x: int) -> int:
    """Say it back."""
    return x


@tool(is_concurrency_safe=True)
async def nap(x: int) -> int:
    """Say it back, a little later."""
    await asyncio.sleep(SLEEP_MS / 1000)
    return x


@asynccontextmanager
async def application(pool_size: int) -> Any:
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin(), {"mode": "code"})
        await ctx.plugin(CodeRuntimePlugin(), {"pool_size": pool_size, "prewarm": False})
        await ctx.plugin(CodeModePlugin())
        ctx.tools.register(echo)
        ctx.tools.register(nap)
        yield ctx


async def run(ctx: Context, program: str) -> Any:
    result = await ctx.tools.execute(ToolCall("run_code", {"code": program}, call_id="bench"))
    if result.is_error:
        raise SystemExit(f"a program failed: {result.error.message}")
    return result.value.get("result")


async def start_ms(ctx: Context) -> float:
    begun = time.time() * 1000
    return await run(ctx, FIRST_STATEMENT) - begun


class EchoHost:
    """The parent of ``echo.ts``: reads a line, answers it."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self.child = child

    async def measure(self) -> float:
        """Microseconds for one round trip: a line read, decoded, encoded and written, by asyncio's streams."""
        reader, writer = self.child.stdout, self.child.stdin
        assert reader is not None
        assert writer is not None
        while True:
            message = json.loads(await reader.readline())
            if "us" in message:
                writer.write(b"{}\n")
                return message["us"]
            if "ready" in message:
                answer = {"chunks": CHUNKS, "size": CHUNK}
            else:
                answer = {"id": message["id"], "ok": True, "value": message["args"]["x"]}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()


class LeanHost(asyncio.Protocol):
    """The same with nothing between it and the pipe, and the fastest codec."""

    def __init__(self) -> None:
        self.figure: asyncio.Future[float] | None = None
        self.started = asyncio.Event()
        self._writer: Any = None
        self._decode = msgspec.json.Decoder().decode
        self._encode = msgspec.json.Encoder().encode
        self._held = b""

    @classmethod
    async def attach(cls, child: subprocess.Popen[bytes]) -> LeanHost:
        loop = asyncio.get_running_loop()
        host = cls()
        await loop.connect_read_pipe(lambda: host, child.stdout)
        host._writer, _ = await loop.connect_write_pipe(asyncio.Protocol, child.stdin)
        return host

    def data_received(self, data: bytes) -> None:
        *lines, self._held = (self._held + data).split(b"\n")
        for line in lines:
            message = self._decode(line)
            if "ready" in message:
                self.started.set()
            elif "us" in message and self.figure is not None:
                self.figure.set_result(message["us"])
                self._send({})
            else:
                self._send({"id": message["id"], "ok": True, "value": message["args"]["x"]})

    async def measure(self) -> float:
        await self.started.wait()
        self.started.clear()
        self.figure = asyncio.get_running_loop().create_future()
        self._send({"chunks": CHUNKS, "size": CHUNK})
        return await self.figure

    def _send(self, message: Any) -> None:
        self._writer.write(self._encode(message) + b"\n")


def echo_command() -> list[str]:
    from deno import find_deno_bin

    return [str(find_deno_bin()), "run", "--quiet", "--no-prompt", str(HERE / "echo.ts")]


@asynccontextmanager
async def echoes() -> Any:
    pipe = subprocess.PIPE
    plain = await asyncio.create_subprocess_exec(*echo_command(), stdin=pipe, stdout=pipe)
    lean = subprocess.Popen(echo_command(), stdin=pipe, stdout=pipe)
    try:
        yield EchoHost(plain), await LeanHost.attach(lean)
    finally:
        plain.kill()
        lean.kill()
        lean.wait()
        await plain.wait()


def node_echo() -> float | None:
    node = shutil.which("node")
    if node is None:
        return None
    done = subprocess.run([node, str(HERE / "node_echo.mjs")], capture_output=True, text=True, timeout=60, check=True)
    return float(done.stdout)


async def measure(rounds: int) -> dict[str, float]:
    best: dict[str, float] = {}

    def note(name: str, figure: float) -> None:
        best[name] = min(figure, best.get(name, figure))

    in_turn = IN_TURN.replace("CHUNKS", str(CHUNKS)).replace("SIZE", str(CHUNK))
    async with application(0) as cold, application(1) as warm, echoes() as (plain, lean):
        for _ in range(rounds):
            note("cold start, ms", await start_ms(cold))
            await warm.code_runtime.warm()
            await asyncio.sleep(0.05)
            note("warm start, ms", await start_ms(warm))
            await warm.code_runtime.warm()
            note("plain echo, us", await plain.measure())
            note("one sub-call of 1,000 in turn, us", await run(warm, in_turn))
            note("leanest echo, us", await lean.measure())
            for count in (10, 100):
                await warm.code_runtime.warm()
                note(f"one of {count} overlapped, us", await run(warm, OVERLAPPED.replace("COUNT", str(count))))
        for _ in range(3):
            for name, together in (("100 naps in turn, ms", "false"), ("100 naps together, ms", "true")):
                await warm.code_runtime.warm()
                note(name, await run(warm, SLEEPING.replace("TOGETHER", together)))
    node = node_echo()
    if node is not None:
        best["Node worker-thread echo, us"] = node
    return best


def ratios(best: dict[str, float]) -> list[tuple[str, float, str, bool]]:
    warm, cold = best["warm start, ms"], best["cold start, ms"]
    call = best["one sub-call of 1,000 in turn, us"] / best["plain echo, us"]
    overlap = best["100 naps in turn, ms"] / best["100 naps together, ms"]
    return [
        ("warm start to the first statement, ms", warm, f"<= {WARM_START_MS:g}", warm <= WARM_START_MS),
        ("warm start / cold start", warm / cold, "<= 1/3", warm / cold <= WARM_TO_COLD),
        ("sub-call / plain echo", call, f"<= {CALL_TO_ECHO:g}", call <= CALL_TO_ECHO),
        ("100 calls in turn / overlapped", overlap, f">= {OVERLAP:g}", overlap >= OVERLAP),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    best = asyncio.run(measure(options.rounds))
    print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, best of {options.rounds}\n")
    for name, figure in best.items():
        print(f"  {name:<34} {figure:10.2f}")
    print()
    verdicts = ratios(best)
    for name, ratio, bar, kept in verdicts:
        print(f"{name:<40} {ratio:8.3f}   {bar:<6} {'kept' if kept else 'MISSED'}")
    if options.json is not None:
        figures = {"figures": best, "ratios": {name: ratio for name, ratio, _, _ in verdicts}}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    sys.exit(0 if all(kept for *_, kept in verdicts) else 1)


if __name__ == "__main__":
    main()
