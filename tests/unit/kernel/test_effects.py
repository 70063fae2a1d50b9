"""Effects: bodies in all their shapes, undone in strict reverse order."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from dsh_tools.errors import InactiveEffectError
from dsh_tools.kernel import Context, Disposer, EmitHook, FiberState, create_context

pytestmark = pytest.mark.usefixtures("no_leaks")

EVENT: EmitHook[int] = EmitHook("test/event")


@pytest.fixture
async def root() -> AsyncIterator[Context]:
    context = create_context()
    yield context
    await context.dispose()
    assert not context.fiber.effects


@pytest.fixture
def log() -> list[str]:
    return []


def undo(log: list[str], name: str) -> Callable[[], None]:
    return lambda: log.append(name)


async def as_coroutine(dispose: Callable[[], Awaitable[None]]) -> None:
    await dispose()


def undo_later(log: list[str], name: str, delay: float = 0.005) -> Callable[[], Awaitable[None]]:
    async def cleanup() -> None:
        log.append(f"{name}…")
        await asyncio.sleep(delay)
        log.append(name)

    return cleanup


# ── shapes ────────────────────────────────────────────────────────────────────


async def test_a_body_runs_at_once_and_its_result_undoes_it(root: Context, log: list[str]):
    # HOST-8: a callable
    def body() -> Callable[[], None]:
        log.append("done")
        return undo(log, "undone")

    off = root.effect(body)
    assert log == ["done"]
    off()
    assert log == ["done", "undone"]


async def test_a_body_may_have_nothing_to_undo(root: Context):
    # HOST-8: none
    root.effect(lambda: None)()


async def test_an_awaitable_body_sets_up_later(root: Context, log: list[str]):
    # HOST-8: an awaitable of a callable
    async def body() -> Callable[[], None]:
        await asyncio.sleep(0)
        log.append("done")
        return undo(log, "undone")

    off = root.effect(body)
    assert log == []
    assert await off is off
    assert log == ["done"]
    await off()
    assert log == ["done", "undone"]


async def test_a_generator_yields_one_cleanup_for_each_step(root: Context, log: list[str]):
    # HOST-8, 10: steps are undone in reverse, and an async one delays the earlier ones.
    def body() -> Iterator[Any]:
        for name in ("a", "b", "c"):
            log.append(f"+{name}")
            yield undo_later(log, name) if name == "b" else undo(log, name)
        yield None

    off = root.effect(body)
    assert log == ["+a", "+b", "+c"]
    await off()
    assert log[3:] == ["c", "b…", "b", "a"]


async def test_an_async_generator_does_the_same_later(root: Context, log: list[str]):
    # HOST-8, 10
    async def body() -> AsyncIterator[Any]:
        yield undo(log, "a")
        await asyncio.sleep(0)
        yield undo_later(log, "b")
        yield undo(log, "c")

    off = root.effect(body)
    await off
    await off()
    assert log == ["c", "b…", "b", "a"]


@pytest.mark.parametrize("shape", [1, "text", ["list"], {"a": 1}])
async def test_other_shapes_are_type_errors(root: Context, log: list[str], shape: Any):
    # HOST-8
    with pytest.raises(TypeError, match="expected a cleanup function"):
        root.effect(lambda: shape)

    def body() -> Iterator[Any]:
        yield undo(log, "first")
        yield shape

    with pytest.raises(TypeError):
        root.effect(body, "of two steps")

    async def later() -> Any:
        return shape

    with pytest.raises(TypeError):
        await root.effect(later)
    assert log == ["first"]
    assert not root.fiber.effects


# ── disposing ─────────────────────────────────────────────────────────────────


async def test_a_disposer_is_single_shot_and_leaves_the_list_of_its_owner(root: Context, log: list[str]):
    # HOST-9
    off = root.effect(lambda: undo(log, "undone"))
    assert list(root.fiber.effects) == [off]
    first = off()
    assert off() is first
    await off()
    assert log == ["undone"]
    assert not root.fiber.effects


def test_synchronous_effects_need_no_event_loop():
    context = create_context()
    log: list[str] = []
    off = context.on(EVENT, lambda number: log.append(str(number)))
    context.provide("service", 1)()
    context.emit(EVENT, 1)
    off()
    context.emit(EVENT, 2)
    assert log == ["1"]
    assert not context.fiber.effects


def test_an_async_cleanup_without_an_event_loop_fails_and_the_others_still_run():
    context = create_context()
    log: list[str] = []

    def body() -> Iterator[Any]:
        yield undo(log, "a")
        yield undo_later(log, "b")
        yield undo(log, "c")

    with pytest.raises(RuntimeError, match="no running event loop"):
        context.effect(body)()
    assert log == ["c", "a"]

    async def later() -> None: ...

    with pytest.raises(RuntimeError, match="no running event loop"):
        context.effect(later)
    assert not context.fiber.effects


def test_a_fiber_cannot_end_without_an_event_loop_and_can_later():
    context = create_context()
    scope = context.create_scope("agent")
    with pytest.raises(RuntimeError, match="no running event loop"):
        context.effect(lambda: scope.fiber)()
    assert scope.fiber.is_active
    asyncio.run(as_coroutine(scope.dispose))
    assert scope.fiber.state is FiberState.DISPOSED
    assert not context.fiber.effects


async def test_every_caller_awaits_the_same_completion(root: Context, log: list[str]):
    # HOST-18 (D13): whoever calls and however often.
    off = root.effect(lambda: undo_later(log, "undone"))

    async def dispose() -> str:
        await off()
        return log[-1]

    assert await asyncio.gather(dispose(), dispose(), dispose()) == ["undone"] * 3
    assert log == ["undone…", "undone"]


async def test_cleanup_goes_on_when_its_awaiter_is_cancelled_again_and_again(root: Context, log: list[str]):
    # HOST-17: quiescence, not request; a second cancel doesn't shorten it.
    off = root.effect(lambda: undo_later(log, "undone", 0.02))

    async def dispose() -> None:
        await off()

    task = asyncio.create_task(dispose())
    for _ in range(3):
        await asyncio.sleep(0.001)
        task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert log == ["undone…", "undone"]


async def test_cleanup_needs_no_awaiter(root: Context, log: list[str], caplog: pytest.LogCaptureFixture):
    async def cleanup() -> None:
        await asyncio.sleep(0)
        log.append("undone")
        raise ValueError("nobody waits")

    root.effect(lambda: cleanup, "careless")()
    await asyncio.sleep(0.01)
    assert log == ["undone"]
    assert "careless" in caplog.text
    assert "nobody waits" in caplog.text


async def test_failures_of_one_effect_are_raised_where_it_is_undone(root: Context, log: list[str]):
    def fails(text: str) -> Callable[[], None]:
        def cleanup() -> None:
            raise ValueError(text)

        return cleanup

    def body() -> Iterator[Any]:
        yield fails("one")
        yield undo(log, "between")
        yield fails("two")

    with pytest.raises(ValueError, match="alone"):
        root.effect(lambda: fails("alone"))()
    with pytest.raises(ExceptionGroup) as raised:
        root.effect(body)()
    assert [str(error) for error in raised.value.exceptions] == ["two", "one"]
    assert log == ["between"]
    assert not root.fiber.effects


async def test_strict_reverse_order_across_effects_one_after_another(root: Context, log: list[str]):
    # HOST-11 (D14): later effects are undone completely before earlier ones begin.
    root.effect(lambda: undo(log, "a"))
    root.effect(lambda: undo_later(log, "b"))
    root.effect(lambda: undo_later(log, "c"))
    root.effect(lambda: undo(log, "d"))
    await root.dispose()
    assert log == ["d", "c…", "c", "b…", "b", "a"]


async def test_a_step_declared_after_a_registration_still_sees_it(root: Context, log: list[str]):
    # PIPE-16: also if it yields asynchronously.
    registered: set[str] = set()

    def register() -> Callable[[], None]:
        registered.add("tool")
        return lambda: registered.discard("tool")

    async def looks() -> None:
        await asyncio.sleep(0.005)
        log.append(",".join(registered))

    root.effect(register)
    root.effect(lambda: looks)
    await root.dispose()
    assert log == ["tool"]
    assert registered == set()


async def test_failures_do_not_stop_the_other_cleanups_and_come_as_one_group(root: Context, log: list[str]):
    # HOST-12 (D14)
    async def fails_later() -> None:
        await asyncio.sleep(0)
        raise KeyError("async")

    def fails() -> None:
        raise ValueError("sync")

    def gives_up() -> None:
        raise asyncio.CancelledError

    root.effect(lambda: undo(log, "a"))
    root.effect(lambda: fails, "the first")
    root.effect(lambda: undo(log, "b"))
    root.effect(lambda: fails_later)
    root.effect(lambda: gives_up)
    with pytest.raises(ExceptionGroup, match="disposing the root context failed") as raised:
        await root.dispose()
    assert [type(error) for error in raised.value.exceptions] == [RuntimeError, KeyError, ValueError]
    assert 'effect "the first"' in raised.value.exceptions[-1].__notes__[0]
    assert log == ["b", "a"]


async def test_an_owner_joins_a_disposal_already_under_way(root: Context, log: list[str]):
    # HOST-18: a structural owner waits for what has begun, and undoes earlier effects after it.
    root.effect(lambda: undo(log, "a"))
    off = root.effect(lambda: undo_later(log, "b"))
    off()
    await root.dispose()
    assert log == ["b…", "b", "a"]


# ── failing bodies ────────────────────────────────────────────────────────────


async def test_a_generator_that_raises_midway_is_undone_and_its_error_goes_out(root: Context, log: list[str]):
    # HOST-13
    def body() -> Iterator[Any]:
        yield undo(log, "a")
        yield undo(log, "b")
        raise ValueError("midway")

    with pytest.raises(ValueError, match="midway"):
        root.effect(body)
    assert log == ["b", "a"]
    assert not root.fiber.effects


async def test_an_async_generator_that_raises_midway_too(root: Context, log: list[str]):
    # HOST-13
    async def body() -> AsyncIterator[Any]:
        yield undo(log, "a")
        yield undo_later(log, "b")
        raise ValueError("midway")

    with pytest.raises(ValueError, match="midway"):
        await root.effect(body)
    assert log == ["b…", "b", "a"]
    assert not root.fiber.effects


async def test_a_failing_async_body_that_nobody_awaits_is_logged(root: Context, caplog: pytest.LogCaptureFixture):
    async def body() -> None:
        raise ValueError("unseen")

    root.effect(body, "careless")
    await asyncio.sleep(0.01)
    assert "careless" in caplog.text
    assert "unseen" in caplog.text
    assert not root.fiber.effects


async def test_cleanups_of_a_failing_body_that_fail_too_are_logged(root: Context, caplog: pytest.LogCaptureFixture):
    def fails() -> None:
        raise KeyError("cleanup")

    def body() -> Iterator[Any]:
        yield fails
        raise ValueError("body")

    with pytest.raises(ValueError, match="body"):
        root.effect(body)
    assert "cleanup" in caplog.text


# ── nesting ───────────────────────────────────────────────────────────────────


async def test_an_effect_collected_by_another_leaves_the_list_of_the_fiber(root: Context, log: list[str]):
    # HOST-14: by identity, and so ordered teardown stays ordered.
    def body() -> Iterator[Disposer]:
        yield root.effect(lambda: undo(log, "a"))
        yield root.effect(lambda: undo_later(log, "b"))
        yield root.effect(lambda: undo(log, "c"))

    off = root.effect(body)
    assert list(root.fiber.effects) == [off]
    await root.dispose()
    assert log == ["c", "b…", "b", "a"]


async def test_a_collected_effect_can_be_undone_early_and_only_once(root: Context, log: list[str]):
    # HOST-14: no double disposal.
    inner = root.effect(lambda: undo(log, "inner"))
    outer = root.effect(lambda: inner)
    inner()
    outer()
    assert log == ["inner"]


async def test_an_outer_effect_joins_an_inner_disposal_under_way(root: Context, log: list[str]):
    # HOST-18
    def body() -> Iterator[Any]:
        yield undo(log, "outer")
        yield inner

    inner = root.effect(lambda: undo_later(log, "inner"))
    outer = root.effect(body)
    inner()
    await outer()
    assert log == ["inner…", "inner", "outer"]


async def test_failures_of_collected_effects_are_raised_by_the_outer_one(
    root: Context, caplog: pytest.LogCaptureFixture
):
    def fails() -> None:
        raise ValueError("inner")

    async def fails_later() -> None:
        raise KeyError("inner, later")

    def body() -> Iterator[Any]:
        yield root.effect(lambda: fails)
        yield root.effect(lambda: fails_later)

    with pytest.raises(ExceptionGroup) as raised:
        await root.effect(body)()
    assert [type(error) for error in raised.value.exceptions] == [KeyError, ValueError]
    assert caplog.text == ""


async def test_a_disposal_from_inside_an_async_body_waits_for_the_body(root: Context, log: list[str]):
    # HOST-15: then it runs every disposer that the body collected.
    inside = asyncio.Event()

    async def body() -> AsyncIterator[Any]:
        yield undo(log, "first")
        inside.set()
        await off()  # returns at once: the disposal itself waits for this body
        log.append("body goes on")
        await asyncio.sleep(0.005)
        yield undo(log, "second")
        log.append("body ends")

    off = root.effect(body)
    await inside.wait()
    await off()
    assert log == ["body goes on", "body ends", "second", "first"]


async def test_a_fiber_disposed_from_inside_a_body_undoes_what_that_body_collected(root: Context, log: list[str]):
    # HOST-15
    def body() -> Iterator[Any]:
        yield undo(log, "first")
        root.dispose()
        yield undo(log, "second")
        log.append("body ends")

    root.effect(body)
    await root.dispose()
    assert log == ["body ends", "second", "first"]


async def test_a_cleanup_that_awaits_its_own_disposal_does_not_hang(root: Context, log: list[str]):
    async def cleanup() -> None:
        await off()
        await root.dispose()
        log.append("undone")

    off = root.effect(lambda: cleanup)
    await asyncio.wait_for(root.dispose(), 5)
    assert log == ["undone"]


# ── listeners as effects ──────────────────────────────────────────────────────


async def test_an_ending_context_waits_for_its_async_listeners(root: Context, log: list[str]):
    # HOST-17, HOST-24: nothing of it runs on afterwards.
    async def listener(_number: int) -> None:
        await asyncio.sleep(0.01)
        log.append("heard")

    root.effect(lambda: undo(log, "resource"))
    root.on(EVENT, listener)
    root.emit(EVENT, 1)
    await root.dispose()
    assert log == ["heard", "resource"]


async def test_an_async_listener_may_dispose_its_own_context(root: Context, log: list[str]):
    async def listener(_number: int) -> None:
        await root.dispose()
        log.append("heard")

    root.on(EVENT, listener)
    root.emit(EVENT, 1)
    await asyncio.wait_for(root.dispose(), 5)
    assert log == ["heard"]


# ── leaks ─────────────────────────────────────────────────────────────────────


def test_a_context_collected_with_effects_pending_warns():
    # D14
    context = create_context()
    context.effect(lambda: print, "an open file")
    with pytest.warns(ResourceWarning, match=r"1 effects pending \(an open file\)"):
        del context
        gc.collect()


async def test_a_disposed_context_is_collected_in_silence():
    context = create_context()
    context.effect(lambda: lambda: None)
    context.create_scope("agent").effect(lambda: lambda: None)
    await context.dispose()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del context
        gc.collect()


async def test_registering_while_unloading_is_refused(root: Context):
    # HOST-16
    refused: list[str] = []

    async def cleanup() -> None:
        for register in (
            lambda: root.effect(lambda: None),
            lambda: root.on(EVENT, print),
            lambda: root.provide("a", 1),
        ):
            with pytest.raises(InactiveEffectError) as raised:
                register()
            refused.append(raised.value.code)

    root.effect(lambda: cleanup)
    await root.dispose()
    assert refused == ["INACTIVE_EFFECT"] * 3
