"""Contexts and their scopes: who hears what, and what ends with whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dsh_tools.kernel import (
    EVERY_SCOPE,
    BailHook,
    Context,
    EmitHook,
    FiberState,
    ParallelHook,
    Scope,
    SerialHook,
    create_context,
)

pytestmark = pytest.mark.usefixtures("no_leaks")

EVENT: EmitHook[()] = EmitHook("test/event")


@pytest.fixture
async def root() -> AsyncIterator[Context]:
    context = create_context()
    yield context
    await context.dispose()
    assert context.bus.listener_count == 0


def hears(context: Context, heard: list[str], name: str, **options: Any) -> None:
    context.on(EVENT, lambda: heard.append(name), **options)


async def test_one_context_decides_visibility_and_ownership(root: Context):
    # HOST-45: a scope is a tagged context with a fiber of its own; what is registered dies with it.
    heard: list[str] = []
    agent = root.create_scope("agent")
    assert agent.scope is not None
    assert agent.fiber is not root.fiber
    assert agent.root is root
    hears(agent, heard, "agent")
    root.emit(EVENT, scope=agent.scope)
    await agent.dispose()
    root.emit(EVENT, scope=agent.scope)
    assert heard == ["agent"]
    assert agent.fiber.state is FiberState.DISPOSED
    assert root.fiber.state is FiberState.ACTIVE


async def test_a_scope_ends_with_the_context_it_came_from(root: Context):
    # HOST-45
    scopes: list[Context] = []

    def plugin(ctx: Context, config: object) -> None:
        scopes.append(ctx.create_scope("agent"))
        hears(scopes[0], [], "agent")

    fiber = await root.plugin(plugin)
    await fiber.dispose()
    assert scopes[0].fiber.state is FiberState.DISPOSED
    assert root.bus.listener_count == 0


async def test_derived_contexts_inherit_the_tag_and_nested_ones_carry_the_nearest(root: Context):
    # HOST-46
    tags: list[Scope | None] = []
    outer = root.create_scope("outer")
    inner = outer.create_scope("inner")
    await outer.plugin(lambda ctx, config: tags.append(ctx.scope))
    await root.plugin(lambda ctx, config: tags.append(ctx.scope))
    assert tags == [outer.scope, None]
    assert inner.scope is not None
    assert inner.scope.chain() == (inner.scope,)  # links live on keys, not on contexts
    linked = root.create_scope("linked", outer.scope)
    assert linked.scope is not None
    assert linked.scope.parent is outer.scope


async def test_a_scope_is_routing_and_no_wall(root: Context):
    # HOST-56: a holder gets the services of the context it came from.
    root.provide("secret", 1)
    assert root.create_scope("agent").get("secret") == 1


async def test_events_go_up_from_the_dispatching_scope(root: Context):
    # HOST-49, PIPE-37: untagged listeners always; tagged ones for their own scope and its descendants.
    heard: list[str] = []
    parent = root.create_scope("parent")
    child = root.create_scope("child", parent.scope)
    stranger = root.create_scope("stranger")
    for context, name in ((child, "child"), (root, "global"), (parent, "parent"), (stranger, "stranger")):
        hears(context, heard, name)

    def dispatch(scope: Scope | None) -> list[str]:
        heard.clear()
        root.emit(EVENT, scope=scope)
        return list(heard)

    assert dispatch(child.scope) == ["child", "global", "parent"]
    assert dispatch(parent.scope) == ["global", "parent"]
    assert dispatch(stranger.scope) == ["global", "stranger"]
    assert dispatch(Scope("unknown")) == ["global"]
    assert dispatch(None) == ["global"]


async def test_a_dispatch_through_a_scoped_context_is_by_its_scope(root: Context):
    heard: list[str] = []
    agent = root.create_scope("agent")
    hears(agent, heard, "agent")
    hears(root, heard, "global")
    root.emit(EVENT)
    agent.emit(EVENT)
    assert heard == ["global", "agent", "global"]


async def test_listeners_can_ignore_scopes(root: Context):
    # HOST-33
    heard: list[str] = []
    agent = root.create_scope("agent")
    hears(agent, heard, "agent")
    hears(agent, heard, "everywhere", everywhere=True)
    root.emit(EVENT)
    assert heard == ["everywhere"]


async def test_an_unfiltered_dispatch_reaches_everybody(root: Context):
    # PIPE-38, HOST-79
    heard: list[str] = []
    for name in ("a", "b"):
        hears(root.create_scope(name), heard, name)
    hears(root, heard, "global")
    root.emit(EVENT, scope=EVERY_SCOPE)
    assert heard == ["a", "b", "global"]


async def test_views_follow_every_change(root: Context):
    # HOST-49: cached views never go stale.
    heard: list[str] = []
    parent, agent = Scope("parent"), root.create_scope("agent")
    assert agent.scope is not None
    other = root.create_scope("other", parent)
    hears(other, heard, "other")
    off = agent.on(EVENT, lambda: heard.append("agent"))

    def dispatch() -> list[str]:
        heard.clear()
        root.emit(EVENT, scope=agent.scope)
        return list(heard)

    assert dispatch() == ["agent"]
    link = agent.scope.bind_parent(other.scope or parent)
    assert dispatch() == ["other", "agent"]
    link.rebind(parent)
    assert dispatch() == ["agent"]
    hears(root, heard, "global", prepend=True)
    assert dispatch() == ["global", "agent"]
    off()
    assert dispatch() == ["global"]


def test_views_of_many_scopes_are_bounded():
    root = create_context()
    root.create_scope("agent").on(EVENT, print)
    for _ in range(3000):
        root.emit(EVENT, scope=Scope("passing"))
    assert len(root.bus._tables[EVENT.name].views) <= 1025
    root.fiber.effects.clear()


async def test_the_other_dispatches_of_a_context(root: Context):
    together: ParallelHook[str] = ParallelHook("test/together")
    asked: SerialHook[str, str] = SerialHook("test/asked")
    asked_now: BailHook[str, str] = BailHook("test/asked-now")
    heard: list[str] = []
    agent = root.create_scope("agent")
    agent.on(together, heard.append)
    agent.on(asked, lambda name: f"to {name}")
    agent.on(asked_now, lambda name: f"now to {name}")
    await root.parallel(together, "nobody")
    await agent.parallel(together, "agent")
    assert heard == ["agent"]
    assert await agent.serial(asked, "me") == "to me"
    assert await root.serial(asked, "me") is None
    assert agent.bail(asked_now, "me") == "now to me"


def test_contexts_say_what_they_are():
    root = create_context()
    assert repr(root) == "<Context of the root context>"
    agent = root.create_scope("agent")
    assert repr(agent) == "<Context of scope \"agent\" in scope 'agent'>"
    assert repr(agent.fiber) == '<Fiber scope "agent", active>'
    root.fiber.effects.clear()
