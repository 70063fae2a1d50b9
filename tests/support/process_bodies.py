"""Bodies for processes of their own: other processes find them here by name."""

from __future__ import annotations

import asyncio
import dataclasses
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, TypedDict

from dsh_tools import ToolRunContext, tool
from dsh_tools.errors import ToolError
from dsh_tools.messages import user_message

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(300)"]
DEAF = [sys.executable, "-S", "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(300)"]


# ── plain bodies: (args, run) ─────────────────────────────────────────────────


def echo(args: Any, run: Any) -> Any:
    return args.get("value")


async def echo_later(args: Any, run: Any) -> Any:
    await asyncio.sleep(0)
    return args.get("value")


def where(args: Any, run: Any) -> Any:
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "group": os.getpgid(0),
        "folder": os.getcwd(),
        "variable": os.environ.get("DSH_TEST_VARIABLE"),
        "call": [run.call_id, run.root_call_id, run.name],
        "agent": run.agent,
        "live": run.token.is_live_in(run),
        "stdin": sys.stdin.read(),
    }


def report(args: Any, run: Any) -> str:
    print("printed by the body")
    run.progress("one")
    run.progress({"percent": 50})
    run.progress(object)
    run.progress("\ud800")
    run.defer_context("a context")
    run.defer_context(user_message("a message"))
    run.conclude_turn()
    return "done"


