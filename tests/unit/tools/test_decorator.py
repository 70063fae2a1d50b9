"""``@tool``: plain functions as tools, and calls of them through the pipeline."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import re
import threading
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import Field
from tests.support.calls import app, run, text_of

from dsh_tools.content import TextBlock
from dsh_tools.errors import DefinitionError, InvalidTimeoutError, OutputDeclarationError, ToolError
from dsh_tools.tools import (
    FunctionTool,
    PresentedResult,
    ToolCall,
    ToolDefinition,
    ToolExecution,
    ToolRunContext,
    ToolSuccess,
    tool,
)
from dsh_tools.tools.cards import GenericCall, GenericResult

if TYPE_CHECKING:
    from dsh_tools.tools.execution import ToolRunContext as Run

    ToolExecutionAlias = Run


@dataclasses.dataclass
class Spot:
    """A place."""

    x: int
    y: int = 0


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: the first.
        b: the second.
    """
    return a + b


@tool(name="shift_spot", is_concurrency_safe=True)
async def shift(spot: Spot, by: Annotated[int, Field(ge=0)] = 1) -> Spot:
    """Move a spot."""
    return Spot(spot.x + by, spot.y + by)


@tool
def sync_name(run: ToolRunContext, suffix: str) -> str:
    """Say the tool's name."""
    return f"{run.name}{suffix} {threading.get_ident()}"


async def call(definition: ToolDefinition, arguments: Any = None) -> Any:
    async with app() as ctx:
        ctx.tools.register(definition)
        return await run(ctx, definition.name, arguments)


async def value_of(definition: ToolDefinition, arguments: Any = None) -> Any:
    result = await call(definition, arguments)
    assert isinstance(result, ToolSuccess), text_of(result)
    return result.value


def test_the_function_says_everything():
    assert isinstance(add, FunctionTool)
    assert isinstance(add, ToolDefinition)
    assert (add.name, add.description, add.isolation) == ("add", "Add two numbers.", "task")
    assert add.parameters.json == {  # type: ignore[union-attr]
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "a": {"type": "integer", "description": "the first."},
            "b": {"type": "integer", "description": "the second.", "default": 2},
        },
        "required": ["a"],
    }
    assert add.output.schema.json == {"type": "integer"}  # type: ignore[union-attr]
    assert add.defaults == {"b": 2}
    assert shift.name == "shift_spot"


async def test_it_still_is_the_function():
    assert await add(1) == 3
    assert await shift(Spot(1), by=2) == Spot(3, 2)
    assert await add.fn(1, 2) == 3
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    assert inspect.unwrap(add) is add.fn


async def test_calls_through_the_pipeline():
    assert await value_of(add, {"a": 1.0}) == 3
    assert await value_of(add, '{"a": 1, "b": 5}') == 6
    assert await value_of(shift, {"spot": {"x": 1}, "by": 3}) == {"x": 4, "y": 3}
    result = await call(shift, {"spot": {"x": "1"}})
    assert result.error.message.splitlines()[0] == 'invalid arguments: "spot.x" must be an integer'


async def test_synchronous_functions_run_in_a_thread():
    text = await value_of(sync_name, {"suffix": "!"})
    name, ident = text.split()
    assert name == "sync_name!"
    assert int(ident) != threading.get_ident()
    assert sync_name.isolation == "thread"


async def test_the_run_context_is_supplied_and_not_shown():
    assert list(sync_name.parameters.json["properties"]) == ["suffix"]  # type: ignore[union-attr]
    result = await call(sync_name, {"suffix": "!", "run": {}})
    assert (
        result.error.message.splitlines()[0]
        == 'invalid arguments: "run" is not a declared property (additionalProperties: false)'
    )


async def test_every_way_to_annotate_the_run_context():
    @tool
    async def one(run: ToolExecution) -> str:
        return run.call_id

    @tool
    async def two(run: ToolRunContext | None = None) -> str:
        return run.call_id if run else ""

    # A name that is imported for type checking only cannot be resolved at run time; its text is enough.
    async def three(run: Any) -> str:
        return run.call_id

    three.__annotations__["run"] = "execution.ToolRunContext | None"
    four = tool(three)
    for definition in (one, two, four):
        assert definition.parameters.json["properties"] == {}  # type: ignore[union-attr]
        assert await value_of(definition) == "call"


