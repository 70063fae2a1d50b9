"""What each kind of dispatch does with its listeners."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import pytest

from dsh_tools.errors import ListenerError
from dsh_tools.kernel import (
    BailHook,
    EmitHook,
    HookBus,
    Listener,
    Next,
    ParallelHook,
    SerialHook,
    WaterfallHook,
    create_context,
    run_waterfall,
)

pytestmark = pytest.mark.usefixtures("no_leaks")

TOLD: EmitHook[int] = EmitHook("test/told")
ASKED: SerialHook[object, int] = SerialHook("test/asked")
ASKED_NOW: BailHook[object, int] = BailHook("test/asked-now")
TOGETHER: ParallelHook[int] = ParallelHook("test/together")
WRAPPED: WaterfallHook[dict[str, int], str] = WaterfallHook("test/wrapped")


def bus_with(hook: Any, *listeners: Any) -> HookBus:
    bus = HookBus()
    for listener in listeners:
        bus.add(hook, Listener(listener))
    return bus


# ── emit ──────────────────────────────────────────────────────────────────────


def test_emit_tells_every_listener_whatever_one_of_them_raises(caplog: pytest.LogCaptureFixture):
    # HOST-25, HOST-34: emit is contained (D16), and no listener starves the next.
    heard: list[int] = []

    def fails(number: int) -> None:
        raise ValueError(f"no {number}")

    def cancels(number: int) -> None:
        raise asyncio.CancelledError

    bus = bus_with(TOLD, fails, cancels, heard.append)
    bus.emit(TOLD, 3)
    assert heard == [3]
    assert "fails" in caplog.text
    assert "cancels" in caplog.text
    assert "no 3" in caplog.text


async def test_emit_runs_async_listeners_to_their_end_and_logs_their_failures(caplog: pytest.LogCaptureFixture):
    # HOST-34: async rejections are logged, too.
    heard: list[int] = []

    async def slow(number: int) -> None:
        await asyncio.sleep(0.01)
        heard.append(number)

    async def fails(_number: int) -> None:
        await asyncio.sleep(0)
        raise ValueError("late")

    async def gives_up(_number: int) -> None:
        raise asyncio.CancelledError

    bus = bus_with(TOLD, slow, fails, gives_up)
    assert bus.emit(TOLD, 1) is None
    assert bus.running_count == 3
    assert heard == []
    await bus.settle()
    assert heard == [1]
    assert bus.running_count == 0
    assert "late" in caplog.text
    assert "gives_up" in caplog.text


async def test_a_listener_that_is_really_cancelled_is_not_a_failure(caplog: pytest.LogCaptureFixture):
    async def waits(_number: int) -> None:
        await asyncio.sleep(60)

    bus = bus_with(TOLD, waits)
    bus.emit(TOLD, 1)
    await asyncio.sleep(0)
    for task in list(bus._running):
        task.cancel()
    await bus.settle()
    assert caplog.text == ""
    assert bus.running_count == 0


def test_emit_without_a_loop_says_that_an_async_listener_could_not_run(caplog: pytest.LogCaptureFixture):
    async def listener(_number: int) -> None: ...

    bus_with(TOLD, listener).emit(TOLD, 1)
    assert "listener" in caplog.text
    assert "no running event loop" in caplog.text


async def test_settling_from_inside_a_listener_does_not_wait_for_that_listener():
    bus = HookBus()
    settled: list[str] = []

    async def listener(_number: int) -> None:
        await bus.settle()
        settled.append("listener")

    bus.add(TOLD, Listener(listener))
    bus.emit(TOLD, 1)
    await asyncio.wait_for(bus.settle(), 5)
    assert settled == ["listener"]


# ── parallel ──────────────────────────────────────────────────────────────────


async def test_parallel_starts_all_and_raises_every_failure_together():
    # HOST-26
    running: list[int] = []
    most: list[int] = []

    async def works(number: int) -> None:
        running.append(number)
        await asyncio.sleep(0.01)
        most.append(len(running))

    async def fails(_number: int) -> None:
        await asyncio.sleep(0)
        raise ValueError("async")

    def fails_at_once(_number: int) -> None:
        raise KeyError("sync")

    async def gives_up(_number: int) -> None:
        raise asyncio.CancelledError

    bus = bus_with(TOGETHER, works, fails_at_once, fails, gives_up, works)
    with pytest.raises(ExceptionGroup, match='3 listeners of "test/together" failed') as raised:
        await bus.parallel(TOGETHER, 1)
    assert [type(error) for error in raised.value.exceptions] == [KeyError, ValueError, RuntimeError]
    assert "fails_at_once" in raised.value.exceptions[0].__notes__[0]
    assert most == [2, 2]


async def test_a_cancelled_parallel_stops_its_listeners_first():
    stopped: list[str] = []

    async def works(_number: int) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            stopped.append("works")

    bus = bus_with(TOGETHER, works, works)
    task = asyncio.create_task(bus.parallel(TOGETHER, 1))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0)
    await asyncio.wait([task])
    assert task.cancelled()
    assert stopped == ["works", "works"]


async def test_parallel_with_nobody_is_nothing():
    await HookBus().parallel(TOGETHER, 1)


# ── serial and bail ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", [0, "", [], "yes", True])
async def test_the_first_answer_wins_and_only_none_and_false_are_no_answer(answer: object):
    # HOST-27: 0 and "" count as answers.
    asked: list[str] = []

    def silent(_number: int) -> None:
        asked.append("silent")

    def refuses(_number: int) -> bool:
        asked.append("refuses")
        return False

    async def answers_later(_number: int) -> object:
        asked.append("answers")
        return answer

    def answers(_number: int) -> object:
        asked.append("answers")
        return answer

    def never_asked(_number: int) -> object:
        asked.append("never")
        return "other"

    assert await bus_with(ASKED, silent, refuses, answers_later, never_asked).serial(ASKED, 1) == answer
    assert bus_with(ASKED_NOW, silent, refuses, answers, never_asked).bail(ASKED_NOW, 1) == answer
    assert asked == ["silent", "refuses", "answers"] * 2


async def test_no_answer_is_none():
    # HOST-27
    assert await bus_with(ASKED, lambda number: False).serial(ASKED, 1) is None
    assert HookBus().bail(ASKED_NOW, 1) is None


def test_bail_refuses_an_async_listener():
    # HOST-27: bail is synchronous.
    async def answers(_number: int) -> int:
        return 1

    with pytest.raises(ListenerError, match="answers.*synchronous"):
        bus_with(ASKED_NOW, answers).bail(ASKED_NOW, 1)


async def test_a_failing_listener_of_serial_fails_the_question():
    def fails(_number: int) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await bus_with(ASKED, fails).serial(ASKED, 1)


# ── waterfall ─────────────────────────────────────────────────────────────────


async def outer(subject: dict[str, int], next: Next[str]) -> str:
    return f"outer({await next()})"


def inner(subject: dict[str, int], next: Next[str]) -> Any:
    return next()


async def test_without_listeners_the_default_runs():
    # HOST-28
    async def later() -> str:
        return "later"

    assert await HookBus().waterfall(WRAPPED, {}, lambda: "now") == "now"
    assert await HookBus().waterfall(WRAPPED, {}, later) == "later"
    assert await run_waterfall((), {}, later) == "later"


async def test_listeners_nest_around_the_default():
    # HOST-28, PIPE-107: first registered is outermost; sync and async listeners mix.
    async def default() -> str:
        return "default"

    assert await bus_with(WRAPPED, outer, inner, outer).waterfall(WRAPPED, {}, default) == "outer(outer(default))"


async def test_not_calling_next_cuts_the_rest_off():
    # HOST-28, PIPE-107
    reached: list[str] = []

    def cuts(_subject: dict[str, int], _next: Next[str]) -> str:
        return "cut"

    bus = bus_with(WRAPPED, outer, cuts, lambda subject, next: reached.append("inner"))
    assert await bus.waterfall(WRAPPED, {}, lambda: reached.append("default") or "") == "outer(cut)"
    assert reached == []


async def test_next_ignores_arguments_and_all_links_share_the_subject():
    # HOST-29, PIPE-108
    subjects: list[dict[str, int]] = []

    async def changes(subject: dict[str, int], next: Next[str]) -> str:
        subject["seen"] = 1
        subjects.append(subject)
        return await next({"other": 2}, "ignored")

    def reads(subject: dict[str, int], next: Next[str]) -> Any:
        subjects.append(subject)
        return next()

    subject: dict[str, int] = {}
    await bus_with(WRAPPED, changes, reads).waterfall(WRAPPED, subject, lambda: "")
    assert subjects[0] is subjects[1] is subject
    assert subject == {"seen": 1}


async def test_a_failure_goes_out_through_the_outer_links_which_may_catch_it():
    # HOST-30
    async def catches(_subject: dict[str, int], next: Next[str]) -> str:
        try:
            return await next()
        except ValueError as error:
            return f"caught {error}"

    def fails(_subject: dict[str, int], _next: Next[str]) -> str:
        raise ValueError("inner")

    assert await bus_with(WRAPPED, catches, outer, fails).waterfall(WRAPPED, {}, lambda: "") == "caught inner"
    with pytest.raises(ValueError, match="inner"):
        await bus_with(WRAPPED, outer, fails).waterfall(WRAPPED, {}, lambda: "")


async def test_calling_next_again_runs_the_whole_rest_again():
    # HOST-31, PIPE-109: the chain is indexed, so a retry retries the inner wrappers too (D12).
    order: list[str] = []

    async def retries(_subject: dict[str, int], next: Next[str]) -> str:
        order.append("A")
        await next()
        return await next()

    async def wraps(_subject: dict[str, int], next: Next[str]) -> str:
        order.append("B")
        return await next()

    def default() -> str:
        order.append("body")
        return f"{len(order)}"

    assert await bus_with(WRAPPED, retries, wraps).waterfall(WRAPPED, {}, default) == "5"
    assert order == ["A", "B", "body", "B", "body"]


async def test_two_runs_of_the_rest_may_overlap():
    # HOST-31
    async def twice(_subject: dict[str, int], next: Next[str]) -> str:
        return "+".join(await asyncio.gather(next(), next()))

    assert await bus_with(WRAPPED, twice, outer).waterfall(WRAPPED, {}, lambda: "d") == "outer(d)+outer(d)"


async def test_check_sees_each_listener_with_its_outcome():
    seen: list[tuple[str, str]] = []

    def check(listener: Listener, outcome: str) -> None:
        seen.append((listener.name.rsplit(".", 1)[-1], outcome))

    listeners = (Listener(outer), Listener(inner))
    assert await run_waterfall(listeners, {}, lambda: "d", check) == "outer(d)"
    assert seen == [("inner", "d"), ("outer", "outer(d)")]


# ── the list of listeners ─────────────────────────────────────────────────────


def test_order_is_registration_order_and_prepended_ones_come_first():
    # HOST-20
    bus = HookBus()
    for name, prepend in [("a", False), ("b", False), ("p", True), ("q", True)]:
        bus.add(TOLD, Listener(print, name=name), prepend=prepend)
    assert [listener.name for listener in bus.listeners(TOLD)] == ["q", "p", "a", "b"]


async def test_a_dispatch_keeps_the_list_it_began_with():
    # HOST-21
    root = create_context()
    heard: list[str] = []

    def first(_number: int) -> None:
        heard.append("first")
        off()
        root.on(TOLD, lambda number: heard.append("added"))

    root.on(TOLD, first)
    off = root.on(TOLD, lambda number: heard.append("removed"))
    root.emit(TOLD, 1)
    assert heard == ["first", "removed"]
    heard.clear()
    root.emit(TOLD, 1)
    assert heard == ["first", "added"]
    await root.dispose()


async def test_one_function_registered_twice_is_two_entries():
    # HOST-22
    root = create_context()
    heard: list[int] = []
    first = root.on(TOLD, heard.append)
    second = root.on(TOLD, heard.append)
    root.emit(TOLD, 1)
    first()
    root.emit(TOLD, 2)
    first()
    root.emit(TOLD, 3)
    second()
    root.emit(TOLD, 4)
    assert heard == [1, 1, 2, 3]
    assert root.bus.listener_count == 0
    await root.dispose()


async def test_once_removes_itself_before_it_is_called():
    # HOST-23
    root = create_context()
    heard: list[int] = []

    def listener(number: int) -> None:
        assert root.bus.listeners(TOLD) == ()
        heard.append(number)
        root.emit(TOLD, number + 1)

    root.on(TOLD, listener, once=True)
    root.emit(TOLD, 1)
    root.emit(TOLD, 5)
    assert heard == [1]
    assert not root.fiber.effects
    await root.dispose()


async def test_once_is_once_even_if_a_dispatch_under_way_lists_it():
    # HOST-21, HOST-23
    root = create_context()
    heard: list[str] = []

    async def emits_again(subject: dict[str, int], next: Next[str]) -> str:
        if not subject:
            await root.waterfall(WRAPPED, {"again": 1}, lambda: "")
        return await next()

    def listens(_subject: dict[str, int], next: Next[str]) -> Any:
        heard.append("once")
        return next()

    root.on(WRAPPED, emits_again)
    root.on(WRAPPED, listens, once=True)
    assert await root.waterfall(WRAPPED, {}, lambda: "default") == "default"
    assert heard == ["once"]

    def emits_once_more(number: int) -> None:
        if number:
            root.emit(TOLD, number - 1)

    root.on(TOLD, emits_once_more)
    root.on(TOLD, lambda number: heard.append("told"), once=True)
    root.emit(TOLD, 1)
    assert heard == ["once", "told"]
    await root.dispose()


def test_nobody_listening_costs_no_table():
    bus = HookBus()
    assert bus.listeners(TOLD) == ()
    listener = Listener(print)
    bus.add(TOLD, listener)
    bus.remove(TOLD, listener)
    bus.remove(TOLD, listener)
    assert bus.listeners(TOLD) == ()
    assert bus.listener_count == 0


def test_a_bare_name_and_two_descriptors_of_it_are_one_hook():
    bus = HookBus()
    heard: list[int] = []
    bus.add("test/told", Listener(heard.append))
    bus.emit(TOLD, 1)
    bus.emit(EmitHook[int]("test/told"), 2)
    bus.emit("test/told", 3)
    assert heard == [1, 2, 3]


def test_listeners_are_named_by_where_they_are_defined():
    class Policy:
        def __call__(self) -> None: ...

        def method(self) -> None: ...

    here = __name__
    assert Listener(outer).name == f"{here}.outer"
    assert Listener(partial(outer, {})).name == f"{here}.outer"
    assert Listener(Policy().method).name.endswith("Policy.method")
    assert Listener(Policy()).name.endswith("Policy")


def test_logging_goes_to_the_logger_of_the_package(caplog: pytest.LogCaptureFixture):
    def fails(_number: int) -> None:
        raise ValueError

    with caplog.at_level(logging.WARNING, "dsh_tools"):
        bus_with(TOLD, fails).emit(TOLD, 1)
    assert [record.name for record in caplog.records if "test/told" in record.getMessage()] == ["dsh_tools"]


def test_a_follower_hears_whether_a_hook_has_listeners():
    bus = HookBus()
    heard: list[bool] = []
    also: list[bool] = []
    end = bus.follow(TOLD, heard.append)
    bus.follow("test/told", also.append)
    first, second = Listener(print), Listener(print)
    bus.add(TOLD, first)
    bus.add(TOLD, second)
    bus.add(ASKED, Listener(print))
    bus.remove(TOLD, first)
    assert heard == [False, True]
    end()
    end()
    bus.remove(TOLD, second)
    bus.remove(TOLD, second)
    assert (heard, also) == ([False, True], [False, True, False])
    bus.add(TOLD, first)
    late: list[bool] = []
    bus.follow(TOLD, late.append)
    assert late == [True]
