"""Listeners, dispatches, effects and services that don't fit."""

from __future__ import annotations

from collections.abc import Callable

from dsh_tools.kernel import (
    BailHook,
    Context,
    EmitHook,
    Next,
    ParallelHook,
    SerialHook,
    ServiceKey,
    WaterfallHook,
)

CHANGED: EmitHook[()] = EmitHook("app/changed")
SAID: EmitHook[str, int] = EmitHook("app/said")
SAVING: ParallelHook[str] = ParallelHook("app/saving")
WHO: SerialHook[str, int] = SerialHook("app/who")
WHO_NOW: BailHook[str, int] = BailHook("app/who-now")
DECIDE: WaterfallHook[dict[str, int], str] = WaterfallHook("app/decide")
CLOCK: ServiceKey[Callable[[], float]] = ServiceKey("clock")


def one(text: str) -> None: ...


def swapped(times: int, text: str) -> None: ...


async def later(number: int) -> str:
    return str(number)


def wrong_answer(number: int) -> int:
    return number


async def no_next(subject: dict[str, int]) -> str:
    return ""


async def wrong_subject(subject: str, next: Next[str]) -> str:
    return await next()


async def wrong_result(subject: dict[str, int], next: Next[str]) -> int:
    return 1


async def wrong_next(subject: dict[str, int], next: Next[int]) -> str:
    return str(await next())


async def forgets_await(subject: dict[str, int], next: Next[str]) -> str:
    return next()  # error


def register(ctx: Context) -> None:
    ctx.on(CHANGED, one)  # error
    ctx.on(SAID, one)  # error
    ctx.on(SAID, swapped)  # error
    ctx.on(WHO, wrong_answer)  # error
    ctx.on(WHO_NOW, later)  # error
    ctx.on(DECIDE, no_next)  # error
    ctx.on(DECIDE, wrong_subject)  # error
    ctx.on(DECIDE, wrong_result)  # error
    ctx.on(DECIDE, wrong_next)  # error
    ctx.on(3, one)  # error


async def dispatch(ctx: Context) -> None:
    ctx.emit(SAID, 2, "hello")  # error
    ctx.emit(CHANGED, 1)  # error
    ctx.emit(DECIDE, {})  # error
    await ctx.parallel(SAVING)  # error
    await ctx.serial(SAID, "hello", 1)  # error
    await ctx.waterfall(DECIDE, {}, lambda: 1)  # error
    await ctx.waterfall(DECIDE, "subject", lambda: "")  # error


def services(ctx: Context) -> None:
    ctx.provide(CLOCK, 1.0)  # error
    ctx.effect(lambda: 3)  # error
    ctx.plugin("name")  # error
    ctx.plugin(one)  # error
    ctx.get(3)  # error