def test_only_a_parameter_that_is_the_context_is_supplied():
    with pytest.raises(DefinitionError, match='parameter "runs": ToolRunContext is not JSON'):

        @tool
        async def fn(runs: list[ToolRunContext]) -> None: ...


def test_classes_of_the_enclosing_function_are_found():
    @dataclasses.dataclass
    class Local:
        n: int

    @tool
    async def fn(x: Local) -> Local:
        return x

    assert fn.parameters.json["properties"]["x"]["required"] == ["n"]  # type: ignore[union-attr]


async def test_defaults_are_filled_before_policy_and_never_shared():
    # D43
    seen: list[Any] = []

    @tool
    async def collect(items: list[int] = []) -> int:  # noqa: B006
        items.append(1)
        return len(items)

    async with app() as ctx:
        ctx.tools.register(collect)

        async def policy(execution: Any, next: Any) -> Any:
            seen.append(execution.arguments)
            return await next()

        ctx.on("tools/pre-execute", policy)
        assert [(await run(ctx, "collect")).value for _ in range(2)] == [1, 1]
    assert seen == [{"items": []}, {"items": []}]
    assert collect.fn.__defaults__ == ([],)


async def test_run_in_thread_false_keeps_the_loops_thread():
    @tool(run_in_thread=False)
    def where() -> int:
        return threading.get_ident()

    assert where.isolation == "task"
    assert await value_of(where) == threading.get_ident()
    assert where() == threading.get_ident()

    @tool(run_in_thread=False)
    def spot() -> Spot:
        return Spot(1)

    assert await value_of(spot) == {"x": 1, "y": 0}


def test_time_limits():
    # D44, SCHEMA-E1
    @tool(timeout_ms=50)
    async def patient() -> None: ...

    assert patient.timeout_ms == 50
    for in_thread in (None, True, False):
        with pytest.raises(InvalidTimeoutError, match="cannot be kept: a function that is not async"):

            @tool(timeout_ms=50, run_in_thread=in_thread)
            def impatient() -> None: ...

    with pytest.raises(InvalidTimeoutError, match=r"^tool\(wrong\): timeout_ms must be a positive finite number$"):

        @tool(timeout_ms=-1)
        async def wrong() -> None: ...


def test_an_async_function_has_no_thread():
    with pytest.raises(DefinitionError, match='"fn" is async: it runs on its own task'):

        @tool(run_in_thread=True)
        async def fn() -> None: ...


async def test_options():
    @tool(
        description="Other words.",
        render=lambda args, value: [TextBlock(f"{args['spot'].x}+{args['by']}={value.x}")],
        presentation_meta=lambda args, value: {"x": value.x},
        present_call=lambda args: GenericCall(title=f"move {args['spot'].x}"),
        present_result=lambda args, presented: GenericResult(title=str(presented.meta)),
        is_concurrency_safe=lambda args: args["by"] == 0,
        finalize_content=lambda execution, result: None,
        idempotent=True,
    )
    async def move(spot: Spot, by: int = 1) -> Spot:
        """Words."""
        return Spot(spot.x + by)

    assert move.description == "Other words."
    assert move.idempotent
    assert move.finalize_content is not None
    result = await call(move, {"spot": {"x": 1}})
    assert text_of(result) == "1+1=2"
    assert result.meta == {"x": 2}
    assert move.present_call is not None
    assert move.present_call({"spot": {"x": 4}}) == GenericCall(title="move 4")
    assert move.present_call({"spot": 4}) is None
    assert move.present_result is not None
    assert move.present_result({"spot": {"x": 4}}, PresentedResult((), False, 3)) == GenericResult(title="3")
    assert move.is_concurrency_safe is not None
    assert [move.is_concurrency_safe({"spot": {"x": 1}, "by": by}) for by in (0, 1, "0")] == [True, False, False]


async def test_a_tool_made_from_a_bound_method():
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        async def bump(self, by: int = 1) -> int:
            """Count on."""
            self.count += by
            return self.count

    counter = Counter()
    bump = tool(counter.bump)
    assert (bump.name, bump.description) == ("bump", "Count on.")
    assert await value_of(bump, {"by": 2}) == 2
    assert counter.count == 2


async def test_what_a_body_raises_is_its_own():
    @tool
    async def broken() -> None:
        raise ToolError("no luck")

    result = await call(broken)
    assert result.error.message == "no luck"
    assert result.error.info.code == "TOOL_ERROR"


