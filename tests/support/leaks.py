"""What a process holds at one moment: tasks, threads, child processes, file descriptors."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

DESCRIPTORS = Path("/proc/self/fd")


@dataclass(frozen=True)
class Census:
    """Everything that could outlive a test. Compare two of them with ``new_since``."""

    tasks: frozenset[asyncio.Task[object]]
    threads: frozenset[threading.Thread]
    children: frozenset[int]
    descriptors: frozenset[tuple[int, str]]

    def new_since(self, before: Census) -> list[str]:
        """One line for each thing that is here now and was not before."""
        return [
            *(f"task {task!r}" for task in self.tasks - before.tasks),
            *(f"thread {thread.name!r}" for thread in self.threads - before.threads),
            *(f"child process {describe_process(pid)}" for pid in self.children - before.children),
            *(f"file descriptor {fd} ({target})" for fd, target in self.descriptors - before.descriptors),
        ]


def take_census() -> Census:
    """Count what this process holds. The task that asks is not counted, nor idle pool threads of the loop."""
    return Census(
        tasks=frozenset(other_tasks()),
        threads=frozenset(thread for thread in threading.enumerate() if not is_idle_loop_worker(thread)),
        children=frozenset(child.pid for child in psutil.Process().children(recursive=True)),
        descriptors=frozenset(open_descriptors()),
    )


async def leaks_after(before: Census, *, patience: float = 2.0) -> list[str]:
    """What is still there that was not before, after waiting up to ``patience`` seconds for it to go."""
    deadline = time.monotonic() + patience
    pause = 0.001
    while leaks := take_census().new_since(before):
        if time.monotonic() > deadline:
            return leaks
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.1)
    return []


def other_tasks() -> set[asyncio.Task[object]]:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return set()
    return {task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()}


def is_idle_loop_worker(thread: threading.Thread) -> bool:
    """Whether a thread belongs to the loop's default pool and waits for work: the pool keeps it on purpose."""
    if not thread.name.startswith("asyncio_"):
        return False
    frame = sys._current_frames().get(thread.ident or -1)
    return frame is None or frame.f_code.co_filename.endswith("concurrent/futures/thread.py")


def open_descriptors() -> set[tuple[int, str]]:
    found: set[tuple[int, str]] = set()
    if not DESCRIPTORS.is_dir():
        return {(fd, "open") for fd in range(256) if succeeds(lambda fd=fd: os.fstat(fd))}
    for name in os.listdir(DESCRIPTORS):
        try:
            found.add((int(name), os.readlink(DESCRIPTORS / name)))
        except OSError:
            continue  # the descriptor that listed the folder
    return found


def describe_process(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        return f"{pid} {process.status()} {' '.join(process.cmdline())[:120]}"
    except psutil.Error:
        return f"{pid}"


def succeeds(action: Callable[[], object]) -> bool:
    try:
        action()
    except OSError:
        return False
    return True
