"""Plugins as fibers: forms, states, config, failures, disposal."""

from __future__ import annotations

import asyncio
import types
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Any

import pydantic
import pytest

from dsh_tools.errors import InactiveEffectError
from dsh_tools.kernel import Context, EmitHook, Fiber, FiberState, create_context

pytestmark = pytest.mark.usefixtures("no_leaks")

EVENT: EmitHook[str] = EmitHook("test/event")


@pytest.fixture
async def root() -> AsyncIterator[Context]:
    context = create_context()
    yield context
    await context.dispose()
    assert not context.fiber.effects


@pytest.fixture
def log() -> list[str]:
    return []


class Limits(pydantic.BaseModel):
    limit: int = 10


class Plugin:
    """A configurable plugin: reports its states, may be slow or fail, and leaves an effect behind."""

    def __init__(self, log: list[str], *, inject: Any = (), error: Exception | None = None, delay: float = 0) -> None:
        self.name = "subject"
        self.inject = inject
        self.log = log
        self.error = error
        self.delay = delay
        self.states: list[FiberState] = []

    async def apply(self, ctx: Context, config: object) -> None:
        self.states.append(ctx.fiber.state)
        ctx.effect(self.work, "work")
        try:
            await asyncio.sleep(self.delay)
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        if self.error is not None:
            raise self.error

    def work(self) -> Callable[[], None]:
        self.log.append("up")
        return lambda: self.log.append("down")


# ── forms ─────────────────────────────────────────────────────────────────────


async def test_a_callable_is_a_plugin(root: Context, log: list[str]):
    # HOST-1
    def sync(ctx: Context, config: object) -> None:
        log.append(f"sync {config}")

    async def later(ctx: Context, config: object) -> None:
        await asyncio.sleep(0)
        log.append(f"async {config}")

    assert (await root.plugin(sync, 1)).name == "sync"
    await root.plugin(later, 2)
    assert log == ["sync 1", "async 2"]


async def test_a_class_is_constructed_and_then_initialised(root: Context, log: list[str]):
    # HOST-1
    class Service:
        def __init__(self, ctx: Context, config: object) -> None:
            log.append(f"made {config}")

        async def init(self) -> None:
            await asyncio.sleep(0)
            log.append("initialised")

    class Plain:
        name = "plain"

        def __init__(self, ctx: Context, config: object) -> None:
            log.append("plain")

    await root.plugin(Service, 1)
    assert (await root.plugin(Plain)).name == "plain"
    assert log == ["made 1", "initialised", "plain"]


async def test_a_class_with_apply_is_applied(root: Context, log: list[str]):
    # HOST-1
    class Applied:
        async def apply(self, ctx: Context, config: object) -> None:
            log.append(f"applied {config}")

    await root.plugin(Applied, 1)
    assert log == ["applied 1"]


async def test_a_module_or_object_with_apply_is_a_plugin(root: Context, log: list[str]):
    # HOST-1
    module = types.ModuleType("some_plugin")
    module.apply = lambda ctx, config: log.append("module")  # type: ignore[attr-defined]
    fiber = await root.plugin(module)  # type: ignore[arg-type]
    assert fiber.name == "some_plugin"
    await root.plugin(Plugin(log))
    assert log == ["module", "up"]


@pytest.mark.parametrize("thing", [None, 3, "name", {}, object()])
async def test_anything_else_is_a_load_error(root: Context, thing: Any):
    # HOST-1
    with pytest.raises(TypeError, match="is not a plugin"):
        root.plugin(thing)
    assert not root.fiber.effects


@pytest.mark.parametrize("inject", ["tools", 3, {"tools": 1}, [3], [""]])
async def test_a_malformed_inject_is_a_load_error(root: Context, log: list[str], inject: Any):
    with pytest.raises(TypeError, match="inject"):
        root.plugin(Plugin(log, inject=inject))


async def test_a_config_that_is_no_model_is_a_load_error(root: Context, log: list[str]):
    plugin = Plugin(log)
    plugin.Config = dict  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="pydantic model"):
        root.plugin(plugin)


async def test_an_abstract_class_fails_at_load(root: Context):
    # HOST-44: not at the first call.
    class Store(ABC):
        def __init__(self, ctx: Context, config: object) -> None: ...

        @abstractmethod
        def save(self) -> None: ...

    with pytest.raises(TypeError, match="abstract"):
        await root.plugin(Store)


