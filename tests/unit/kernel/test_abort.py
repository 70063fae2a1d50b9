"""Abort signals and their bridges to asyncio."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import threading
import time
import weakref

import pytest

from dsh_tools.errors import AbortError
from dsh_tools.kernel import MAX_TIMEOUT_SECONDS, NEVER, AbortController, AbortSignal

pytestmark = pytest.mark.usefixtures("no_leaks")


def test_a_signal_fires_once_and_keeps_the_first_reason():
    # HOST-135: the first abort wins the reason.
    controller = AbortController()
    signal = controller.signal
    assert not signal.aborted
    assert signal.reason is None
    controller.abort("first")
    controller.abort("second")
    assert signal.aborted
    assert signal.reason == "first"


def test_a_signal_knows_when_it_fired():
    controller = AbortController()
    assert controller.signal.fired_at is None
    before = time.monotonic()
    controller.abort()
    fired_at = controller.signal.fired_at
    assert fired_at is not None
    assert before <= fired_at <= time.monotonic()
    controller.abort("again")
    assert controller.signal.fired_at == fired_at
    fused = AbortSignal.any([controller.signal])
    assert fused.fired_at is not None
    assert NEVER.fired_at is None


def test_callbacks_run_once_in_order_and_one_failure_stops_nothing(caplog: pytest.LogCaptureFixture):
    controller = AbortController()
    calls: list[str] = []

    def fail() -> None:
        calls.append("b")
        raise ValueError("a bad callback")

    controller.signal.add_callback(lambda: calls.append("a"))
    controller.signal.add_callback(fail)
    controller.signal.add_callback(lambda: calls.append("c"))
    with caplog.at_level(logging.ERROR, "dsh_tools"):
        controller.abort()
    controller.abort()
    assert calls == ["a", "b", "c"]
    assert "a bad callback" in caplog.text


def test_a_callback_can_be_removed_also_by_one_that_runs_before_it():
    controller = AbortController()
    calls: list[str] = []
    remove_early = controller.signal.add_callback(lambda: calls.append("early"))
    controller.signal.add_callback(lambda: remove_late())
    remove_late = controller.signal.add_callback(lambda: calls.append("late"))
    remove_early()
    remove_early()
    assert controller.signal.callback_count == 2
    controller.abort()
    assert calls == []
    assert controller.signal.callback_count == 0


def test_one_function_added_twice_is_two_entries():
    controller = AbortController()
    calls: list[int] = []

    def callback() -> None:
        calls.append(1)

    remove = controller.signal.add_callback(callback)
    controller.signal.add_callback(callback)
    remove()
    controller.abort()
    assert calls == [1]


def test_a_late_callback_runs_at_once():
    controller = AbortController()
    controller.abort()
    calls: list[int] = []
    remove = controller.signal.add_callback(lambda: calls.append(1))
    remove()
    assert calls == [1]


def test_throw_if_aborted_raises_with_the_reason():
    controller = AbortController()
    controller.signal.throw_if_aborted()
    reason = OSError("gone")
    controller.abort(reason)
    with pytest.raises(AbortError, match="aborted: gone") as raised:
        controller.signal.throw_if_aborted()
    assert raised.value.code == "ABORTED"
    assert raised.value.__cause__ is reason


def test_a_worker_thread_may_poll():
    controller = AbortController()
    seen: list[bool] = []
    started, go_on = threading.Event(), threading.Event()

    def body() -> None:
        seen.append(controller.signal.aborted)
        started.set()
        go_on.wait(5)
        seen.append(controller.signal.aborted)

    thread = threading.Thread(target=body)
    thread.start()
    started.wait(5)
    controller.abort()
    go_on.set()
    thread.join(5)
    assert seen == [False, True]


async def test_wait_ends_with_the_signal_and_leaves_no_callback():
    controller = AbortController()
    waiting = asyncio.create_task(controller.signal.wait())
    given_up = asyncio.create_task(controller.signal.wait())
    await asyncio.sleep(0)
    assert controller.signal.callback_count == 2
    given_up.cancel()
    await asyncio.wait([given_up])
    assert controller.signal.callback_count == 1
    controller.abort()
    await waiting
    await controller.signal.wait()


def test_any_fires_with_the_first_source_and_lets_go_of_all():
    first, second = AbortController(), AbortController()
    fused = AbortSignal.any([first.signal, second.signal, NEVER])
    assert fused is not first.signal
    second.abort("second")
    assert fused.aborted
    assert fused.reason == "second"
    assert first.signal.callback_count == 0
    assert not first.signal.aborted


def test_any_of_an_aborted_source_is_aborted_and_listens_to_nobody():
    open_one, aborted = AbortController(), AbortController()
    aborted.abort("before")
    fused = AbortSignal.any([open_one.signal, aborted.signal])
    assert fused.reason == "before"
    assert open_one.signal.callback_count == 0


def test_a_closed_fused_signal_stays_as_it_is():
    source = AbortController()
    with AbortSignal.any([source.signal]) as fused:
        assert source.signal.callback_count == 1
    assert source.signal.callback_count == 0
    source.abort()
    assert not fused.aborted
    fused.close()


def test_a_closed_fused_signal_is_not_kept_by_its_source():
    source = AbortController()
    fused = AbortSignal.any([source.signal])
    gone = weakref.ref(fused)
    fused.close()
    del fused
    gc.collect()
    assert gone() is None


async def test_timeout_fires_with_a_timeout_error():
    signal = AbortSignal.timeout(0.01)
    await asyncio.wait_for(signal.wait(), 5)
    assert isinstance(signal.reason, TimeoutError)


async def test_timeout_is_cleared_by_closing():
    # HOST-137: the timer is always cleared on exit.
    with AbortSignal.timeout(0.01) as signal:
        pass
    await asyncio.sleep(0.03)
    assert not signal.aborted


@pytest.mark.parametrize("seconds", [0, -1, -math.inf])
def test_timeout_of_nothing_sets_no_timer(seconds: float):
    # HOST-137: zero and less means no timer; so no loop is needed.
    assert not AbortSignal.timeout(seconds).aborted


@pytest.mark.parametrize("seconds", [MAX_TIMEOUT_SECONDS + 0.001, math.inf, math.nan])
async def test_timeout_refuses_what_no_timer_can_hold(seconds: float):
    # HOST-137: more than 2147483647 ms is refused.
    with pytest.raises(ValueError, match="timeout must be at most"):
        AbortSignal.timeout(seconds)
    AbortSignal.timeout(MAX_TIMEOUT_SECONDS).close()


def test_never_keeps_nothing():
    NEVER.add_callback(lambda: None)()
    assert NEVER.callback_count == 0
    assert not NEVER.aborted
    NEVER.throw_if_aborted()


async def test_waiting_for_never_can_be_cancelled():
    task = asyncio.create_task(NEVER.wait())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


# ── cancel_scope ──────────────────────────────────────────────────────────────


async def test_a_cancel_scope_cancels_its_block_and_raises_abort_error():
    controller = AbortController()
    cleaned: list[str] = []
    with pytest.raises(AbortError, match="aborted: enough"):
        async with controller.signal.cancel_scope():
            asyncio.get_running_loop().call_soon(controller.abort, "enough")
            try:
                await asyncio.sleep(60)
            finally:
                cleaned.append("body")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert cleaned == ["body"]
    await asyncio.sleep(0)


async def test_a_cancel_scope_that_ends_in_order_leaves_no_callback():
    controller = AbortController()
    async with controller.signal.cancel_scope():
        await asyncio.sleep(0)
    assert controller.signal.callback_count == 0
    controller.abort()
    await asyncio.sleep(0)


async def test_a_fired_signal_keeps_the_block_from_starting():
    controller = AbortController()
    controller.abort()
    entered: list[int] = []
    with pytest.raises(AbortError):
        async with controller.signal.cancel_scope():
            entered.append(1)
    assert entered == []


async def test_a_real_cancellation_passes_through_as_itself():
    controller = AbortController()
    outcome: list[str] = []

    async def work() -> None:
        try:
            async with controller.signal.cancel_scope():
                await asyncio.sleep(60)
        except AbortError:
            outcome.append("aborted")
        except asyncio.CancelledError:
            outcome.append("cancelled")
            raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert outcome == ["cancelled"]
    assert controller.signal.callback_count == 0


@pytest.mark.parametrize("signal_first", [True, False])
async def test_a_real_cancellation_wins_over_the_signal(signal_first: bool):
    controller = AbortController()

    async def work() -> None:
        async with controller.signal.cancel_scope():
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    for step in (controller.abort, task.cancel) if signal_first else (task.cancel, controller.abort):
        step()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_nested_scopes_end_at_the_one_that_fired():
    outer, inner = AbortController(), AbortController()
    reached: list[str] = []
    async with outer.signal.cancel_scope():
        with pytest.raises(AbortError):
            async with inner.signal.cancel_scope():
                asyncio.get_running_loop().call_soon(inner.abort)
                await asyncio.sleep(60)
        await asyncio.sleep(0)
        reached.append("outer goes on")
    with pytest.raises(AbortError, match="outer"):
        async with outer.signal.cancel_scope():
            async with AbortController().signal.cancel_scope():
                asyncio.get_running_loop().call_soon(outer.abort, "outer")
                await asyncio.sleep(60)
    assert reached == ["outer goes on"]


async def test_an_abort_after_the_last_await_does_not_hit_the_code_behind_the_block():
    controller = AbortController()
    async with controller.signal.cancel_scope():
        controller.abort()
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_an_error_of_the_block_is_not_replaced_by_the_abort():
    controller = AbortController()
    with pytest.raises(ValueError, match="its own"):
        async with controller.signal.cancel_scope():
            controller.abort()
            raise ValueError("its own")
    await asyncio.sleep(0)


async def test_a_real_cancellation_during_the_last_piece_is_not_swallowed():
    controller = AbortController()

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with controller.signal.cancel_scope():
            controller.abort()
            task.cancel()
        await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.wait([task], timeout=5)
    assert task.cancelled()


async def test_a_block_that_swallows_the_cancellation_ends_in_order():
    controller = AbortController()
    async with controller.signal.cancel_scope():
        asyncio.get_running_loop().call_soon(controller.abort)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
    await asyncio.sleep(0)


async def test_a_cancel_scope_is_used_once():
    scope = AbortController().signal.cancel_scope()
    async with scope:
        pass
    with pytest.raises(RuntimeError, match="entered once"):
        async with scope:
            pass


async def test_a_cancel_scope_works_under_a_timeout_of_asyncio():
    controller = AbortController()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            async with controller.signal.cancel_scope():
                await asyncio.sleep(60)
    with pytest.raises(AbortError):
        async with controller.signal.cancel_scope():
            asyncio.get_running_loop().call_soon(controller.abort)
            async with asyncio.timeout(60):
                await asyncio.sleep(60)
