"""The check that tests leave nothing behind sees what they leave behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

from tests.support.leaks import leaks_after, take_census


async def test_a_quiet_test_leaves_nothing(no_leaks: None):
    await asyncio.gather(asyncio.sleep(0.01), asyncio.to_thread(lambda: None))


def test_a_test_without_a_loop_can_ask_for_it(no_leaks: None):
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()


async def test_a_task_is_seen():
    before = take_census()
    task = asyncio.create_task(asyncio.sleep(60), name="sleeper")
    (leak,) = await leaks_after(before, patience=0.05)
    assert "sleeper" in leak
    task.cancel()
    assert await leaks_after(before) == []


async def test_a_thread_is_seen():
    before, stop = take_census(), threading.Event()
    thread = threading.Thread(target=stop.wait, name="waiter")
    thread.start()
    assert await leaks_after(before, patience=0.05) == ["thread 'waiter'"]
    stop.set()
    assert await leaks_after(before) == []


async def test_a_busy_worker_of_the_loop_is_seen():
    before, stop = take_census(), threading.Event()
    waiting = asyncio.ensure_future(asyncio.to_thread(stop.wait))
    await asyncio.sleep(0.02)
    assert any("asyncio_" in leak for leak in await leaks_after(before, patience=0.05))
    stop.set()
    await waiting
    assert await leaks_after(before) == []


async def test_a_child_process_is_seen_until_it_is_reaped():
    before = take_census()
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    (leak,) = await leaks_after(before, patience=0.3)
    assert str(child.pid) in leak
    child.wait()
    assert await leaks_after(before) == []


async def test_a_descriptor_is_seen():
    before = take_census()
    reader, writer = os.pipe()
    leaks = await leaks_after(before, patience=0.05)
    assert len(leaks) == 2
    os.close(reader)
    os.close(writer)
    assert await leaks_after(before) == []
