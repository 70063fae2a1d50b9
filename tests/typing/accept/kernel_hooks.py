# also: mypy
"""Listeners, effects, plugins and services that fit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import assert_type

from dsh_tools.kernel import (
    AbortController,
    AbortSignal,
    BailHook,
    Context,
    Disposer,
    EmitHook,
    Fiber,
    Next,
    ParallelHook,
    SerialHook,
    ServiceKey,
    WaterfallHook,
    create_context,
)

CHANGED: EmitHook[()] = EmitHook("app/changed")
SAID: EmitHook[str, int] = EmitHook("app/said")
SAVING: ParallelHook[str] = ParallelHook("app/saving")
WHO: SerialHook[str, int] = SerialHook("app/who")
WHO_NOW: BailHook[str, int] = BailHook("app/who-now")
DECIDE: WaterfallHook[dict[str, int], str | None] = WaterfallHook("app/decide")
CLOCK: ServiceKey[Callable[[], float]] = ServiceKey("clock")


def changed() -> None: ...


def said(text: str, times: int) -> object:
    return text * times


async def said_later(text: object, times: float) -> None: ...


async def decide(subject: dict[str, int], next: Next[str | None]) -> str | None:
    outcome = await next()
    assert_type(outcome, str | None)
    return outcome


async def narrower(subject: dict[str, int], next: Next[str | None]) -> str:
    return "yes"


def at_once(subject: dict[str, int], next: Next[str | None]) -> str:
    return "no"


def hands_on(subject: dict[str, int], next: Next[str | None]) -> Awaitable[str | None]:
    return next()


def plain_next(subject: dict[str, int], next: Callable[[], Awaitable[str | None]]) -> Awaitable[str | None]:
    return next()


def knows(number: int) -> str | None:
    return str(number) if number else None


async def knows_later(number: int) -> str | None:
    return str(number) if number else None


def register(ctx: Context) -> None:
    assert_type(ctx.on(CHANGED, changed), Disposer)
    ctx.on(SAID, said, prepend=True)
    ctx.on(SAID, said_later, once=True)
    ctx.on(SAVING, print, everywhere=True)
    ctx.on(WHO, knows)
    ctx.on(WHO, knows_later)
    ctx.on(WHO_NOW, knows)
    for listener in (decide, narrower, at_once, hands_on, plain_next):
        ctx.on("app/decide", listener)
    ctx.on(DECIDE, decide)
    ctx.on(DECIDE, narrower)
    ctx.on(DECIDE, at_once)
    ctx.on(DECIDE, hands_on)
    ctx.on(DECIDE, plain_next)
    ctx.on("any/event", lambda *args: None)


async def dispatch(ctx: Context) -> None:
    ctx.emit(CHANGED)
    ctx.emit(SAID, "hello", 2)
    ctx.emit("any/event", 1, "two")
    await ctx.parallel(SAVING, "file")
    assert_type(await ctx.serial(WHO, 1), str | None)
    assert_type(ctx.bail(WHO_NOW, 1), str | None)
    assert_type(await ctx.waterfall(DECIDE, {}, lambda: "default"), str | None)


def generator() -> Iterator[Callable[[], None]]:
    yield print


async def async_generator() -> AsyncIterator[Callable[[], Awaitable[None]]]:
    yield cleanup


async def cleanup() -> None: ...


async def sets_up() -> Callable[[], None]:
    return print


class Plugin:
    name = "plugin"
    inject = ("clock",)

    async def apply(self, ctx: Context, config: dict[str, int]) -> None: ...


class AlsoApplied:
    def apply(self, ctx: Context, config: object) -> None: ...


class Constructed:
    def __init__(self, ctx: Context, config: object) -> None: ...


async def lifetimes() -> None:
    async with create_context() as ctx:
        ctx.effect(lambda: print)
        ctx.effect(lambda: cleanup, "a label")
        ctx.effect(lambda: None)
        ctx.effect(generator)
        ctx.effect(async_generator)
        ctx.effect(lambda: ctx.on(CHANGED, changed))
        ctx.effect(lambda: ctx.plugin(Plugin()))
        off = await ctx.effect(sets_up)
        assert_type(off, Disposer)
        await off()
        assert_type(ctx.plugin(Plugin(), {"a": 1}), Fiber)
        assert_type(await ctx.plugin(Constructed), Fiber)
        ctx.plugin(AlsoApplied)
        ctx.plugin(lambda ctx, config: None)
        await ctx.create_scope("agent").dispose()


def services(ctx: Context) -> None:
    ctx.provide(CLOCK, lambda: 1.0)
    ctx.provide("anything", object())
    assert_type(ctx.get(CLOCK), Callable[[], float] | None)
    assert_type(ctx.require(CLOCK), Callable[[], float])
    assert_type(ctx.require("clock"), object)


async def signals(signal: AbortSignal) -> None:
    with AbortSignal.any([signal, AbortController().signal]) as fused:
        async with fused.cancel_scope():
            await fused.wait()
    with AbortSignal.timeout(1):
        signal.add_callback(lambda: print("aborted"))()
