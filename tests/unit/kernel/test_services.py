"""Services: one provider each, dependents that follow it, look-ups that never go stale."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from dsh_tools.errors import MissingServiceError, ServiceConflictError
from dsh_tools.kernel import Context, FiberState, ServiceKey, create_context

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.fixture
async def root() -> AsyncIterator[Context]:
    context = create_context()
    yield context
    await context.dispose()
    assert context._services.service_count == 0
    assert context._services._interested == {}


@pytest.fixture
def log() -> list[str]:
    return []


class Provider:
    """Provides ``db`` with its own name as the value."""

    def __init__(self, log: list[str], name: str, *, inject: Any = ()) -> None:
        self.log = log
        self.name = name
        self.inject = inject

    def apply(self, ctx: Context, config: object) -> None:
        ctx.effect(self.work)
        ctx.provide("db", self.name)

    def work(self) -> Callable[[], None]:
        self.log.append(f"{self.name} up")
        return lambda: self.log.append(f"{self.name} down")


class User:
    """Uses ``db`` until the very end of its unload, which takes a while."""

    inject: Any = ("db",)

    def __init__(self, log: list[str], name: str = "user", inject: Any = ("db",)) -> None:
        self.log = log
        self.name = name
        self.inject = inject

    def apply(self, ctx: Context, config: object) -> None:
        self.log.append(f"{self.name} up with {ctx.require('db')}")

        async def down() -> None:
            await asyncio.sleep(0.005)
            self.log.append(f"{self.name} down with {ctx.get('db')}")

        ctx.effect(lambda: down)


# ── providing ─────────────────────────────────────────────────────────────────


async def test_a_second_provider_is_told_who_holds_the_name(root: Context, log: list[str]):
    # HOST-36
    await root.plugin(Provider(log, "first"))
    second = root.plugin(Provider(log, "second"))
    with pytest.raises(ServiceConflictError, match='"db" is already provided by plugin "first"; plugin "second"'):
        await second
    assert root.get("db") == "first"
    assert log == ["first up", "second up", "second down"]


async def test_others_see_a_service_once_its_provider_is_active(root: Context, log: list[str]):
    # HOST-37
    go_on = asyncio.Event()

    async def provider(ctx: Context, config: object) -> None:
        ctx.provide("db", "early")
        log.append(f"provider sees {ctx.get('db')}")
        log.append(f"its scope sees {ctx.create_scope('inner').get('db')}")
        await go_on.wait()

    fiber = root.plugin(provider)
    user = root.plugin(User(log))
    await asyncio.sleep(0.001)
    assert log == ["provider sees early", "its scope sees early"]
    assert root.get("db") is None
    assert user.state is FiberState.PENDING
    go_on.set()
    await fiber
    assert root.get("db") == "early"
    await user
    assert log[2:] == ["user up with early"]


async def test_what_a_failed_provider_provided_never_shows(root: Context, log: list[str]):
    # HOST-37, HOST-6
    async def fails(ctx: Context, config: object) -> None:
        ctx.provide("db", "never")
        raise ValueError("no")

    user = root.plugin(User(log))
    with pytest.raises(ValueError):
        await root.plugin(fails)
    await user
    assert user.state is FiberState.PENDING
    assert log == []


async def test_only_the_provider_may_replace_the_value_and_nobody_reloads(root: Context, log: list[str]):
    # HOST-42
    contexts: list[Context] = []

    def provider(ctx: Context, config: object) -> None:
        contexts.append(ctx)
        ctx.provide("db", "one")

    await root.plugin(provider)
    user = await root.plugin(User(log))
    off = contexts[0].provide("db", "two")
    assert root.get("db") == "two"
    with pytest.raises(ServiceConflictError):
        root.provide("db", "three")
    await user
    assert log == ["user up with one"]
    await off()
    assert root.get("db") is None
    root.provide("db", "three")
    assert root.get("db") == "three"


async def test_a_spent_disposer_never_takes_a_later_service_back(root: Context):
    # HOST-53
    off = root.provide("db", 1)
    off()
    root.provide("db", 2)
    off()
    assert root.get("db") == 2


# ── injecting ─────────────────────────────────────────────────────────────────


async def test_a_plugin_waits_until_all_its_services_are_there(root: Context, log: list[str]):
    # HOST-38
    fiber = root.plugin(User(log, inject=["db", "cache"]))
    await fiber
    assert fiber.missing == ("db", "cache")
    root.provide("db", 1)
    await fiber
    assert fiber.missing == ("cache",)
    assert log == []
    root.provide("cache", 1)
    await fiber
    assert fiber.state is FiberState.ACTIVE
    assert log == ["user up with 1"]


async def test_a_mapping_says_which_services_are_required(root: Context, log: list[str]):
    # HOST-38: list or map
    fiber = await root.plugin(User(log, inject={"cache": False}) if root.provide("db", 1) else User(log))
    assert fiber.state is FiberState.ACTIVE
    fiber = await root.plugin(User(log, inject={"cache": True, "db": True}))
    assert fiber.missing == ("cache",)
    fiber = await root.plugin(User(log, inject={ServiceKey[int]("db"): True}))
    assert fiber.state is FiberState.ACTIVE


async def test_losing_a_service_unloads_and_its_return_reloads(root: Context, log: list[str]):
    # HOST-38
    fiber = root.plugin(User(log))
    for _ in range(2):
        off = root.provide("db", "one")
        await fiber.ready()
        await off()
        assert fiber.state is FiberState.PENDING
    assert log == ["user up with one", "user down with one"] * 2


async def test_another_provider_reloads_the_dependents(root: Context, log: list[str]):
    # HOST-38: replacement by another provider, too.
    first = await root.plugin(Provider(log, "first"))
    user = await root.plugin(User(log))
    gone = first.dispose()
    second = root.plugin(Provider(log, "second"))
    with pytest.raises(ServiceConflictError):
        await second  # the old one is still in use
    await gone
    await root.plugin(Provider(log, "third"))
    await user
    assert [line for line in log if line.startswith("user")] == [
        "user up with first",
        "user down with first",
        "user up with third",
    ]


async def test_a_service_that_comes_back_during_the_unload_reloads_right_after_it(root: Context, log: list[str]):
    # HOST-38
    off = root.provide("db", "one")
    fiber = await root.plugin(User(log))
    await off()
    root.provide("db", "two")
    await fiber
    assert log == ["user up with one", "user down with one", "user up with two"]


async def test_a_service_lost_while_loading_stops_the_body(root: Context, log: list[str]):
    # HOST-38
    class Slow:
        name = "slow"
        inject = ["db"]

        async def apply(self, ctx: Context, config: object) -> None:
            value = ctx.require("db")
            log.append(f"up with {value}")
            ctx.effect(lambda: lambda: log.append(f"down with {ctx.get('db')}"))
            if value == "one":
                await asyncio.sleep(60)

    off = root.provide("db", "one")
    fiber = root.plugin(Slow())
    await asyncio.sleep(0.001)
    assert fiber.state is FiberState.LOADING
    await asyncio.wait_for(off(), 5)
    assert fiber.state is FiberState.PENDING
    root.provide("db", "two")
    await fiber
    assert fiber.state is FiberState.ACTIVE
    assert log == ["up with one", "down with one", "up with two"]


async def test_dependents_reach_the_old_service_until_they_are_gone(root: Context, log: list[str]):
    # HOST-39: and the provider waits for them before it undoes anything.
    provider = await root.plugin(Provider(log, "db"))
    users = [root.plugin(User(log, name)) for name in ("a", "b")]
    await asyncio.gather(*(user.ready() for user in users))
    log.clear()
    await provider.dispose()
    assert sorted(log[:2]) == ["a down with db", "b down with db"]
    assert log[2:] == ["db down"]
    assert {user.state for user in users} == {FiberState.PENDING}


async def test_child_plugins_of_a_dependent_reach_the_old_service_too(root: Context, log: list[str]):
    # HOST-39
    class Parent:
        name = "parent"
        inject = ["db"]

        async def apply(self, ctx: Context, config: object) -> None:
            await ctx.plugin(lambda ctx, config: lambda: log.append(f"child down with {ctx.get('db')}"))

    off = root.provide("db", "one")
    await root.plugin(Parent())
    await off()
    assert log == ["child down with one"]


async def test_chains_of_dependents_unload_from_the_far_end(root: Context, log: list[str]):
    # HOST-39
    class Middle:
        name = "middle"
        inject = ["db"]

        def apply(self, ctx: Context, config: object) -> None:
            ctx.provide("cache", f"cache on {ctx.require('db')}")
            ctx.effect(lambda: lambda: log.append("middle down"))

    class Last:
        name = "last"
        inject = ["cache"]

        def apply(self, ctx: Context, config: object) -> None:
            ctx.effect(lambda: lambda: log.append(f"last down with {ctx.get('cache')}"))

    provider = await root.plugin(Provider(log, "db"))
    await root.plugin(Middle())
    await root.plugin(Last()).ready()
    log.clear()
    await provider.dispose()
    assert log == ["last down with cache on db", "middle down", "db down"]


async def test_everything_ends_in_order_when_the_root_does(root: Context, log: list[str]):
    # HOST-39, whichever was mounted first
    user = root.plugin(User(log))
    await root.plugin(Provider(log, "db"))
    await user.ready()
    log.clear()
    await root.dispose()
    assert log == ["user down with db", "db down"]


async def test_a_dependent_below_its_provider_does_not_block_it(root: Context, log: list[str]):
    # HOST-39
    async def provider(ctx: Context, config: object) -> None:
        ctx.provide("db", "own")
        ctx.plugin(User(log))

    fiber = await root.plugin(provider)
    await asyncio.sleep(0.005)
    assert log == ["user up with own"]
    await asyncio.wait_for(fiber.dispose(), 5)
    assert log == ["user up with own", "user down with own"]


async def test_a_dependent_above_its_provider_does_not_block_it(root: Context, log: list[str]):
    fiber = root.plugin(User(log))
    await fiber
    provider = fiber.context.plugin(Provider(log, "child"))
    await provider
    await fiber
    assert fiber.state is FiberState.ACTIVE
    await asyncio.wait_for(fiber.dispose(), 5)
    assert provider.state is FiberState.DISPOSED
    assert "user down with child" in log


async def test_a_dependent_may_dispose_of_its_provider_in_its_cleanup(root: Context, log: list[str]):
    provider = await root.plugin(Provider(log, "db"))

    class Takes:
        name = "takes"
        inject = ["db"]

        def apply(self, ctx: Context, config: object) -> None:
            async def cleanup() -> None:
                await provider.dispose()
                log.append("user down")

            ctx.effect(lambda: cleanup)

    user = await root.plugin(Takes())
    await asyncio.wait_for(user.dispose(), 5)
    assert "user down" in log
    assert provider.state is FiberState.DISPOSED


# ── looking up ────────────────────────────────────────────────────────────────


async def test_require_raises_one_clear_error(root: Context):
    # HOST-40 (D17)
    def plugin(ctx: Context, config: object) -> None:
        ctx.require("db")

    with pytest.raises(MissingServiceError, match='required service "db" from plugin "plugin"') as raised:
        await root.plugin(plugin)
    assert raised.value.code == "MISSING_SERVICE"
    for name in (
        "tools",
        "system_prompt",
        "approval",
        "jobs",
        "code_runtime",
        "session",
        "sessions",
        "agents",
        "spill",
    ):
        with pytest.raises(MissingServiceError, match=name):
            getattr(root, name)
        service = object()
        off = root.provide(name, service)
        assert getattr(root, name) is service
        off()


async def test_get_is_none_while_nothing_active_provides_it(root: Context, log: list[str]):
    # HOST-41: re-read at use time.
    assert root.get("db") is None
    provider = root.plugin(Provider(log, "one"))
    assert root.get("db") is None
    await provider
    assert root.get("db") == "one"
    await provider.dispose()
    assert root.get("db") is None


async def test_a_key_and_its_name_are_one_service(root: Context):
    key: ServiceKey[int] = ServiceKey("number")
    root.provide(key, 3)
    assert root.get("number") == root.get(key) == root.require(key) == 3


async def test_falsy_values_are_services(root: Context):
    root.provide("zero", 0)
    assert root.require("zero") == 0


async def test_a_service_may_show_each_context_its_own_face(root: Context):
    class Registry:
        def for_context(self, context: Context) -> str:
            return f"face for {context.fiber.name}"

    root.provide("tools", Registry())
    scope = root.create_scope("agent")
    assert root.get("tools") == "face for root"
    assert scope.require("tools") == "face for agent"


async def test_an_isolated_name_is_a_slot_of_its_own(root: Context, log: list[str]):
    # HOST-43
    root.provide("db", "outer")
    alone = root.isolate("db")
    labelled, joined = root.isolate("db", "blue"), root.create_scope("agent").isolate("db", "blue")
    assert alone.get("db") is None
    alone.provide("db", "alone")
    labelled.provide("db", "blue")
    assert [context.get("db") for context in (root, alone, labelled, joined)] == ["outer", "alone", "blue", "blue"]
    await alone.plugin(User(log))
    assert log == ["user up with alone"]
    assert alone.create_scope("inner").get("db") == "alone"
    assert root.isolate("db").get("db") is None
    with pytest.raises(ServiceConflictError):
        joined.provide("db", "again")
