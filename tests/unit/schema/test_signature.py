"""Reading functions: names, descriptions, parameters, defaults, what is refused."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import annotated_types as at
import msgspec
import pytest
from pydantic import BaseModel, Field

from dsh_tools.errors import DefinitionError
from dsh_tools.json_value import JsonValue
from dsh_tools.schema import FunctionSignature, read_signature

if TYPE_CHECKING:
    from somewhere import HostContext


class Host:
    """Stands for what a host supplies."""


def is_host(annotation: Any) -> bool:
    return annotation is Host or annotation == "HostContext"


def read(fn: Callable[..., Any], **how: Any) -> FunctionSignature:
    return read_signature(fn, is_injected=is_host, **how)


def properties(fn: Callable[..., Any], **how: Any) -> Any:
    return read(fn, **how).parameters.json["properties"]


# ── names and descriptions ─────────────────────────────────────────────────────


def google(path: str, count: int = 3) -> str:
    """Read a file.

    Only text files.

    Args:
        path: where the file is,
            relative to the workspace.
        count (int): how many lines.

    Returns:
        The text.

    Raises:
        OSError: no such file.

    Note:
        Slow.

    Examples:
        >>> google("a")
        'x'
    """
    return path * count


def numpy(path: str, count: int = 3) -> str:
    """Read a file.

    Only text files.

    Parameters
    ----------
    path : str
        where the file is
    count : int, optional
        how many lines

    Returns
    -------
    str
        The text.
    """
    return path * count


def rest(path: str, count: int = 3) -> str:
    """Read a file.

    Only text files.

    :param path: where the file is
    :param int count: how many lines
    :returns: The text.
    :raises OSError: no such file.
    """
    return path * count


def tight(path: str, count: int = 3) -> str:
    """Read a file.

    Only text files.
    Args:
        path: where the file is
        count: how many lines
    Returns:
        The text.
    """
    return path * count


@pytest.mark.parametrize("fn", [google, numpy, rest, tight])
def test_docstrings_describe_the_tool_and_its_parameters(fn: Any):
    signature = read(fn)
    assert signature.name == fn.__name__
    assert signature.description.startswith("Read a file.\n\nOnly text files.\n\nReturns: The text.")
    assert "OSError" not in signature.description
    found = signature.parameters.json["properties"]
    assert found["path"]["description"].startswith("where the file is")
    assert found["count"]["description"].startswith("how many lines")
    assert found["count"]["default"] == 3


def test_notes_and_examples_stay_in_the_description():
    description = read(google).description
    assert "Note: Slow." in description
    assert '>>> google("a")' in description
    assert "relative to the workspace" in properties(google)["path"]["description"]


def test_plain_docstrings_are_descriptions_as_they_stand():
    def fn() -> None:
        """Do it.

        Note the colon: nothing here is a section.
        """

    assert read(fn).description == "Do it.\n\nNote the colon: nothing here is a section."
    assert read(fn, description="other").description == "other"

    def bare() -> None: ...

    assert read(bare).description == ""


def test_an_annotation_wins_over_the_docstring():
    def fn(a: Annotated[int, "from the annotation"], b: int) -> None:
        """Do it.

        Args:
            a: from the docstring.
            b: also.
        """

    assert properties(fn)["a"]["description"] == "from the annotation"
    assert properties(fn)["b"]["description"] == "also."


def test_names():
    assert read(google, name="other").name == "other"
    assert read(functools.partial(google, count=1)).name == "google"
    with pytest.raises(DefinitionError, match="has no name of its own"):
        read(lambda: None)
    assert read(lambda: None, name="nothing").name == "nothing"


# ── parameters ─────────────────────────────────────────────────────────────────


def test_parameters_are_one_closed_object():
    def fn(a: int, b: str | None = None, *, c: Annotated[float, at.Ge(0)] = 1.5) -> None: ...

    assert read(fn).parameters.json == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "a": {"type": "integer"},
            "b": {"oneOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "c": {"type": "number", "default": 1.5, "minimum": 0},
        },
        "required": ["a"],
    }
    parameters = read(fn).parameters
    assert parameters.defaults == {"b": None, "c": 1.5}
    assert parameters.load({"a": 1.0}) == {"a": 1, "b": None, "c": 1.5}
    assert parameters.violations({"a": 1, "d": 2}, "") == [
        '"d" is not a declared property (additionalProperties: false)'
    ]


def test_no_parameters():
    def fn() -> None: ...

    assert read(fn).parameters.json == {"type": "object", "additionalProperties": False, "properties": {}}
    assert read(fn).parameters.load({}) == {}


def test_defaults_are_never_shared():
    shared: list[int] = [1]

    def fn(items: list[int] = shared, more: dict[str, Any] = {}) -> None: ...  # noqa: B006

    parameters = read(fn).parameters
    first, second = parameters.load({}), parameters.load({})
    first["items"].append(2)
    first["more"]["k"] = 1
    assert second == {"items": [1], "more": {}}
    shared.append(9)
    assert parameters.load({})["items"] == [1]
    assert parameters.defaults["items"] == [1]


def test_defaults_that_are_python_values_are_advertised_as_json():
    @dataclasses.dataclass
    class Box:
        size: int

    def fn(box: Box = Box(3), boxes: tuple[Box, ...] = (Box(1),)) -> None: ...  # noqa: B008

    parameters = read(fn, names=locals()).parameters
    assert parameters.defaults == {"box": {"size": 3}, "boxes": [{"size": 1}]}
    assert parameters.load({}) == {"box": Box(3), "boxes": (Box(1),)}


def test_pydantic_fields_as_defaults():
    def fn(
        a: int = Field(ge=1, description="the a"),
        b: int = Field(3, le=9),
        c: list[int] = Field(default_factory=list),
        d: Annotated[int, Field(default=4)] = 5,
        e: Annotated[int, Field(default=6)] = Field(),
    ) -> None: ...

    signature = read(fn)
    assert signature.parameters.json["required"] == ["a"]
    assert signature.parameters.json["properties"]["a"] == {"type": "integer", "description": "the a", "minimum": 1}
    assert signature.parameters.defaults == {"b": 3, "c": [], "d": 5, "e": 6}
    assert signature.parameters.load({"a": 1}) == {"a": 1, "b": 3, "c": [], "d": 5, "e": 6}

    def made(c: list[int] = Field(default_factory=lambda: [1])) -> None: ...

    with pytest.raises(DefinitionError, match='parameter "c": a default factory cannot be told to a model'):
        read(made)


def test_aliases_give_parameters_names_that_are_no_identifiers():
    def fn(sender: Annotated[str, Field(alias="from")], cls_: int = Field(alias="class", default=1)) -> None: ...

    parameters = read(fn).parameters
    assert list(parameters.json["properties"]) == ["from", "class"]
    assert parameters.load({"from": "a", "class": 2}) == {"sender": "a", "cls_": 2}
    assert parameters.load({"from": "a"}) == {"sender": "a", "cls_": 1}

    def twice(a: Annotated[int, Field(alias="b")], b: int) -> None: ...

    with pytest.raises(DefinitionError, match='parameter "b": "a" has the name "b" too'):
        read(twice)


def test_a_parameter_may_be_left_unset():
    def fn(a: int | msgspec.UnsetType = msgspec.UNSET) -> None: ...

    parameters = read(fn).parameters
    assert parameters.json["properties"]["a"] == {"type": "integer"}
    assert "required" not in parameters.json
    assert parameters.load({}) == {}


def test_injected_parameters_are_not_in_the_schema():
    def fn(a: int, host: Host, later: HostContext, both: Host = None) -> None: ...  # type: ignore[assignment]

    signature = read(fn)
    assert signature.injected == ("host", "later", "both")
    assert list(signature.parameters.json["properties"]) == ["a"]
    assert signature.parameters.violations({"a": 1, "host": {}}, "") == [
        '"host" is not a declared property (additionalProperties: false)'
    ]


def test_the_json_alias_means_any_json():
    def fn(a: JsonValue, b: list[JsonValue]) -> JsonValue: ...

    assert properties(fn) == {"a": {}, "b": {"type": "array", "items": {}}}
    assert read(fn).output.json == {}


def test_classes_of_the_enclosing_function_are_found_by_name():
    @dataclasses.dataclass
    class Local:
        a: int

    class Model(BaseModel):
        local: Local
        more: list[Model] = []

    def fn(x: Local, y: Model) -> Local: ...

    found = properties(fn, names=locals())
    assert found["x"]["properties"] == {"a": {"type": "integer"}}
    assert found["y"]["$ref"] == "#/$defs/Model"


def test_a_name_the_class_module_knows_is_not_overridden():
    module_level = {"Host": int}
    made = dataclasses.make_dataclass("Made", [("a", "Host")])
    made.__module__ = __name__

    def fn(a: Any) -> None: ...

    fn.__annotations__["a"] = made
    with pytest.raises(DefinitionError, match=r'field "a" of Made: Host is not JSON'):
        read(fn, names=module_level)


# ── kinds of callables ─────────────────────────────────────────────────────────


class Service:
    """A service.

    Args:
        nothing: of interest.
    """

    def fetch(self, url: str) -> str:
        """Fetch a page."""
        return url

    async def __call__(self, url: str) -> str:
        """Call it."""
        return url


def test_methods_partials_and_callable_objects():
    service = Service()
    assert list(properties(service.fetch)) == ["url"]
    assert read(service.fetch).description == "Fetch a page."
    called = read(service, name="service")
    assert (called.description, called.is_async) == ("Call it.", True)
    partial = read(functools.partial(google, "a"))
    assert list(partial.parameters.json["properties"]) == ["count"]
    assert partial.description.startswith("Read a file.")


def test_wrapped_functions_are_read_through():
    def deco(fn: Any) -> Any:
        @functools.wraps(fn)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        return inner

    assert list(properties(deco(google))) == ["path", "count"]


def test_async_functions_and_functions_that_return_awaitables():
    async def one() -> int: ...

    def two() -> Awaitable[int]: ...

    def three() -> Coroutine[Any, Any, int]: ...

    def four() -> int: ...

    assert [read(fn).is_async for fn in (one, two, three, four)] == [True, True, True, False]
    assert [read(fn).output.json for fn in (one, two, three, four)] == [{"type": "integer"}] * 4


def test_output_of_functions():
    def silent(): ...

    def none() -> None: ...

    assert read(silent).output.json == {}
    assert read(none).output.json == {"type": "null"}


# ── refusals ───────────────────────────────────────────────────────────────────


def starred(*paths: str) -> None: ...
def keywords(**options: int) -> None: ...
def positional(a: int, /) -> None: ...
def unannotated(a) -> None: ...
def dated(when: datetime.datetime) -> None: ...
def dated_output() -> datetime.datetime: ...
def wrong_default(a: int = None) -> None: ...  # type: ignore[assignment]
def unknown(a: Nowhere) -> None: ...  # noqa: F821
def no_type(a: dataclasses.Missing) -> None: ...


def unknown_output() -> Nowhere: ...  # noqa: F821
def generator() -> Any:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (starred, r'parameter "paths": a tool has no \*args; use paths: list\[T\]'),
        (keywords, r'parameter "options": a tool has no \*\*kwargs; use options: dict\[str, T\]'),
        (positional, 'parameter "a": arguments are sent by name, and it is positional-only; remove the "/"'),
        (unannotated, 'parameter "a": it has no annotation; annotate it; Any takes any JSON value'),
        (Service.fetch, 'parameter "self": a method needs its object'),
        (dated, 'parameter "when": datetime is not JSON; use str, say the form in its description'),
        (dated_output, "return value: datetime is not JSON"),
        (wrong_default, 'parameter "a": the default None does not fit its type .*; write T | None'),
        (unknown, "parameter \"a\": its annotation cannot be resolved: name 'Nowhere' is not defined"),
        (no_type, 'parameter "a": its annotation cannot be resolved: module .* has no attribute'),
        (unknown_output, "return value: its annotation cannot be resolved"),
        (generator, "generator is a generator; a tool returns one value: return a list"),
        (async_generator, "async_generator is a generator"),
        (dict, "has no readable signature|has no annotation|no \\*args"),
    ],
)
def test_what_cannot_be_a_tool(fn: Any, message: str):
    with pytest.raises(DefinitionError, match=message):
        read(fn, name="t" if fn is dict else None)
