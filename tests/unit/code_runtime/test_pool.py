from __future__ import annotations

import asyncio
import logging

import pytest

from dsh_tools.code_runtime.pool import WorkerPool


class FakeWorker:
    def __init__(self, number: int) -> None:
        self.number = number
        self.alive = True
        self.closed = False

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.alive = False
        self.closed = True


class Factory:
    def __init__(self, delay: float = 0.0) -> None:
        self.made: list[FakeWorker] = []
        self.delay = delay
        self.failures = 0

    async def start(self) -> FakeWorker:
        worker = FakeWorker(len(self.made))
        self.made.append(worker)
        try:
            await asyncio.sleep(self.delay)
        except asyncio.CancelledError:
            await worker.close()
            raise
        if self.failures:
            self.failures -= 1
            await worker.close()
            raise OSError("no more processes")
        return worker

    @property
    def open(self) -> list[int]:
        return [worker.number for worker in self.made if not worker.closed]


async def test_workers_stand_ready_and_are_handed_out_once():
    # CODE-156
    factory = Factory()
    pool = WorkerPool(factory.start, 2, 60)
    await pool.warm()
    first, second, third = await pool.take(), await pool.take(), await pool.take()
    assert (first.number, second.number, third.number) == (0, 1, 2)
    await asyncio.sleep(0.1)
    assert len(factory.made) == 5  # filled up again, in the background
    await pool.dispose()
    assert factory.open == [0, 1, 2]  # those handed out are their takers'


async def test_without_a_pool_each_worker_is_started_when_needed():
    factory = Factory()
    pool = WorkerPool(factory.start, 0, 60)
    await pool.warm()
    assert factory.made == []
    assert (await pool.take()).number == 0
    await pool.dispose()


async def test_there_is_no_limit_on_workers():
    # CODE-156
    factory = Factory(0.01)
    pool = WorkerPool(factory.start, 2, 60)
    taken = await asyncio.gather(*(pool.take() for _ in range(50)))
    assert len({worker.number for worker in taken}) == 50
    await pool.dispose()


async def test_a_worker_that_died_is_replaced():
    factory = Factory()
    pool = WorkerPool(factory.start, 1, 60)
    await pool.warm()
    factory.made[0].alive = False
    assert (await pool.take()).number == 1
    await pool.dispose()
    assert factory.made[0].closed


async def test_a_worker_that_stood_too_long_is_replaced():
    factory = Factory()
    pool = WorkerPool(factory.start, 1, 0.05)
    await pool.warm()
    await asyncio.sleep(0.08)
    assert factory.made[0].closed and not factory.made[1].closed
    assert (await pool.take()).number == 1
    await pool.dispose()
    assert factory.open == [1]


async def test_a_cancelled_taker_leaves_the_worker_to_the_next():
    factory = Factory(0.05)
    pool = WorkerPool(factory.start, 0, 60)
    taking = asyncio.ensure_future(pool.take())
    await asyncio.sleep(0.01)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert (await pool.take()).number == 0
    await pool.dispose()


async def test_a_failed_start_is_the_takers_error_and_no_other(caplog: pytest.LogCaptureFixture):
    factory = Factory()
    factory.failures = 1
    pool = WorkerPool(factory.start, 0, 60)
    with pytest.raises(OSError, match="no more processes"):
        await pool.take()
    assert (await pool.take()).number == 1
    await pool.dispose()
    factory.failures = 1
    ahead = WorkerPool(factory.start, 1, 60)
    with caplog.at_level(logging.WARNING, "dsh_tools"):
        await ahead.warm()
    assert "could not be started ahead" in caplog.text
    assert (await ahead.take()).alive
    await ahead.dispose()


async def test_disposal_waits_for_workers_that_are_starting():
    # CODE-174
    factory = Factory(0.2)
    pool = WorkerPool(factory.start, 3, 60)
    pool.fill()
    await asyncio.sleep(0.01)
    await pool.dispose()
    assert len(factory.made) == 3 and factory.open == []
    pool.fill()
    await asyncio.sleep(0.05)
    assert len(factory.made) == 3  # nothing starts afterwards
