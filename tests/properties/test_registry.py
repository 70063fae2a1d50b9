"""Whatever was registered, restricted and taken back: the registry is as if only the rest had happened."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.calls import make_tool

from dsh_tools.errors import HarnessError
from dsh_tools.kernel import Context, create_context
from dsh_tools.pipeline import ToolsPlugin

NAMES = ("a", "b", "c")
# Scopes by index: 0 is the global layer; 2 is a child of 1, 3 stands alone.
PARENTS = {1: None, 2: 1, 3: None}

names = st.sampled_from(NAMES)
layers = st.integers(0, 3)
scopes = st.integers(1, 3)
name_lists = st.lists(names, max_size=2, unique=True)
operations = st.one_of(
    st.tuples(st.just("register"), layers, names),
    st.tuples(st.just("restrict"), scopes, st.sampled_from(["allow", "deny"]), name_lists),
    st.tuples(st.just("present"), scopes, st.sampled_from(["native", "code", "both"])),
    st.tuples(st.just("dispose"), st.integers(0, 30)),
    st.tuples(st.just("end-scope"), scopes),
)


class World:
    """An application with three scopes, and what was done to it that still stands."""

    def __init__(self, ctx: Context) -> None:
        self.contexts: dict[int, Context] = {0: ctx}
        for index, parent in PARENTS.items():
            link = None if parent is None else self.contexts[parent].scope
            self.contexts[index] = ctx.create_scope(f"scope {index}", link)
        self.standing: list[tuple[tuple[Any, ...], Any]] = []
        self.ended: set[int] = set()

    def apply(self, operation: tuple[Any, ...]) -> bool:
        """Do one thing; False where the registry refused it."""
        kind, *rest = operation
        try:
            if kind == "register":
                disposer = self.contexts[rest[0]].tools.register(make_tool(rest[1]))
            elif kind == "restrict":
                disposer = self.contexts[rest[0]].tools.restrict(**{rest[1]: rest[2]})
            else:
                disposer = self.contexts[rest[0]].tools.present_as(rest[1])
        except HarnessError:
            return False
        self.standing.append((operation, disposer))
        return True

    async def undo(self, number: int) -> None:
        if self.standing:
            _, disposer = self.standing.pop(number % len(self.standing))
            disposer()
            disposer()

    async def end_scope(self, index: int) -> None:
        await self.contexts[index].dispose()
        self.ended.add(index)
        self.standing = [entry for entry in self.standing if entry[0][1] != index]

    def picture(self) -> Any:
        """All that anybody can see: names in order and modes, for every scope."""
        tools = self.contexts[0].tools
        seen: dict[int, Any] = {}
        for index, context in self.contexts.items():
            scope = context.scope
            seen[index] = (
                [schema.name for schema in tools.schemas(scope)],
                tools.mode(scope),
                tools.known_names(scope),
            )
        return seen


async def both_ways(sequence: list[tuple[Any, ...]]) -> tuple[Any, Any, int]:
    async with create_context() as ctx, create_context() as fresh:
        await ctx.plugin(ToolsPlugin())
        await fresh.plugin(ToolsPlugin())
        world = World(ctx)
        for operation in sequence:
            if operation[0] == "dispose":
                await world.undo(operation[1])
            elif operation[0] == "end-scope":
                await world.end_scope(operation[1])
            elif operation[1] not in world.ended:
                world.apply(operation)
        expected = World(fresh)
        # A restriction may name what has gone since; the names have to be known when it is made.
        lent = [expected.contexts[0].tools.register(make_tool(name)) for name in NAMES]
        restrictions = [entry for entry, _ in world.standing if entry[0] == "restrict"]
        for operation in restrictions:
            assert expected.apply(operation)
        for disposer in lent:
            disposer()
        for operation, _ in world.standing:
            if operation[0] != "restrict":
                assert expected.apply(operation)
        layer_count = len(ctx.tools.service.registry._scoped)
        return world.picture(), expected.picture(), layer_count


@settings(max_examples=150)
@given(st.lists(operations, max_size=25))
def test_the_registry_is_as_a_fresh_one_with_the_surviving_operations(sequence: list[tuple[Any, ...]]) -> None:
    # PIPE-13 to 15, 33, 45 to 53, 64 to 66; HOST-48, 52, 53
    seen, expected, layer_count = asyncio.run(both_ways(sequence))
    assert seen == expected
    assert layer_count <= 3
