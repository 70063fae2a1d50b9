"""``bash`` against commands that write without end, refuse to die, and leave things behind."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.calls import run, text_of
from tests.support.toolkits import error_of, failed, mounted, value_of

from dsh_tools.kernel import Context
from dsh_tools.kernel.abort import AbortController
from dsh_tools.toolkits import ShellPlugin
from dsh_tools.tools import ToolSuccess

GRACE = 0.3


@pytest.fixture
async def ctx(no_leaks: None, tmp_path: Path) -> AsyncIterator[Context]:
    async with mounted(ShellPlugin(), cwd=str(tmp_path), grace_ms=int(GRACE * 1000)) as context:
        yield context


def command(line: str, **more: Any) -> dict[str, Any]:
    return {"command": line, "description": "test", **more}


def alive(*needles: str) -> list[str]:
    """Processes whose command line has one of these words; zombies don't count."""
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if process.pid != os.getpid() and any(needle in line for needle in needles):
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(line)
        except psutil.Error:
            continue
    return found


async def longest_pause(until: asyncio.Event) -> float:
    """The longest time in which the event loop did not get round to a 1 ms timer."""
    worst = 0.0
    while not until.is_set():
        before = time.monotonic()
        await asyncio.sleep(0.001)
        worst = max(worst, time.monotonic() - before)
    return worst


# ── output ─────────────────────────────────────────────────────────────────────


async def test_a_flood_of_output_is_taken_and_the_loop_goes_on(ctx: Context, figure: Callable[[int, int], int]):
    # HOST-199: far more than 10 MB a second, on both streams.
    size = figure(60, 1000)
    done = asyncio.Event()
    pausing = asyncio.create_task(longest_pause(done))
    started = time.monotonic()
    before = psutil.Process().memory_info().rss
    line = f"yes out | head -c {size}M & yes err | head -c {size}M >&2; wait"
    value = await value_of(ctx, "bash", command(line))
    seconds = time.monotonic() - started
    done.set()
    assert value["stdout"]["truncated"]
    assert value["stderr"]["truncated"]
    assert len(value["stdout"]["text"]) == 64_000
    assert 2 * size / seconds > 20, f"{2 * size / seconds:.0f} MB/s"
    assert await pausing < 0.5
    assert psutil.Process().memory_info().rss - before < 80_000_000


async def test_a_flood_without_end_is_ended_by_its_time_limit(ctx: Context):
    # HOST-198
    started = time.monotonic()
    text = text_of(await run(ctx, "bash", command("yes", timeoutMs=400)))
    assert time.monotonic() - started < 3
    assert text.endswith("[timed out after 400ms]\n[killed by signal: SIGTERM]")


async def test_a_steady_stream_is_followed(ctx: Context):
    said: list[str] = []
    ctx.on("tools/progress", lambda execution, value: said.append(value))
    line = "for i in $(seq 50); do head -c 200000 /dev/zero | tr '\\0' x; echo; sleep 0.02; done"
    value = await value_of(ctx, "bash", command(line))
    assert value["stdout"]["truncated"]
    assert 3 < len(said) < 40
    assert max(map(len, said)) < 40_000


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("printf 'no end'", "no end"),
        ("printf 'no end'; exit 2", "no end\n[exit code: 2]"),
        ("printf 'a' >&2; printf 'b'", "b\n[stderr]\na"),
        ("printf '\\n'", "(no output)"),
        ("printf 'a\\n\\n'", "a\n"),
        ("printf 'caf\\xe9\\n'", "caf�"),
        ("printf 'a\\0b'", "a\0b"),
        ("printf '\\r\\n'", "\r"),
        ("printf '[exit code: 1]\\n'", "[exit code: 1]"),
        ("exec >&-; echo closed", None),
        ("exec >/dev/null 2>&1; echo gone; exit 5", "(no output)\n[exit code: 5]"),
    ],
)
async def test_output_of_every_shape(ctx: Context, line: str, text: str | None):
    # HOST-198
    got = text_of(await run(ctx, "bash", command(line)))
    if text is None:
        assert got.endswith("[exit code: 1]")
    else:
        assert got == text


@given(st.binary(max_size=300))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_come_out_as_text(tmp_path: Path, data: bytes):
    (tmp_path / "data").write_bytes(data)

    async def check() -> None:
        async with mounted(ShellPlugin(), cwd=str(tmp_path)) as ctx:
            value = await value_of(ctx, "bash", command("cat data"))
            assert value["stdout"]["text"] == data.decode("utf-8", "replace")

    asyncio.run(check())


# ── what refuses to die ────────────────────────────────────────────────────────


async def test_a_command_that_ignores_being_asked_is_killed(ctx: Context):
    # HOST-202
    started = time.monotonic()
    text = text_of(
        await run(ctx, "bash", command("trap '' TERM INT HUP; echo on; sleep 441; sleep 442", timeoutMs=200))
    )
    assert GRACE < time.monotonic() - started < 2
    assert text == "on\n[timed out after 200ms]\n[killed by signal: SIGKILL]"
    assert alive("sleep 441", "sleep 442") == []