def test_mounting_needs_an_event_loop():
    root = create_context()
    with pytest.raises(RuntimeError, match="no running event loop"):
        root.plugin(lambda ctx, config: None)
    with pytest.raises(RuntimeError, match="no running event loop"):
        root.dispose()
    assert not root.fiber.effects


async def test_the_body_may_return_what_undoes_it(root: Context, log: list[str]):
    fiber = root.plugin(lambda ctx, config: lambda: log.append("down"))
    await (await fiber).dispose()
    assert log == ["down"]
    await root.plugin(lambda ctx, config: ctx.effect(lambda: None))
    with pytest.raises(TypeError, match="returned int"):
        await root.plugin(lambda ctx, config: 3)


# ── states ────────────────────────────────────────────────────────────────────


async def test_one_plugin_mounted_twice_is_two_fibers(root: Context, log: list[str]):
    # HOST-2
    plugin = Plugin(log)
    first, second = root.plugin(plugin), root.plugin(plugin)
    assert first is not second
    await asyncio.gather(first.ready(), second.ready())
    await first.dispose()
    assert second.state is FiberState.ACTIVE
    assert log == ["up", "up", "down"]


async def test_the_states_of_a_life(root: Context, log: list[str]):
    # HOST-3
    states: list[FiberState] = []
    plugin = Plugin(log)
    fiber = root.plugin(plugin)
    states.append(fiber.state)
    await fiber
    states += [*plugin.states, fiber.state]
    fiber.context.effect(lambda: lambda: states.append(fiber.state))
    await fiber.dispose()
    states.append(fiber.state)
    assert states == [
        FiberState.PENDING,
        FiberState.LOADING,
        FiberState.ACTIVE,
        FiberState.UNLOADING,
        FiberState.DISPOSED,
    ]


async def test_losing_a_service_leads_back_to_pending(root: Context, log: list[str]):
    # HOST-3: DISPOSED only after an explicit disposal.
    provider = root.plugin(lambda ctx, config: ctx.provide("db", 1))
    fiber = root.plugin(Plugin(log, inject=["db"]))
    await fiber.ready()
    await provider.dispose()
    assert fiber.state is FiberState.PENDING
    await fiber
    await fiber.dispose()
    assert fiber.state is FiberState.DISPOSED


async def test_the_body_runs_after_the_mount_and_awaiting_settles_on_load(root: Context, log: list[str]):
    # HOST-4
    fiber = root.plugin(Plugin(log, delay=0.005))
    assert log == []
    assert await fiber is fiber
    assert fiber.state is FiberState.ACTIVE
    assert log == ["up"]


async def test_awaiting_raises_startup_errors_to_everybody(root: Context, log: list[str]):
    # HOST-4
    fiber = root.plugin(Plugin(log, error=ValueError("startup")))

    async def wait(how: Callable[[], Any]) -> str:
        try:
            await how()
        except ValueError as error:
            return str(error)
        return "loaded"

    waits = [wait(fiber.ready), wait(fiber._settled), wait(fiber.ready)]
    assert await asyncio.gather(*waits) == ["startup"] * 3
    with pytest.raises(ValueError, match="startup"):
        await fiber


async def test_a_failure_that_nobody_awaits_is_logged(root: Context, log: list[str], caplog: pytest.LogCaptureFixture):
    seen = root.plugin(Plugin(log, error=ValueError("seen")))
    with pytest.raises(ValueError):
        await seen
    assert caplog.text == ""
    root.plugin(Plugin(log, error=ValueError("unseen")))
    await asyncio.sleep(0.01)
    assert 'plugin "subject" failed to load' in caplog.text
    assert "unseen" in caplog.text


async def test_config_is_validated_before_the_body_runs(root: Context, log: list[str]):
    # HOST-5
    class Configured:
        name = "configured"
        Config = Limits

        def apply(self, ctx: Context, config: Limits) -> None:
            log.append(repr(config))

    given = Limits(limit=1)
    for config in (None, {"limit": "3"}, given):
        await root.plugin(Configured(), config)
    assert log == ["Limits(limit=10)", "Limits(limit=3)", "Limits(limit=1)"]
    fiber = root.plugin(Configured(), {"limit": "many"})
    with pytest.raises(pydantic.ValidationError):
        await fiber
    assert fiber.state is FiberState.FAILED
    assert len(log) == 3