async def test_wrong_values_are_output_errors():
    # SCHEMA-E6
    @tool
    async def wrong() -> Spot:
        return {"x": "a", "y": 1}  # type: ignore[return-value]

    assert (await call(wrong)).error.message == 'tool "wrong" returned invalid output: "value.x" must be an integer'


async def test_cancelling_reaches_an_async_function():
    stopped: list[bool] = []

    @tool
    async def slow() -> Spot:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(True)
        return Spot(1)

    async with app() as ctx:
        ctx.tools.register(slow)
        task = asyncio.create_task(run(ctx, "slow"))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert stopped == [True]


def test_what_cannot_be_a_tool():
    async def render(args: Any, value: Any) -> Any: ...

    async def fine() -> None: ...

    with pytest.raises(DefinitionError, match='parameter "when": bytes is not JSON'):

        @tool
        async def bad(when: bytes) -> None: ...

    with pytest.raises(DefinitionError, match="@tool takes a function"):
        tool(3)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="has no name of its own"):
        tool(lambda: None)
    with pytest.raises(OutputDeclarationError, match="must be synchronous"):
        tool(render=render)(fine)
    with pytest.raises(TypeError, match="has no option"):
        tool(titel="x")(fine)  # type: ignore[call-arg]


# ── mistakes ───────────────────────────────────────────────────────────────────


async def _nothing() -> None: ...


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"timeout": 5}, TypeError, '@tool has no option "timeout"; did you mean "timeout_ms"?'),
        ({"name": ""}, DefinitionError, "a tool's name must be a non-empty string, got ''"),
        (
            {"is_concurrency_safe": "yes"},
            DefinitionError,
            "is_concurrency_safe must be a boolean or a function of the arguments, got 'yes'",
        ),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], kind: type[Exception], message: str):
    with pytest.raises(kind) as caught:
        tool(**options)(_nothing)
    assert str(caught.value) == message


def test_many_parameters_in_one_are_refused_before_their_annotation_is_missed():
    async def fn(*args, **more) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(DefinitionError, match=r'^parameter "args": a tool has no \*args; use args: list\[T\]$'):
        tool(fn)


async def test_what_is_no_tool_and_no_call_is_refused_by_name():
    async with app() as ctx:
        not_a_tool: Any = _nothing
        with pytest.raises(DefinitionError, match=r"^register\(\) takes a tool, got <function .*@tool or define_tool"):
            ctx.tools.register(not_a_tool)
        not_a_call: Any = "add"
        with pytest.raises(TypeError, match=r"^execute\(\) takes a ToolCall, such as .*, got 'add'$"):
            await ctx.tools.execute(not_a_call)


@pytest.mark.parametrize("wrong", [None, 5, b"add", ["add"]])
@pytest.mark.parametrize("operation", ["execute", "explain"])
async def test_a_call_whose_name_or_id_is_no_text_is_refused_by_the_field(operation: str, wrong: Any):
    class Name(StrEnum):
        ADD = "add"

    class OtherCall(ToolCall, frozen=True, eq=False):
        pass

    @tool
    async def add(a: int = 1) -> int:
        """Add."""
        return a

    async with app() as ctx:
        ctx.tools.register(add)
        take = getattr(ctx.tools, operation)
        for call, field in ((ToolCall(wrong), "name"), (ToolCall("add", call_id=wrong), "call_id")):
            expected = f"{operation}() takes a ToolCall whose {field} is a string, got {field}={wrong!r}"
            with pytest.raises(TypeError, match=f"^{re.escape(expected)}$"):
                await take(call)
        for call in (ToolCall(Name.ADD), OtherCall("add")):
            assert (await ctx.tools.execute(call)).is_error is False


async def test_a_forgotten_await_is_named():
    @tool
    async def forgetful() -> str:
        value: Any = _nothing()
        pending.append(value)
        return value

    pending: list[Any] = []
    async with app() as ctx:
        ctx.tools.register(forgetful)
        assert text_of(await run(ctx, "forgetful")).endswith("coroutine is not a JSON value; await it")
    pending.pop().close()


async def test_a_long_integer_is_rendered():
    # D24
    @tool
    async def long() -> int:
        return 10**5000

    async with app() as ctx:
        ctx.tools.register(long)
        assert text_of(await run(ctx, "long")) == "1" + "0" * 5000
