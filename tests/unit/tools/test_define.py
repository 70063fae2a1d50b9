"""``define_tool``: every form of parameters and output, bodies, presenters, and calls through the pipeline."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable
from typing import Any, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
from tests.support.calls import app, run, text_of

from dsh_tools.content import TextBlock
from dsh_tools.errors import (
    DefinitionError,
    InvalidTimeoutError,
    JsonSchemaError,
    OutputDeclarationError,
    ToolOutputError,
)
from dsh_tools.json_value import FrozenDict
from dsh_tools.schema import RawSchema, compile_parameters, compile_value, from_types
from dsh_tools.tools import (
    OutputSpec,
    PresentedResult,
    ToolDefinition,
    ToolRunContext,
    ToolSuccess,
    compile_definition,
    define_tool,
)
from dsh_tools.tools.cards import GenericCall, GenericResult


class ReadArgs(TypedDict):
    """What to read."""

    path: str
    limit: NotRequired[int]


@dataclasses.dataclass
class ReadJob:
    path: str
    limit: int = 10
    tags: list[str] = dataclasses.field(default_factory=list)


class ReadStruct(msgspec.Struct, rename="camel"):
    file_path: str


class ReadModel(pydantic.BaseModel):
    path: str

    @pydantic.field_validator("path")
    @classmethod
    def relative(cls, value: str) -> str:
        if value.startswith("/"):
            raise ValueError("must be relative")
        return value


@dataclasses.dataclass
class ReadResult:
    text: str
    lines: int = 0


DSL: dict[str, Any] = {"path": {"type": "string", "required": True}, "n": {"type": "integer"}}


def define(**changes: Any) -> ToolDefinition:
    async def execute(args: Any, run: Any) -> Any:
        return args

    fields: dict[str, Any] = {
        "name": "t",
        "description": "A tool.",
        "parameters": DSL,
        "output": Any,
        "execute": execute,
    }
    return define_tool(**{**fields, **changes})


async def call(definition: ToolDefinition, arguments: Any = None, **fields: Any) -> Any:
    async with app() as ctx:
        ctx.tools.register(definition)
        return await run(ctx, definition.name, arguments, **fields)


async def value_of(definition: ToolDefinition, arguments: Any = None) -> Any:
    result = await call(definition, arguments)
    assert isinstance(result, ToolSuccess), text_of(result)
    return result.value


# ── parameters ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("parameters", "arguments", "expected", "kind"),
    [
        (ReadArgs, {"path": "a", "limit": 1.0}, {"path": "a", "limit": 1}, dict),
        (ReadJob, {"path": "a"}, ReadJob("a"), ReadJob),
        (ReadStruct, {"filePath": "a"}, ReadStruct("a"), ReadStruct),
        (ReadModel, {"path": "a"}, ReadModel(path="a"), ReadModel),
        (from_types(ReadJob), {"path": "a", "limit": 3}, ReadJob("a", 3), ReadJob),
        (dict[str, int], {"a": 1.0}, {"a": 1}, dict),
        # What has no Python type arrives as the pipeline's frozen JSON.
        (DSL, {"path": "a", "other": 1}, {"path": "a", "other": 1}, FrozenDict),
        ({}, {}, {}, FrozenDict),
        (compile_parameters(DSL), {"path": "a"}, {"path": "a"}, FrozenDict),
        (RawSchema({"type": "object", "properties": {"a": {"minimum": 3}}}), {"a": 4}, {"a": 4}, FrozenDict),
    ],
)
async def test_the_body_gets_what_the_parameters_say(parameters: Any, arguments: Any, expected: Any, kind: type):
    seen: list[Any] = []

    async def execute(args: Any, run: ToolRunContext) -> str:
        seen.append(args)
        return run.name

    definition = define(parameters=parameters, output=str, execute=execute)
    assert await value_of(definition, arguments) == "t"
    assert seen == [expected]
    assert type(seen[0]) is kind


async def test_arguments_that_do_not_fit_never_reach_the_body():
    # D25 before SCHEMA-E2 and PIPE-206
    def execute(args: Any, run: Any) -> Any:
        raise AssertionError("the body ran")

    for parameters in (ReadArgs, ReadJob, ReadModel, DSL):
        result = await call(define(parameters=parameters, execute=execute), {"path": 1})
        assert result.error.message.splitlines()[0] == 'invalid arguments: "path" must be a string'
        assert result.error.info.code == "INVALID_ARGS"


async def test_custom_validators_answer_before_any_policy():
    # D25
    asked: list[Any] = []
    definition = define(parameters=ReadModel)
    async with app() as ctx:
        ctx.tools.register(definition)

        async def policy(execution: Any, next: Any) -> Any:
            asked.append(execution)
            return await next()

        ctx.on("tools/pre-execute", policy)
        result = await run(ctx, "t", {"path": "/etc"})
    assert result.error.message == 'invalid arguments: "path" is not valid: must be relative'
    assert asked == []


async def test_defaults_of_a_class_are_filled_before_policy_looks():
    # D43
    seen: list[Any] = []
    async with app() as ctx:
        ctx.tools.register(define(parameters=ReadJob, execute=lambda args, run: _done(args.path)))

        async def policy(execution: Any, next: Any) -> Any:
            seen.append(execution.arguments)
            return await next()

        ctx.on("tools/pre-execute", policy)
        await run(ctx, "t", {"path": "a"})
    assert seen == [{"path": "a", "limit": 10, "tags": []}]


async def _done(value: Any) -> Any:
    return value


def test_parameters_must_be_an_object():
    for parameters in (int, list[int], str | None, ReadArgs | None):
        with pytest.raises(DefinitionError, match="is not sent as an object"):
            define(parameters=parameters)
    with pytest.raises(DefinitionError, match='parameters: field "x"'):
        define(parameters=dataclasses.make_dataclass("Bad", [("x", bytes)]))
    with pytest.raises(JsonSchemaError, match="parameters.a"):
        define(parameters={"a": {"type": "strin"}})


def test_local_classes_are_found_by_name():
    @dataclasses.dataclass
    class Inner:
        n: int

    @dataclasses.dataclass
    class Outer:
        inner: Inner

    assert define_tool(
        name="t", description="", parameters=Outer, output=Outer, execute=lambda args, run: _done(args)
    ).parameters.json["properties"]["inner"]["required"] == ["n"]  # type: ignore[union-attr]


# ── output ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("output", "returned", "value"),
    [
        (str, "x", "x"),
        (None, None, None),
        (int | None, None, None),
        (ReadResult, ReadResult("a", 2), {"text": "a", "lines": 2}),
        (ReadArgs, {"path": "a"}, {"path": "a"}),
        (list[ReadResult], [ReadResult("a")], [{"text": "a", "lines": 0}]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (ReadModel, ReadModel(path="a"), {"path": "a"}),
        ({"type": "integer"}, 3, 3),
        (compile_value({"type": "json"}), {"a": [1]}, {"a": [1]}),
        (RawSchema({"minLength": 1}), "a", "a"),
        (OutputSpec({"type": "string"}), "a", "a"),
        (OutputSpec(from_types(ReadResult, output=True)), ReadResult("a"), {"text": "a", "lines": 0}),
        ({"schema": {"type": "integer"}}, 3, 3),
        ({"schema": ReadResult}, ReadResult("a"), {"text": "a", "lines": 0}),
    ],
)
async def test_every_form_of_output(output: Any, returned: Any, value: Any):
    assert await value_of(define(output=output, execute=lambda args, run: _done(returned)), {"path": "a"}) == value


@pytest.mark.parametrize(
    ("output", "returned", "message"),
    [
        (int, "x", '"value" must be an integer'),
        (ReadResult, "x", '"value" must be an object'),
        (ReadResult, ReadResult(3), '"value.text" must be a string'),  # type: ignore[arg-type]
        (list[ReadResult], [ReadResult("a"), 1], '"value[1]" must be an object'),
        (ReadResult, ReadResult("a", math.nan), "value is not lossless JSON"),  # type: ignore[arg-type]
        (ReadModel, object(), "value is not lossless JSON"),
        (None, 1, '"value" must be null'),
    ],
)
async def test_wrong_outputs_are_named(output: Any, returned: Any, message: str):
    # SCHEMA-E6
    result = await call(define(output=output, execute=lambda args, run: _done(returned)), {"path": "a"})
    assert result.error.message.splitlines()[0] == f'tool "t" returned invalid output: {message}'
    assert result.error.info.code == "INVALID_TOOL_OUTPUT"


async def test_what_cannot_be_dumped_is_an_output_error_with_a_path():
    class Holder(pydantic.BaseModel):
        x: Any

    definition = define(output=list[Holder], execute=lambda args, run: _done([Holder(x=object())]))
    result = await call(definition, {"path": "a"})
    assert result.error.message.startswith('tool "t" returned invalid output: value is not lossless JSON\n[0]: ')
    with pytest.raises(ToolOutputError):
        await definition.execute({"path": "a"}, None)


async def test_render_and_meta_get_the_python_forms():
    def render(args: ReadJob, value: ReadResult) -> list[TextBlock]:
        return [TextBlock(f"{args.limit} {value.text}")]

    def meta(args: ReadJob, value: ReadResult) -> Any:
        return {"lines": value.lines + args.limit}

    async def execute(args: ReadJob, run: ToolRunContext) -> ReadResult:
        return ReadResult(args.path, 2)

    definition = define_tool(
        name="t",
        description="",
        parameters=ReadJob,
        output=ReadResult,
        execute=execute,
        render=render,
        presentation_meta=meta,
    )
    result = await call(definition, {"path": "a"})
    assert text_of(result) == "10 a"
    assert result.meta == {"lines": 12}


async def test_the_default_render_shows_json():
    result = await call(define(output=ReadResult, execute=lambda args, run: _done(ReadResult("a"))), {"path": "a"})
    assert text_of(result) == '{\n  "text": "a",\n  "lines": 0\n}'


def test_output_is_declared_once():
    render: Callable[..., Any] = lambda args, value: []  # noqa: E731
    with pytest.raises(DefinitionError, match="render belong into the OutputSpec"):
        define(output=OutputSpec({}), render=render)
    with pytest.raises(OutputDeclarationError, match="each once"):
        define(output={"schema": {"type": "null"}, "render": render}, render=render)
    with pytest.raises(OutputDeclarationError, match="each once"):
        define(output={"schema": {"type": "null"}, "rendr": render})
    with pytest.raises(OutputDeclarationError, match="must declare output"):
        define(output=OutputSpec({}, render=3))  # type: ignore[arg-type]
    with pytest.raises(JsonSchemaError):
        define(output={"type": "object"})


async def test_async_projectors_are_refused():
    # D29
    async def render(args: Any, value: Any) -> Any: ...

    for parameters in (DSL, ReadJob):
        with pytest.raises(OutputDeclarationError, match="must be synchronous"):
            define(parameters=parameters, render=render)


# ── bodies ─────────────────────────────────────────────────────────────────────


async def test_a_synchronous_body_runs_in_a_thread():
    def execute(args: ReadJob, run: ToolRunContext) -> int:
        return threading.get_ident()

    definition = define_tool(
        name="t", description="", parameters=ReadJob, output=int, execute=execute, isolation="thread"
    )
    assert await value_of(definition, {"path": "a"}) != threading.get_ident()
    typed = define(output=ReadResult, execute=lambda args, run: ReadResult("a"), isolation="thread")
    assert await value_of(typed, {"path": "a"}) == {"text": "a", "lines": 0}


def test_a_body_that_needs_no_conversion_is_called_as_it_is():
    async def execute(args: Any, run: Any) -> str:
        return "x"

    assert define(output=str, execute=execute).execute is execute


@pytest.mark.parametrize("limit", [0, -1, math.nan, math.inf, "5", True])
def test_time_limits_must_make_sense(limit: Any):
    # SCHEMA-E1: before any compile
    with pytest.raises(InvalidTimeoutError, match=r"^define_tool\(t\): timeout_ms must be a positive finite number$"):
        define(timeout_ms=limit, parameters={"bad": 1})


def test_time_limits():
    # D44
    assert define(timeout_ms=5).timeout_ms == 5
    assert "timeout" not in str(define(timeout_ms=5).parameters.json)  # type: ignore[union-attr]
    with pytest.raises(InvalidTimeoutError, match="cannot be kept"):
        define(timeout_ms=5, isolation="thread", execute=lambda args, run: "x")


@pytest.mark.parametrize(
    "changes", [{"name": ""}, {"name": "a\nb"}, {"execute": 3}, {"isolation": "process"}, {"description": None}]
)
def test_incomplete_definitions_are_refused_where_they_are_written(changes: dict[str, Any]):
    # D26
    with pytest.raises(DefinitionError):
        define(**changes)


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match=r'^define_tool\(\w+\) has no option "timeout"; did you mean "timeout_ms"\?$'):
        define(timeout=5)
    with pytest.raises(TypeError, match='has no option "xyz"; its options are finalize_content, idempotent, is_'):
        define(xyz=5)


async def _async_body(args: Any, run: Any) -> str:
    return "x"


def test_an_async_body_is_not_for_a_thread():
    # D29, D44: nobody would await what it returns
    with pytest.raises(DefinitionError, match="is async: it runs on its own task, not in a thread"):
        define(execute=_async_body, isolation="thread")


def test_a_json_schema_where_the_dsl_is_expected_is_recognized():
    document = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    with pytest.raises(JsonSchemaError, match=r"\na mapping is read as the schema DSL.*RawSchema\(\.\.\.\)$"):
        define(parameters=document)


# ── presenters and classifiers ─────────────────────────────────────────────────


@pytest.mark.parametrize("parameters", [ReadJob, DSL])
def test_presenters_see_no_arguments_that_do_not_fit(parameters: Any):
    # PIPE-205, 206 and SCHEMA-E3
    definition = define(
        parameters=parameters,
        present_call=lambda args: GenericCall(title=f"read {args['path'] if isinstance(args, dict) else args.path}"),
        present_result=lambda args, presented: GenericResult(title=str(presented.is_error)),
    )
    present_call, present_result = definition.present_call, definition.present_result
    assert present_call is not None
    assert present_result is not None
    shown = PresentedResult((), is_error=True)
    assert present_call({"path": "a"}) == GenericCall(title="read a")
    assert present_result({"path": "a"}, shown) == GenericResult(title="True")
    for bad in ({}, {"path": 1}, None, 3, {"path": object()}, {"path": "a", "limit": "x", "n": "x"}):
        assert present_call(bad) is None
        assert present_result(bad, shown) is None


def test_presenters_get_the_body_form_with_defaults():
    seen: list[Any] = []
    definition = define(parameters=ReadJob, present_call=seen.append)
    assert definition.present_call is not None
    definition.present_call({"path": "a"})
    assert seen == [ReadJob("a")]


def test_validators_count_for_presenters_too():
    definition = define(parameters=ReadModel, present_call=lambda args: GenericCall(title="x"))
    assert definition.present_call is not None
    assert definition.present_call({"path": "/etc"}) is None


def test_a_presenters_own_failure_is_not_caught_here():
    # PIPE-207
    def present(args: Any) -> Any:
        raise RuntimeError("broken")

    definition = define(present_call=present)
    assert definition.present_call is not None
    with pytest.raises(RuntimeError, match="broken"):
        definition.present_call({"path": "a"})


def test_concurrency_classifiers():
    # PIPE-202, 203 and SCHEMA-E3
    by_path = define(parameters=ReadJob, is_concurrency_safe=lambda args: args.path == "a").is_concurrency_safe
    always = define(is_concurrency_safe=True).is_concurrency_safe
    assert by_path is not None
    assert always is not None
    assert [by_path(args) for args in ({"path": "a"}, {"path": "b"}, {"path": 1}, {}, None)] == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert [always(args) for args in ({"path": "a"}, {"path": 1}, {})] == [True, False, False]
    validated = define(parameters=ReadModel, is_concurrency_safe=True).is_concurrency_safe
    assert validated is not None
    assert [validated({"path": path}) for path in ("a", "/etc")] == [True, False]
    assert define(is_concurrency_safe=False).is_concurrency_safe is None


def test_what_is_not_given_is_not_there():
    # SCHEMA-E3
    definition = define()
    assert definition.present_call is None
    assert definition.present_result is None
    assert definition.finalize_content is None
    assert definition.is_concurrency_safe is None
    assert definition.check_arguments is None
    assert definition.idempotent is False
    assert compile_definition(definition).presentation_meta is None


async def test_finalize_content_gets_unvalidated_arguments():
    # SCHEMA-E3
    seen: list[Any] = []

    def finalize(execution: Any, result: Any) -> None:
        seen.append(execution.arguments)

    await call(define(parameters=ReadArgs, finalize_content=finalize), {"path": 1})
    assert seen == [{"path": 1}]


async def test_validate_arguments_false_leaves_the_check_to_the_body():
    # D8
    raw = RawSchema({"type": "object", "required": ["a"]})
    assert await value_of(define(parameters=raw, validate_arguments=False), {}) == {}
    assert (await call(define(parameters=raw), {})).error.info.code == "INVALID_ARGS"


def test_mutating_the_spec_later_changes_nothing():
    # D26 before SCHEMA-E4
    spec: dict[str, Any] = {"a": {"type": "string"}}
    definition = define(parameters=spec)
    spec["a"]["type"] = "integer"
    assert definition.parameters.json["properties"]["a"]["type"] == "string"  # type: ignore[union-attr]