async def test_config_waits_for_the_services(root: Context):
    # HOST-5: validated once dependencies are there, before each activation.
    validated: list[object] = []

    class Config(pydantic.BaseModel):
        @pydantic.model_validator(mode="before")
        @classmethod
        def note(cls, value: object) -> object:
            validated.append(value)
            return value

    class Needs:
        name = "needs"
        inject = ["db"]

        def apply(self, ctx: Context, config: object) -> None: ...

    plugin = Needs()
    plugin.Config = Config  # type: ignore[attr-defined]
    fiber = root.plugin(plugin, {"a": 1})
    await fiber
    assert validated == []
    for count in (1, 2):
        off = root.provide("db", count)
        await fiber.ready()
        assert len(validated) == count
        await off()


async def test_a_failing_body_leaves_nothing_behind(root: Context, log: list[str]):
    # HOST-6: a partial registration must not leak.
    child_log: list[str] = []

    async def fails(ctx: Context, config: object) -> None:
        ctx.on(EVENT, log.append)
        ctx.provide("half", 1)
        ctx.create_scope("half").on(EVENT, log.append)
        await ctx.plugin(Plugin(child_log))
        raise ValueError("half-way")

    fiber = root.plugin(fails)
    with pytest.raises(ValueError, match="half-way"):
        await fiber
    assert fiber.state is FiberState.FAILED
    root.emit(EVENT, "heard")
    assert log == []
    assert child_log == ["up", "down"]
    assert root.get("half") is None
    assert root.bus.listener_count == 0
    root.provide("half", 2)
    with pytest.raises(InactiveEffectError, match="has failed"):
        fiber.context.on(EVENT, log.append)


async def test_a_body_that_gives_up_by_itself_has_failed(root: Context):
    async def gives_up(ctx: Context, config: object) -> None:
        raise asyncio.CancelledError

    fiber = root.plugin(gives_up)
    with pytest.raises(RuntimeError, match="ended in CancelledError"):
        await fiber
    assert fiber.state is FiberState.FAILED


async def test_a_failed_fiber_tries_again_when_a_service_changes(root: Context, log: list[str]):
    # HOST-7
    plugin = Plugin(log, inject=["db"], error=ValueError("not yet"))
    off = root.provide("db", 1)
    fiber = root.plugin(plugin)
    with pytest.raises(ValueError, match="not yet"):
        await fiber
    root.provide("other", 1)
    await asyncio.sleep(0)
    assert fiber.state is FiberState.FAILED
    assert log == ["up", "down"]
    off()
    plugin.error = None
    root.provide("db", 2)
    await fiber
    assert fiber.state is FiberState.ACTIVE
    assert fiber.error is None


async def test_loading_waits_for_async_effects_and_fails_with_them(root: Context, log: list[str]):
    # HOST-4, HOST-6
    async def connects() -> Callable[[], None]:
        await asyncio.sleep(0.005)
        log.append("connected")
        return lambda: log.append("closed")

    async def breaks() -> None:
        await asyncio.sleep(0.001)
        raise ValueError("broken")

    await root.plugin(lambda ctx, config: ctx.effect(connects) and None)
    assert log == ["connected"]

    def careless(ctx: Context, config: object) -> None:
        ctx.effect(lambda: lambda: log.append("undone"))
        ctx.effect(breaks)

    fiber = root.plugin(careless)
    with pytest.raises(ValueError, match="broken"):
        await fiber
    assert fiber.state is FiberState.FAILED
    assert log == ["connected", "undone"]

    def twice_careless(ctx: Context, config: object) -> None:
        ctx.effect(breaks)
        ctx.effect(breaks)

    with pytest.raises(ExceptionGroup, match="effects of"):
        await root.plugin(twice_careless)


async def test_a_body_may_handle_the_failure_of_an_async_effect(root: Context, log: list[str]):
    async def breaks() -> None:
        raise ValueError("broken")

    async def careful(ctx: Context, config: object) -> None:
        try:
            await ctx.effect(breaks)
        except ValueError:
            log.append("handled")

    assert (await root.plugin(careful)).state is FiberState.ACTIVE
    assert log == ["handled"]


async def test_a_body_that_awaits_itself_does_not_hang(root: Context, log: list[str]):
    async def impatient(ctx: Context, config: object) -> None:
        await ctx.fiber
        await ctx.fiber.ready()
        log.append("goes on")

    await asyncio.wait_for(root.plugin(impatient).ready(), 5)
    assert log == ["goes on"]


# ── disposal ──────────────────────────────────────────────────────────────────