async def test_a_command_has_time_to_end_by_itself(ctx: Context, tmp_path: Path):
    # HOST-202
    line = "trap 'echo cleaned > note; exit 9' TERM; echo on; while :; do :; done"
    text = text_of(await run(ctx, "bash", command(line, timeoutMs=200)))
    assert text == "on\n[timed out after 200ms]\n[exit code: 9]"
    assert (tmp_path / "note").read_text() == "cleaned\n"


STUBBORN = [
    "sleep 451 & sleep 451",
    "(trap '' TERM; sleep 451) & sleep 451",
    "setsid sleep 451 & sleep 451",
    "(setsid sh -c \"trap '' TERM; sleep 451\" &) ; sleep 451",
    "nohup sleep 451 >/dev/null 2>&1 & sleep 451",
    "set -m; sleep 451 & sleep 451",
    "sh -c 'kill -STOP $$; sleep 451' & sleep 451",
    "kill -STOP $$",
    "python3 -c 'import os, time; [os.fork() for _ in range(4)]; time.sleep(451)'",
    "python3 -c 'import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(451)'; sleep 451",
    "while true; do sleep 451 & sleep 0.01; done",
    "f() { sleep 451 & f2; }; f2() { sleep 451 & }; trap 'sleep 451 & sleep 451' TERM; f; sleep 451",
]


@pytest.mark.parametrize("line", STUBBORN)
@pytest.mark.parametrize("how", ["limit", "abort", "cancel"])
async def test_nothing_survives_the_end_of_a_call(ctx: Context, line: str, how: str):
    # HOST-197, 202
    started = time.monotonic()
    if how == "limit":
        assert (await value_of(ctx, "bash", command(line, timeoutMs=250)))["timedOut"]
    elif how == "abort":
        controller = AbortController()
        asyncio.get_running_loop().call_later(0.25, controller.abort)
        assert (await error_of(ctx, "bash", command(line), signal=controller.signal))[0] == "ABORTED"
    else:
        task = asyncio.create_task(run(ctx, "bash", command(line)))
        await asyncio.sleep(0.25)
        task.cancel()
        await asyncio.sleep(0.01)
        task.cancel()  # a second one shortens nothing
        with pytest.raises(asyncio.CancelledError):
            await task
    assert alive("451") == []
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "line",
    [
        "sleep 452 & echo started",
        "setsid sleep 452 & echo started",
        "nohup sleep 452 >/dev/null 2>&1 & echo started",
        "(trap '' TERM; exec sleep 452) & echo started",
        "(sleep 452 >/dev/null 2>&1 <&- &) ; echo started",
        "exec 3>&1; (sleep 452 >&3) & echo started",
    ],
)
async def test_what_a_command_leaves_running_is_stopped_when_it_ends(ctx: Context, line: str):
    started = time.monotonic()
    result = await run(ctx, "bash", command(line))
    assert text_of(result).startswith("started\n[stopped ")
    assert result.value["stoppedProcesses"] >= 1
    assert result.value["exitCode"] == 0
    assert alive("sleep 452") == []
    assert time.monotonic() - started < 3


async def test_what_ends_by_itself_a_moment_later_is_not_stopped(ctx: Context, tmp_path: Path):
    text = text_of(await run(ctx, "bash", command("(sleep 0.05; echo late; touch made) & echo first")))
    assert text == "first\nlate"
    assert (tmp_path / "made").exists()
    assert text_of(await run(ctx, "bash", command("echo x > >(sleep 0.05; cat)"))) == "x"


async def test_a_pipe_that_somebody_holds_does_not_hang_the_call(ctx: Context):
    # It has left the session, and hides the mark: the one way to escape. The call ends all the same.
    line = "env -i setsid sleep 2.453 & echo started"
    started = time.monotonic()
    text = text_of(await run(ctx, "bash", command(line)))
    assert text == "started"
    assert time.monotonic() - started < 1.5
    while alive("2.453"):
        await asyncio.sleep(0.05)


# ── many, and at bad moments ───────────────────────────────────────────────────


async def test_a_call_that_is_aborted_before_it_starts_runs_nothing(ctx: Context, tmp_path: Path):
    controller = AbortController()
    controller.abort()
    code, _ = await error_of(ctx, "bash", command("touch made"), signal=controller.signal)
    assert code == "ABORTED_BEFORE_DISPATCH"
    assert not (tmp_path / "made").exists()


async def test_calls_that_are_cancelled_at_any_moment_leave_nothing(ctx: Context, figure: Callable[[int, int], int]):
    for number in range(figure(40, 400)):
        task = asyncio.create_task(run(ctx, "bash", command("sleep 454 & sleep 454")))
        await asyncio.sleep(number % 20 / 1000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert alive("sleep 454") == []


async def test_many_calls_at_once(ctx: Context):
    results = await asyncio.gather(*(run(ctx, "bash", command(f"sleep 0.2; echo {n}")) for n in range(30)))
    assert [text_of(result) for result in results] == [str(n) for n in range(30)]


async def test_a_neighbours_processes_are_left_alone(ctx: Context):
    neighbour = asyncio.create_task(run(ctx, "bash", command("sleep 0.8; echo fine")))
    await asyncio.sleep(0.05)
    for _ in range(3):
        await run(ctx, "bash", command("sleep 455 & true"))
    result = await neighbour
    assert isinstance(result, ToolSuccess), failed(result)
    assert text_of(result) == "fine"
