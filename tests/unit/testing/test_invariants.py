"""The invariant checker finds what it says it finds. PIPE-219."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.calls import Body, app, make_tool, run

from dsh_tools.kernel import NEVER
from dsh_tools.testing.invariants import InvariantChecker
from dsh_tools.tools import Deny, Review, ToolExecution, failure
from dsh_tools.tools.execution import CallState, CallToken


def execution(owner: Any, name: str = "t") -> ToolExecution:
    return ToolExecution("c", "c", name, {}, None, None, CallToken(owner), NEVER, CallState(owner, NEVER))


async def test_real_calls_keep_the_promises() -> None:
    # PIPE-219
    async with app() as ctx:
        checker = InvariantChecker()
        await ctx.plugin(checker)
        ctx.tools.register(make_tool())
        ctx.tools.register(make_tool("fails", Body(ValueError("x"))))
        for name, arguments in (("t", {}), ("fails", {}), ("nobody", {}), ("t", 5)):
            await run(ctx, name, arguments)

        async def deny(_execution: Any, next: Any) -> Any:
            return Deny("no")

        ctx.on("tools/pre-execute", deny)
        await run(ctx)
        checker.verify()
        assert checker.violations == []


async def test_broken_promises_are_named() -> None:
    # PIPE-219: each one made to happen by dispatching the hooks by hand
    async with app() as ctx:
        checker = InvariantChecker()
        await ctx.plugin(checker)
        service: Any = ctx.tools.service

        async def through(hook: str, subject: Any) -> None:
            for listener in ctx.bus.listeners(hook):
                if "InvariantChecker" in listener.name:

                    async def proceed() -> None: ...

                    outcome = listener.fn(subject, proceed)
                    if outcome is not None:
                        await outcome

        twice = execution(service)
        await through("tools/pre-execute", twice)
        await through("tools/pre-execute", twice)
        await through("tools/execute", execution(service))
        late = execution(service)
        ctx.emit("tools/result", late, failure("x"))
        await through("tools/post-execute", Review(late, failure("x")))
        ctx.emit("tools/result", execution(service), msgspec.structs.replace(failure("x"), content=[]))
        await through("tools/pre-execute", execution(service, ""))
        text = "\n".join(checker.violations)
        for said in (
            "went through tools/pre-execute twice",
            "entered tools/execute other than right after",
            "before it was frozen",
            "entered tools/post-execute other than after",
            "content that can still change",
            "an empty name or call id",
        ):
            assert said in text
        with pytest.raises(AssertionError, match="twice"):
            checker.verify()