async def test_registering_on_a_pending_fiber_is_legal_on_a_disposed_one_not(root: Context, log: list[str]):
    # HOST-16
    fiber = root.plugin(Plugin(log, inject=["missing"]))
    await fiber
    assert fiber.state is FiberState.PENDING
    fiber.context.effect(lambda: lambda: log.append("undone"))
    await fiber.dispose()
    assert log == ["undone"]
    for register in (
        lambda: fiber.context.effect(lambda: None),
        lambda: fiber.context.on(EVENT, print),
        lambda: fiber.context.plugin(Plugin(log)),
        lambda: fiber.context.create_scope("scope"),
        lambda: fiber.context.provide("service", 1),
    ):
        with pytest.raises(InactiveEffectError, match="is disposed") as raised:
            register()
        assert raised.value.code == "INACTIVE_EFFECT"


async def test_registering_between_the_request_and_the_disposal_is_refused(root: Context, log: list[str]):
    # HOST-16
    fiber = await root.plugin(Plugin(log))
    done = fiber.dispose()
    with pytest.raises(InactiveEffectError, match="is unloading"):
        fiber.context.effect(lambda: None)
    await done


async def test_disposing_ends_child_fibers_and_waits_for_their_cleanup(root: Context, log: list[str]):
    # HOST-17
    async def slow_cleanup() -> None:
        await asyncio.sleep(0.01)
        log.append("grandchild")

    async def parent(ctx: Context, config: object) -> None:
        ctx.effect(lambda: lambda: log.append("parent, first"))
        fibers.append(await ctx.plugin(child))
        ctx.effect(lambda: lambda: log.append("parent, last"))

    async def child(ctx: Context, config: object) -> None:
        fibers.append(await ctx.plugin(lambda ctx, config: lambda: slow_cleanup()))
        ctx.effect(lambda: lambda: log.append("child"))

    fibers: list[Fiber] = []
    fiber = await root.plugin(parent)
    await fiber.dispose()
    assert log == ["parent, last", "child", "grandchild", "parent, first"]
    assert {one.state for one in (fiber, *fibers)} == {FiberState.DISPOSED}


async def test_failures_of_child_fibers_come_in_the_one_group(root: Context):
    # D14
    def fails() -> None:
        raise ValueError("child")

    async def parent(ctx: Context, config: object) -> None:
        await ctx.plugin(lambda ctx, config: fails)

    fiber = await root.plugin(parent)
    with pytest.raises(ExceptionGroup, match='disposing plugin "parent" failed') as raised:
        await fiber.dispose()
    assert [str(error) for error in raised.value.exceptions] == ["child"]


async def test_failures_of_an_unload_without_awaiter_are_logged(root: Context, caplog: pytest.LogCaptureFixture):
    # HOST-12 (D14)
    class Fragile:
        name = "fragile"
        inject = ["db"]

        def apply(self, ctx: Context, config: object) -> None:
            def fails() -> None:
                raise ValueError("at the end")

            ctx.effect(lambda: fails)

    off = root.provide("db", 1)
    fiber = await root.plugin(Fragile())
    await off()
    assert "unloading" in caplog.text
    assert "at the end" in caplog.text
    assert fiber.state is FiberState.PENDING


async def test_every_dispose_awaits_the_same_completion(root: Context, log: list[str]):
    # HOST-18 (D13)
    async def cleanup() -> None:
        await asyncio.sleep(0.01)
        log.append("clean")
        raise ValueError("dirty")

    fiber = await root.plugin(lambda ctx, config: cleanup)

    async def dispose() -> str:
        with pytest.raises(ExceptionGroup) as raised:
            await fiber.dispose()
        return f"{raised.value.exceptions[0]}, {log}"

    assert await asyncio.gather(dispose(), dispose()) == ["dirty, ['clean']"] * 2
    assert await dispose() == "dirty, ['clean']"
    assert fiber.dispose() is fiber.dispose()


async def test_a_cancelled_awaiter_does_not_cut_the_disposal_short(
    root: Context, log: list[str], caplog: pytest.LogCaptureFixture
):
    # HOST-17 (D13)
    async def cleanup() -> None:
        await asyncio.sleep(0.01)
        log.append("clean")
        raise ValueError("dirty")

    fiber = await root.plugin(lambda ctx, config: cleanup)

    async def dispose() -> None:
        await fiber.dispose()

    task = asyncio.create_task(dispose())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert log == ["clean"]
    assert fiber.state is FiberState.DISPOSED
    assert "dirty" in caplog.text


