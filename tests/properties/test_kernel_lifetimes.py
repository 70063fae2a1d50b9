"""Whatever is mounted, provided, undone and disposed, in whatever order: nothing stays behind.

Each example is a sequence of operations on one root context. A ledger notes when each effect was
done, and when its cleanup began and ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_tools.errors import HarnessError
from dsh_tools.kernel import Context, Disposer, EmitHook, FiberState, create_context

EVENT: EmitHook[()] = EmitHook("test/event")
SERVICES = ("a", "b", "c")
SHAPES = ("sync", "async", "generator", "async generator", "later", "failing", "failing async", "nested", "broken")

index = st.integers(0, 1000)
names = st.lists(st.sampled_from(SERVICES), max_size=2, unique=True)
effects = st.lists(st.sampled_from(SHAPES), max_size=3)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("mount"), index, effects, names, names, st.sampled_from(["", "", "slow", "fails"])),
        st.tuples(st.just("scope"), index),
        st.tuples(st.just("effect"), index, st.sampled_from(SHAPES)),
        st.tuples(st.just("listen"), index, st.booleans()),
        st.tuples(st.just("provide"), index, st.sampled_from(SERVICES)),
        st.tuples(st.just("emit")),
        st.tuples(st.just("undo"), index, st.booleans()),
        st.tuples(st.just("dispose"), index, st.sampled_from(["await", "leave", "cancel", "twice"])),
        st.tuples(st.just("wait"), st.integers(1, 3)),
    ),
    max_size=25,
)


@dataclass
class Ledger:
    """What happened, as ``(what, step)``, and for each step its owner's activation and its place there.

    The place is that of the step's effect first: an effect that sets up later stands where it was made.
    """

    done: dict[int, tuple[object, tuple[int, int]]] = field(default_factory=dict)
    events: list[tuple[str, int]] = field(default_factory=list)
    effects: int = 0

    def do(self, owner: object, effect: int) -> int:
        step = len(self.done)
        self.done[step] = (owner, (effect, step))
        return step

    def begin(self, step: int) -> None:
        self.events.append(("begin", step))

    def end(self, step: int) -> None:
        self.events.append(("end", step))


class World:
    def __init__(self) -> None:
        self.root = create_context()
        self.contexts: list[Context] = [self.root]
        self.disposers: list[Disposer] = []
        self.undone_early: list[list[int]] = []
        self.steps_of: dict[Disposer, list[int]] = {}
        self.ledger = Ledger()
        self.tasks: list[asyncio.Task[None]] = []
        self.lives = 1

    # ── effects ───────────────────────────────────────────────────────────────

    def cleanup(self, step: int, shape: str) -> Callable[[], Any]:
        def at_once() -> None:
            self.ledger.begin(step)
            self.ledger.end(step)
            if shape == "failing":
                raise ValueError(f"cleanup {step}")

        async def later() -> None:
            self.ledger.begin(step)
            for _ in range(3):
                await asyncio.sleep(0)
            self.ledger.end(step)
            if shape == "failing async":
                raise ValueError(f"cleanup {step}")

        return later if "async" in shape else at_once

    def effect(self, context: Context, shape: str, activation: object) -> None:
        steps: list[int] = []
        self.ledger.effects += 1
        place = self.ledger.effects

        def step() -> Callable[[], Any]:
            number = self.ledger.do(activation, place)
            steps.append(number)
            return self.cleanup(number, shape)

        def generator() -> Iterator[Any]:
            yield step()
            yield None
            yield step()
            if shape == "broken":
                raise KeyError("a broken body")

        async def async_generator() -> AsyncIterator[Any]:
            yield step()
            await asyncio.sleep(0)
            yield step()

        async def later() -> Callable[[], Any]:
            await asyncio.sleep(0)
            return step()

        def nested() -> Iterator[Any]:
            yield context.effect(step)
            yield context.effect(step)

        bodies: dict[str, Callable[[], Any]] = {
            "generator": generator,
            "broken": generator,
            "async generator": async_generator,
            "later": later,
            "nested": nested,
        }
        try:
            disposer = context.effect(bodies.get(shape, step), shape)
        except (KeyError, HarnessError):
            self.undone_early.append(steps)
            return
        self.disposers.append(disposer)
        self.steps_of[disposer] = steps

    # ── operations ────────────────────────────────────────────────────────────

    def pick(self, number: int) -> Context:
        return self.contexts[number % len(self.contexts)]

    def activation_of(self, context: Context) -> object:
        """What an effect made from outside belongs to; a plugin may reload at any time, so there nothing is known."""
        if context is self.root:
            return self.lives
        return context.fiber if context.scope is not None and context.fiber.label.startswith("scope") else object()

    def mount(self, parent: int, shapes: list[str], inject: list[str], provide: list[str], manner: str) -> None:
        world = self

        class Plugin:
            name = f"plugin {len(self.contexts)}"

            async def apply(self, ctx: Context, config: object) -> None:
                activation = object()
                for shape in shapes:
                    world.effect(ctx, shape, activation)
                for service in provide:
                    ctx.provide(service, ctx.fiber.name)
                if manner == "slow":
                    await asyncio.sleep(0.002)
                if manner == "fails":
                    raise ValueError("a failing body")

        Plugin.inject = inject  # type: ignore[attr-defined]
        fiber = self.pick(parent).plugin(Plugin)
        self.contexts.append(fiber.context)

    def scope(self, parent: int) -> None:
        self.contexts.append(self.pick(parent).create_scope("scope"))

    def listen(self, owner: int, slow: bool) -> None:
        async def later() -> None:
            await asyncio.sleep(0.001)

        self.disposers.append(self.pick(owner).on(EVENT, later if slow else lambda: None))

    async def undo(self, number: int, waits: bool) -> None:
        if not self.disposers:
            return
        disposer = self.disposers[number % len(self.disposers)]
        self.undone_early.append(self.steps_of.get(disposer, []))
        try:
            completion = disposer()
            if waits:
                await completion
        except* ValueError:
            pass

    async def dispose(self, number: int, manner: str) -> None:
        context = self.pick(number)
        if context is self.root:
            self.lives += 1

        async def end() -> None:
            try:
                await context.dispose()
            except* ValueError:
                pass

        if manner == "leave":
            context.dispose()
        elif manner == "cancel":
            task = asyncio.create_task(end())
            self.tasks.append(task)
            await asyncio.sleep(0)
            task.cancel()
        elif manner == "twice":
            assert context.dispose() is context.dispose()
            await asyncio.gather(end(), end())
        else:
            await end()

    async def apply(self, operation: tuple[Any, ...]) -> None:
        kind, *arguments = operation
        try:
            match kind:
                case "mount":
                    self.mount(*arguments)
                case "scope":
                    self.scope(*arguments)
                case "effect":
                    owner = self.pick(arguments[0])
                    self.effect(owner, arguments[1], self.activation_of(owner))
                case "listen":
                    self.listen(*arguments)
                case "provide":
                    self.disposers.append(self.pick(arguments[0]).provide(arguments[1], "value"))
                case "emit":
                    self.root.emit(EVENT)
                case "undo":
                    await self.undo(*arguments)
                case "dispose":
                    await self.dispose(*arguments)
                case _:
                    await asyncio.sleep(0.001 * arguments[0])
        except HarnessError as error:
            # Refused: a fiber that has ended, or a service that is taken.
            assert error.code in {"INACTIVE_EFFECT", "SERVICE_CONFLICT"}

    # ── what has to hold ──────────────────────────────────────────────────────

    def check_nothing_left(self) -> None:
        root = self.root
        assert not root.fiber.effects
        assert root.fiber.state is FiberState.ACTIVE
        assert root.bus.listener_count == 0
        assert root.bus.running_count == 0
        assert root._services.service_count == 0
        assert root._services._interested == {}
        assert all(context.fiber.state is FiberState.DISPOSED for context in self.contexts[1:])
        assert asyncio.all_tasks() == {asyncio.current_task()}

    def check_every_step_undone_once(self) -> None:
        for what in ("begin", "end"):
            steps = [step for kind, step in self.ledger.events if kind == what]
            assert sorted(steps) == sorted(self.ledger.done)

    def check_strict_reverse_order(self) -> None:
        """Of one activation, a later step's cleanup has ended before an earlier one's begins."""
        when = {event: position for position, event in enumerate(self.ledger.events)}
        early = {step for steps in self.undone_early for step in steps}
        by_owner: dict[object, list[int]] = {}
        for step in sorted(self.ledger.done, key=lambda step: self.ledger.done[step][1]):
            if step not in early:
                by_owner.setdefault(self.ledger.done[step][0], []).append(step)
        for steps in by_owner.values():
            for earlier, later in zip(steps, steps[1:], strict=False):
                assert when["end", later] < when["begin", earlier]


async def run(sequence: list[tuple[Any, ...]]) -> None:
    world = World()
    for operation in sequence:
        await world.apply(operation)
    for _ in range(2):
        # The second time shows that the root is usable, and still empty, after a restart.
        try:
            await asyncio.wait_for(asyncio.shield(as_coroutine(world.root.dispose())), 20)
        except* ValueError:
            pass
    await asyncio.gather(*world.tasks, return_exceptions=True)
    world.check_nothing_left()
    world.check_every_step_undone_once()
    world.check_strict_reverse_order()


async def as_coroutine(awaitable: Any) -> None:
    await awaitable


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    # Failing cleanups are logged by the thousand here, as they should be.
    caplog.set_level(logging.CRITICAL, "dsh_tools")


@settings(max_examples=300)
@given(operations)
def test_no_sequence_of_operations_leaves_anything_behind(sequence: list[tuple[Any, ...]]) -> None:
    # HOST-6, HOST-9, HOST-10, HOST-11, HOST-14, HOST-17, HOST-19, HOST-39
    asyncio.run(run(sequence))


def test_the_check_of_order_can_fail() -> None:
    world = World()
    owner = object()
    first, second = world.ledger.do(owner, 1), world.ledger.do(owner, 2)
    for step in (first, second):
        world.ledger.begin(step)
        world.ledger.end(step)
    with pytest.raises(AssertionError):
        world.check_strict_reverse_order()