def many_reports(args: Any, run: Any) -> int:
    threads = [
        threading.Thread(target=lambda n=n: [run.progress(f"{n}-{i} " + "x" * 5000) for i in range(50)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 200


def fail(args: Any, run: Any) -> Any:
    match args["how"]:
        case "value":
            raise ValueError("a plain error")
        case "coded":
            raise ToolError("a typed error", "OUT_OF_PAPER")
        case "exit":
            sys.exit("left by sys.exit")
        case "interrupt":
            raise KeyboardInterrupt
        case "stop-iteration":
            raise StopIteration("stop")
        case "silent":
            raise RuntimeError
        case "surrogate":
            raise ValueError("half \ud800 of a pair")
        case "cancelled":
            raise asyncio.CancelledError
        case "set":
            return {1, 2}
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "gone":
            os._exit(7)
        case "garbage":
            os.write(3, b"p{not json\nzzz\n\n")
            return "all the same"
        case how:
            raise AssertionError(how)


async def fail_later(args: Any, run: Any) -> Any:
    await asyncio.sleep(0)
    return fail(args, run)


def big(args: Any, run: Any) -> str:
    return "x" * args["size"]


def deep(args: Any, run: Any) -> Any:
    value: Any = []
    for _ in range(args["levels"]):
        value = [value]
    return value


def fork_and_return(args: Any, run: Any) -> str:
    return "parent" if os.fork() else "child"


def close_everything(args: Any, run: Any) -> str:
    os.closerange(3, 1000)
    return "closed"


# ── bodies that have to be stopped ────────────────────────────────────────────


def note(folder: str, name: str, text: object = "") -> None:
    path = Path(folder) / name
    path.with_suffix(".part").write_text(str(text))
    path.with_suffix(".part").rename(path)


def sleep_in_pieces() -> None:
    """Sleep in pieces: a signal that comes just before a sleep begins is heard only after it."""
    for _ in range(6000):
        time.sleep(0.05)


def sleep_long(args: Any, run: Any) -> str:
    try:
        run.progress("sleeping")
        sleep_in_pieces()
    finally:
        note(args["folder"], "cleaned", run.signal.aborted)
    return "late"


async def sleep_long_async(args: Any, run: Any) -> str:
    try:
        run.progress("sleeping")
        await asyncio.sleep(300)
    finally:
        await asyncio.sleep(0)
        note(args["folder"], "cleaned", run.signal.aborted)
    return "late"


def deaf(args: Any, run: Any) -> str:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(args["folder"], "body", os.getpid())
    run.progress("deaf")
    while True:
        time.sleep(300)


def deaf_family(args: Any, run: Any) -> str:
    """Ignore every request, and start processes in this group, in another session, and orphans."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(DEAF)
    stray = subprocess.Popen(DEAF, start_new_session=True, env={})
    orphan = subprocess.run(
        [sys.executable, "-c", f"import subprocess; print(subprocess.Popen({DEAF!r}, start_new_session=True, stdout=-3, stderr=-3).pid)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    fork = multiprocessing.get_context("fork").Process(target=time.sleep, args=(300,))
    fork.start()
    note(args["folder"], "family", [os.getpid(), child.pid, stray.pid, int(orphan.stdout), fork.pid])
    run.progress("started")
    if args.get("leave"):
        return "left"
    while True:
        time.sleep(300)


def answer_when_stopped(args: Any, run: Any) -> str:
    try:
        run.progress("working")
        sleep_in_pieces()
    except asyncio.CancelledError:
        return "what there is"
    return "late"


def raise_when_stopped(args: Any, run: Any) -> str:
    try:
        run.progress("working")
        sleep_in_pieces()
    except asyncio.CancelledError:
        raise ValueError("stopped at 40%") from None
    return "late"


def report_for_ever(args: Any, run: Any) -> str:
    number = 0
    while True:
        run.progress(f"line {number} " + "x" * 1000)
        number += 1


def hold_the_lock(args: Any, run: Any) -> str:
    """Stay inside C code that lets go of nothing, where no Python handler runs."""
    run.progress("holding")
    return str(sum(range(10**13)))


def rendezvous(args: Any, run: Any) -> int:
    """Say how many were there at once, in a folder."""
    mine = Path(args["folder"]) / str(os.getpid())
    mine.write_text("")
    time.sleep(0.05)
    seen = len(list(Path(args["folder"]).iterdir()))
    mine.unlink()
    return seen


# ── bodies with types ─────────────────────────────────────────────────────────


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Sum(TypedDict):
    total: int


def move(args: Point, run: ToolRunContext) -> Point:
    return Point(args.x + 1, args.y + 1)


async def add_up(args: Point, run: ToolRunContext) -> Sum:
    return {"total": args.x + args.y}


@tool(isolation="process")
def shift(points: list[Point], run: ToolRunContext, by: int = 1) -> list[Point]:
    """Shift points.

    Args:
        points: the points.
        by: how far.
    """
    run.progress(len(points))
    return [Point(point.x + by, point.y + by) for point in points]


@tool(isolation="process", timeout_ms=60_000)
async def shift_later(point: Point) -> Point:
    """Shift one point."""
    await asyncio.sleep(0)
    return Point(point.x + 1, point.y)


def undecorated(number: int) -> int:
    """Double a number."""
    return 2 * number


def replaced(args: Any, run: Any) -> str:
    return "the first"


the_first = replaced


def replaced(args: Any, run: Any) -> str:  # noqa: F811
    return "the second"


class Holder:
    @staticmethod
    def static(args: Any, run: Any) -> str:
        return "static"

    @classmethod
    def of_class(cls, args: Any, run: Any) -> str:
        return cls.__name__

    def method(self, args: Any, run: Any) -> str:
        return "method"

    def __call__(self, args: Any, run: Any) -> str:
        return "called"


def stop_the_keeper(args: Any, run: Any) -> str:
    """Stop the parent, and go on in whatever way is asked for."""
    keeper = os.getppid()
    os.kill(keeper, signal.SIGSTOP)
    helper = subprocess.Popen(DEAF, start_new_session=True)
    target = Path(args["folder"]) / "pids"
    target.with_suffix(".part").write_text(f"{keeper},{os.getpid()},{helper.pid}")
    target.with_suffix(".part").rename(target)
    match args.get("then"):
        case "return":
            return "returned"
        case "crash":
            os._exit(7)
        case _:
            time.sleep(300)
            return "late"