async def test_disposing_the_root_restarts_it_empty(root: Context, log: list[str]):
    # HOST-19
    fiber = root.plugin(Plugin(log))
    await fiber
    root.provide("db", 1)
    root.on(EVENT, log.append)
    first = root.dispose()
    assert root.dispose() is first
    await first
    assert root.fiber.state is FiberState.ACTIVE
    assert fiber.state is FiberState.DISPOSED
    assert root.get("db") is None
    assert root.bus.listener_count == 0
    await root.plugin(Plugin(log))
    root.provide("db", 2)
    assert root.get("db") == 2
    await root.dispose()
    assert log == ["up", "down", "up", "down"]


async def test_a_root_is_an_async_context_manager(log: list[str]):
    async with create_context() as root:
        await root.plugin(Plugin(log))
    assert log == ["up", "down"]


async def test_disposing_while_loading_cancels_the_body_and_undoes_its_effects(root: Context, log: list[str]):
    fiber = root.plugin(Plugin(log, delay=60))
    await asyncio.sleep(0.001)
    assert fiber.state is FiberState.LOADING
    await asyncio.wait_for(fiber.dispose(), 5)
    assert log == ["up", "cancelled", "down"]
    assert fiber.state is FiberState.DISPOSED
    await fiber
    with pytest.raises(InactiveEffectError):
        await fiber.ready()


async def test_a_failure_while_loading_is_given_up_is_logged(root: Context, caplog: pytest.LogCaptureFixture):
    async def stubborn(ctx: Context, config: object) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ValueError("while stopping") from None

    fiber = root.plugin(stubborn)
    await asyncio.sleep(0.001)
    await fiber.dispose()
    assert "while stopping" in caplog.text
    assert "given up" in caplog.text


async def test_disposing_before_the_body_began_never_runs_it(root: Context, log: list[str]):
    fiber = root.plugin(Plugin(log))
    await fiber.dispose()
    assert log == []
    assert fiber.state is FiberState.DISPOSED


async def test_a_body_may_dispose_its_own_fiber(root: Context, log: list[str]):
    # HOST-15: the disposal waits for the body.
    async def suicidal(ctx: Context, config: object) -> None:
        ctx.effect(lambda: lambda: log.append("undone"))
        await ctx.dispose()
        log.append("body ends")

    fiber = root.plugin(suicidal)
    await asyncio.wait_for(fiber._settled(), 5)
    assert fiber.state is FiberState.DISPOSED
    assert log == ["body ends", "undone"]


async def test_a_waiter_for_readiness_is_told_of_the_disposal(root: Context, log: list[str]):
    fiber = root.plugin(Plugin(log, inject=["missing"]))
    waiting = asyncio.create_task(fiber.ready())
    await asyncio.sleep(0.001)
    assert not waiting.done()
    assert fiber.missing == ("missing",)
    await fiber.dispose()
    with pytest.raises(InactiveEffectError, match="is disposed"):
        await waiting


async def test_a_fiber_collected_by_an_effect_is_disposed_with_it(root: Context, log: list[str]):
    # HOST-14
    off = root.effect(lambda: root.plugin(Plugin(log)))
    assert list(root.fiber.effects) == [off]
    await asyncio.sleep(0.005)
    await off()
    assert log == ["up", "down"]


async def test_listeners_are_live_while_their_plugin_is_still_loading(root: Context, log: list[str]):
    # HOST-24
    async def listens(ctx: Context, config: object) -> None:
        ctx.on(EVENT, log.append)
        await asyncio.sleep(0.005)

    fiber = root.plugin(listens)
    await asyncio.sleep(0.001)
    assert fiber.state is FiberState.LOADING
    root.emit(EVENT, "heard")
    await fiber
    await fiber.dispose()
    root.emit(EVENT, "not heard")
    assert log == ["heard"]


async def test_a_body_that_loads_when_the_loop_stops_is_undone(log: list[str]):
    root = create_context()

    def run() -> None:
        async def main() -> None:
            root.plugin(Plugin(log, delay=60))
            await asyncio.sleep(0.001)

        asyncio.run(main())

    await asyncio.to_thread(run)
    assert log == ["up", "cancelled", "down"]
    await root.dispose()


async def test_a_disposal_survives_the_end_of_the_loop(log: list[str]):
    # A stopping loop cancels every task; cleanup goes on to its end all the same.
    def run() -> None:
        async def main() -> None:
            root = create_context()
            root.effect(lambda: lambda: log.append("first"))

            async def cleanup() -> None:
                log.append("begins")
                await asyncio.sleep(60)

            root.effect(lambda: cleanup)
            root.dispose()
            await asyncio.sleep(0.001)

        asyncio.run(main())

    await asyncio.to_thread(run)
    assert log == ["begins", "first"]
