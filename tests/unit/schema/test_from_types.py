"""Schemas from Python types: the documents, the values both ways, and what is refused."""

# ruff: noqa: F821, UP007, UP045 - old and unresolvable spellings are among what is tested

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import pathlib
import uuid
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    LiteralString,
    Never,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)

import annotated_types as at
import msgspec
import pydantic
import pytest
from pydantic import Field
from typing_extensions import Doc, ReadOnly, TypeAliasType

from dsh_tools.errors import DefinitionError, LossyJsonError, ToolArgsError
from dsh_tools.json_value import FrozenDict, FrozenList, JsonScalar, JsonValue, snapshot
from dsh_tools.schema import TypedSchema, from_types
from dsh_tools.schema.types import MAX_TYPED_DEPTH

T = TypeVar("T")


def document(tp: Any, **how: Any) -> Any:
    return from_types(tp, **how).json


def accepts(tp: Any, value: Any) -> bool:
    return from_types(tp).accepts(snapshot(value))


def loaded(tp: Any, value: Any) -> Any:
    schema = from_types(tp)
    frozen = snapshot(value)
    assert schema.violations(frozen) == []
    return schema.load(frozen)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    TEXT = "a"
    NUMBER = 1
    FLAG = True
    NOTHING = None


class Shade(enum.StrEnum):
    LIGHT = "light"


class Perm(enum.Flag):
    R = 1
    W = 2


class Point(TypedDict):
    """A place."""

    x: int
    y: NotRequired[int]


class Loose(TypedDict, total=False):
    a: Required[str]
    b: Annotated[int, "the b"]
    c: ReadOnly[bool]


class Extended(Point, total=False):
    z: float


@dataclasses.dataclass
class Job:
    """A job to do.

    Attributes:
        title: what it is called.
        tags: words for it.
    """

    title: str
    weight: float = 1.0
    tags: list[str] = dataclasses.field(default_factory=list)
    stamp: str = dataclasses.field(default_factory=lambda: "now")
    note: Annotated[str | None, "a remark"] = dataclasses.field(default=None)
    count: int = dataclasses.field(default=0, init=False)


@dataclasses.dataclass
class Tree:
    value: int
    children: list[Tree] = dataclasses.field(default_factory=list)


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog", rename="camel"):
    good_boy: bool = True


class Ranged(msgspec.Struct):
    n: Annotated[int, msgspec.Meta(ge=1, lt=10, description="a digit")]
    maybe: int | msgspec.UnsetType = msgspec.UNSET


class Address(pydantic.BaseModel):
    city: str
    zip: str | None = Field(default=None, pattern=r"^\d+$")

    @pydantic.field_validator("city")
    @classmethod
    def known(cls, value: str) -> str:
        if value == "nowhere":
            raise ValueError("bad city")
        return value


class Person(pydantic.BaseModel):
    """Somebody."""

    name: str
    home: Address = Field(description="where they live")
    work: Address | None = None


class PNode(pydantic.BaseModel):
    value: str
    children: list[PNode] = []


class OpenModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: int


class CarelessModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore")
    a: int


# ── scalars ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tp", "expected"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (type(None), {"type": "null"}),
        (LiteralString, {"type": "string"}),
        (Any, {}),
        (JsonValue, {}),
        (pydantic.JsonValue, {}),
        (NewType("UserId", int), {"type": "integer"}),
        (Final[int], {"type": "integer"}),
        (Literal["a"], {"type": "string", "const": "a"}),
        (Literal["a", "b", "a"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, True], {"oneOf": [{"type": "integer", "const": 1}, {"type": "boolean", "const": True}]}),
        (Literal["a", None], {"oneOf": [{"type": "string", "const": "a"}, {"type": "null"}]}),
        (Color, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Shade, {"type": "string", "const": "light"}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (Iterable[str], {"type": "array", "items": {"type": "string"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (tuple, {"type": "array"}),
        (dict, {"type": "object", "additionalProperties": True}),
        (dict[str, Any], {"type": "object", "additionalProperties": True}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (int | None, {"oneOf": [{"type": "integer"}, {"type": "null"}]}),
        (Optional[str], {"oneOf": [{"type": "string"}, {"type": "null"}]}),
        (Union[int], {"type": "integer"}),
        (int | float, {"anyOf": [{"type": "integer"}, {"type": "number"}]}),
    ],
)
def test_document_of_a_type(tp: Any, expected: Any):
    assert document(tp) == expected
    assert list(document(tp)) == list(expected)  # SCHEMA-B17: the member order is part of the prompt


def test_integers_and_floats_arrive_in_the_type_that_was_asked_for():
    # SCHEMA-A4
    assert (loaded(int, 1.0), type(loaded(int, 1.0))) == (1, int)
    assert (loaded(float, 1), type(loaded(float, 1))) == (1.0, float)
    assert loaded(list[int], [1.0, 2]) == [1, 2]
    assert all(type(item) is int for item in loaded(list[int], [1.0, 2]))
    assert type(loaded(int | float, 1.0)) is float
    assert type(loaded(int | float, 1)) is int
    assert type(loaded(float | int, 1)) is int
    assert type(loaded(Literal[1, 2], 1.0)) is int
    assert loaded(int, 10**30) == 10**30


@pytest.mark.parametrize(
    ("tp", "value"),
    [
        (int, True),
        (int, 1.5),
        (int, "1"),
        (float, False),
        (bool, 1),
        (bool, 0),
        (str, 1),
        (None, 0),
        (Literal[1], True),
        (Literal[True], 1),
        (Level, True),
        (Color, "RED"),
        (list[int], [1, "2"]),
        (dict[str, int], {"a": "1"}),
        (tuple[int, ...], [1, None]),
    ],
)
def test_nothing_is_coerced(tp: Any, value: Any):
    assert not accepts(tp, value)


def test_enums_arrive_as_members_and_leave_as_values():
    for tp, value, member in [
        (Color, "red", Color.RED),
        (Level, 2, Level.HIGH),
        (Level, 2.0, Level.HIGH),
        (Mixed, "a", Mixed.TEXT),
        (Mixed, None, Mixed.NOTHING),
        (Shade, "light", Shade.LIGHT),
    ]:
        schema = from_types(tp)
        assert schema.accepts(value)
        assert schema.load(value) is member
        assert schema.dump(member) == member.value
        assert type(schema.dump(member)) in (str, int, bool, type(None))


def test_trivial_types_say_so():
    assert [from_types(tp).trivial for tp in (str, bool, None, Literal["a"], str | None, str | bool)] == [True] * 6
    assert [from_types(tp).trivial for tp in (int, Color, list[str], Any, Point)] == [False] * 5
    assert from_types(list[str]).loads
    assert not from_types(list[str]).dumps


@pytest.mark.parametrize(
    ("tp", "value"),
    [
        (list[str], ["a"]),
        (list, ["a", ["b"]]),
        (tuple[list[int], ...], [[1]]),
        (Any, {"k": [1]}),
        (JsonValue, [{"k": 1}]),
        (dict[str, Any], {"k": {"l": 1}}),
        (dict[str, list[int]], {"k": [1]}),
        (Point, {"x": 1}),
        (list[Point] | None, [{"x": 1}]),
    ],
)
def test_a_body_gets_containers_of_its_own(tp: Any, value: Any):
    # PIPE-90: the pipeline's snapshot stays frozen, the body may change what it got.
    given = snapshot(value)
    schema = from_types(tp)
    first, second = schema.load(given), schema.load(given)
    assert first == (tuple(value) if first.__class__ is tuple else value)
    pending = [first]
    while pending:
        current = pending.pop()
        assert not isinstance(current, (FrozenDict, FrozenList))
        if isinstance(current, (list, tuple)):
            pending.extend(current)
        elif isinstance(current, dict):
            pending.extend(current.values())
    assert first is not second


def test_the_json_alias_is_known_wherever_it_stands():
    assert document(list[JsonValue]) == {"type": "array", "items": {}}
    assert document(dict[str, JsonValue]) == {"type": "object", "additionalProperties": True}
    assert len(document(JsonScalar)["anyOf"]) == 5


# ── records ────────────────────────────────────────────────────────────────────


def test_typed_dict():
    assert document(Point) == {
        "type": "object",
        "description": "A place.",
        "additionalProperties": False,
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x"],
    }
    assert loaded(Point, {"x": 1.0}) == {"x": 1}
    assert not accepts(Point, {"x": 1, "z": 1})
    assert document(Loose)["required"] == ["a"]
    assert document(Loose)["properties"]["b"] == {"type": "integer", "description": "the b"}
    assert document(Extended)["required"] == ["x"]
    assert list(document(Extended)["properties"]) == ["x", "y", "z"]


def test_typed_dict_with_keys_that_are_no_identifiers():
    odd = TypedDict("odd", {"from": str, "class": int, "cik-A": bool})
    assert document(odd)["required"] == ["from", "class", "cik-A"]
    assert loaded(odd, {"from": "a", "class": 1, "cik-A": True}) == {"from": "a", "class": 1, "cik-A": True}


def test_dataclass():
    schema = from_types(Job)
    assert schema.json == {
        "type": "object",
        "description": "A job to do.",
        "additionalProperties": False,
        "properties": {
            "title": {"type": "string", "description": "what it is called."},
            "weight": {"type": "number", "default": 1.0},
            "tags": {"type": "array", "description": "words for it.", "default": [], "items": {"type": "string"}},
            "stamp": {"type": "string"},
            "note": {"oneOf": [{"type": "string"}, {"type": "null"}], "description": "a remark", "default": None},
        },
        "required": ["title"],
    }
    job = schema.load(snapshot({"title": "a", "weight": 2}))
    assert job == Job("a", 2.0)
    assert type(job.weight) is float
    assert schema.defaults == {"weight": 1.0, "tags": [], "note": None}


def test_what_a_body_returns_has_all_fields():
    output = document(Job, output=True)
    assert output["required"] == ["title", "weight", "tags", "stamp", "note", "count"]
    assert "default" not in output["properties"]["weight"]
    schema = from_types(Job, output=True)
    dumped = schema.dump(Job("a"))
    assert dumped == {"title": "a", "weight": 1.0, "tags": [], "stamp": "now", "note": None, "count": 0}
    assert schema.violations(dumped) == []
    assert schema.load(dumped) == Job("a")  # a renderer gets it back, though count is not settable


def test_dataclass_without_its_own_docstring_has_no_description():
    @dataclasses.dataclass
    class Bare:
        a: int

    assert "description" not in document(Bare)


def test_dataclass_metadata_may_hold_the_description():
    made = dataclasses.make_dataclass("Made", [("a", int, dataclasses.field(metadata={"description": "the a"}))])
    assert document(made)["properties"]["a"] == {"type": "integer", "description": "the a"}


def test_mutable_defaults_are_never_shared():
    schema = from_types(Job)
    first, second = schema.load({"title": "a"}), schema.load({"title": "b"})
    first.tags.append("x")
    assert second.tags == []
    assert schema.json["properties"]["tags"]["default"] == []


def test_struct_with_constraints_and_an_unset_field():
    schema = from_types(Ranged)
    assert schema.json["properties"]["n"] == {
        "type": "integer",
        "description": "a digit",
        "minimum": 1,
        "exclusiveMaximum": 10,
    }
    assert schema.json["required"] == ["n"]
    assert schema.load({"n": 3}).maybe is msgspec.UNSET
    assert schema.dump(Ranged(3)) == {"n": 3}
    assert schema.dump(Ranged(3, 4)) == {"n": 3, "maybe": 4}
    assert schema.violations({"n": 10}, "") == ['"n" must be less than 10']
    assert document(Ranged, output=True)["required"] == ["n"]


def test_tagged_structs_become_one_of():
    # D31
    schema = from_types(Cat | Dog)
    assert list(schema.json) == ["oneOf"]
    assert schema.json["oneOf"][0]["properties"]["type"] == {"type": "string", "const": "cat"}
    assert schema.load({"type": "cat", "lives": 9.0}) == Cat(9)
    assert schema.load({"type": "dog", "goodBoy": False}) == Dog(False)
    assert schema.dump(Dog(False)) == {"type": "dog", "goodBoy": False}
    assert not schema.accepts({"type": "cat", "goodBoy": True})


def test_struct_that_refuses_its_values():
    class Even(msgspec.Struct):
        n: int

        def __post_init__(self) -> None:
            if self.n % 2:
                raise ValueError("odd")

    schema = from_types(dict[str, list[Even]])
    assert schema.may_refuse
    assert schema.refusals({"a": [{"n": 2}, {"n": 3}]}, "") == ['"a[1]" is not valid: odd']
    with pytest.raises(ToolArgsError) as caught:
        schema.load({"a": [{"n": 3}]}, "input")
    assert caught.value.violations == ('"input.a[0]" is not valid: odd',)
    assert isinstance(caught.value.__cause__, ValueError)


def test_generic_dataclass_and_inheritance():
    @dataclasses.dataclass
    class Box(Generic[T]):
        item: T
        more: list[T] = dataclasses.field(default_factory=list)

    @dataclasses.dataclass
    class IntBox(Box[int]):
        label: str = ""

    assert document(Box[str])["properties"]["item"] == {"type": "string"}
    assert document(Box[int])["properties"]["more"]["items"] == {"type": "integer"}
    assert document(IntBox)["properties"]["item"] == {"type": "integer"}
    assert loaded(IntBox, {"item": 1.0}) == IntBox(1)
    with pytest.raises(DefinitionError, match=r'field "item" of .*Box: ~T is not JSON; bind the type variable'):
        from_types(Box)


# ── recursion ──────────────────────────────────────────────────────────────────


def nested(depth: int, value: Any = "v") -> dict[str, Any]:
    node: dict[str, Any] = {"value": value, "children": []}
    for _ in range(depth):
        node = {"value": "v", "children": [node]}
    return node


@pytest.mark.parametrize("tp", [Tree, PNode])
def test_types_that_contain_themselves_stay_references(tp: Any):
    schema = from_types(tp)
    assert schema.json["type"] == "object"
    assert schema.json["properties"]["children"]["items"] == {"$ref": f"#/$defs/{tp.__name__}"}
    assert list(schema.json["$defs"]) == [tp.__name__]
    leaf = {"value": 1 if tp is Tree else "a", "children": []}
    value = schema.load({**leaf, "children": [leaf]})
    assert type(value) is tp
    assert type(value.children[0]) is tp
    assert schema.dump(value) == {**leaf, "children": [leaf]}


def test_a_deep_value_of_a_recursive_type_is_refused_with_words_not_with_a_crash():
    schema = from_types(PNode)
    for depth in (MAX_TYPED_DEPTH, 5_000, 100_000):
        value = snapshot(nested(depth))
        assert schema.violations(value, "root") or schema.refusals(value, "root") == [
            f'"root" nests more than {MAX_TYPED_DEPTH} levels deep'
        ]
    fits = snapshot(nested(MAX_TYPED_DEPTH // 2 - 1))
    assert schema.violations(fits) == []
    assert schema.load(fits).children[0].value == "v"


def test_deep_values_of_any_type_are_no_problem():
    value: Any = []
    for _ in range(100_000):
        value = [value]
    frozen = snapshot(value)
    for tp in (Any, list, dict[str, Any]):
        given = snapshot({"k": frozen}) if tp == dict[str, Any] else frozen
        schema = from_types(tp)
        assert schema.accepts(given)
        assert type(schema.load(given)) in (list, dict)


def test_a_value_that_holds_itself_is_refused_on_its_way_out():
    tree = Tree(1)
    tree.children.append(tree)
    with pytest.raises(LossyJsonError, match="contains itself"):
        from_types(Tree, output=True).dump(tree)


def test_recursive_aliases():
    alias = TypeAliasType("Tally", "int | list[Tally]")
    schema = from_types(alias, names={"Tally": alias})
    assert schema.accepts([1, [2, [3]]])
    assert not schema.accepts([1, ["2"]])
    assert schema.load([1.0, [2.0]]) == [1, [2]]
    endless = TypeAliasType("Endless", "Endless | None")
    with pytest.raises(DefinitionError, match="refers to itself"):
        from_types(endless, names={"Endless": endless})


def test_mutual_recursion_and_two_classes_of_one_name():
    def make() -> Any:
        @dataclasses.dataclass
        class Twin:
            a: int
            next: Twin | None = None

        return Twin

    first, second = make(), make()
    schema = from_types(first | second)
    assert sorted(schema.json["$defs"]) == ["Twin", "Twin2"]
    assert schema.accepts({"a": 1, "next": {"a": 2}})


def test_shared_classes_do_not_blow_the_document_up():
    tp: Any = int
    for level in range(40):
        tp = dataclasses.make_dataclass(f"L{level}", [("left", tp), ("right", tp)])
    schema = from_types(tp)
    assert len(str(schema.json)) < 200_000
    assert not schema.accepts({"left": 1, "right": 2})


# ── unions ─────────────────────────────────────────────────────────────────────


def test_unions_that_exclude_each_other_are_one_of():
    # D31
    class A(TypedDict):
        kind: Literal["a"]
        x: int

    class B(TypedDict):
        kind: Literal["b"]
        x: int

    class C(TypedDict):
        other: str

    assert "oneOf" in document(A | B)
    assert "oneOf" in document(A | C)  # closed, and each needs what the other forbids
    assert "oneOf" in document(list[int] | dict[str, int] | str | None)
    assert "oneOf" in document(Literal["a"] | Color)
    assert "anyOf" in document(str | Color)
    assert "anyOf" in document(list[int] | list[str])
    assert "anyOf" in document(A | dict[str, Any])


def test_union_branches_are_told_apart_in_both_directions():
    @dataclasses.dataclass
    class Meter:
        m: float

    @dataclasses.dataclass
    class Pair:
        a: Meter | None
        b: list[Meter] | list[str]

    schema = from_types(Pair | Meter | list[Meter], names=locals())
    assert schema.load({"m": 1}) == Meter(1.0)
    assert schema.load([{"m": 1}]) == [Meter(1.0)]
    assert schema.load({"a": {"m": 2}, "b": ["x"]}) == Pair(Meter(2.0), ["x"])
    assert schema.load({"a": None, "b": [{"m": 1}]}) == Pair(None, [Meter(1.0)])
    for value in (Pair(Meter(1.0), [Meter(2.0)]), Pair(None, ["x"]), Meter(1.0), [Meter(1.0)]):
        dumped = schema.dump(value)
        assert schema.violations(dumped) == []
        assert schema.load(dumped) == value


def test_a_union_tries_the_next_branch_when_a_validator_refuses():
    class Picky(pydantic.BaseModel):
        city: str

        @pydantic.field_validator("city")
        @classmethod
        def check(cls, value: str) -> str:
            if value == "x":
                raise ValueError("not x")
            return value

    schema = from_types(Picky | dict[str, str])
    assert schema.load({"city": "x"}) == {"city": "x"}
    assert schema.load({"city": "y"}) == Picky(city="y")
    both = from_types(Picky | list[str] | Annotated[dict[str, str], at.Predicate(bool)])
    assert both.load({"city": "x"}) == {"city": "x"}


def test_a_renderer_gets_back_a_union_as_it_was():
    value = from_types(Color | str).load("red")
    assert value is Color.RED
    assert from_types(Color | None).dump(Color.RED) == "red"
    assert from_types(Color | None).load(None) is None


# ── metadata ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tp", "expected"),
    [
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Annotated[int, Doc("how many")], {"type": "integer", "description": "how many"}),
        (Annotated[int, Field(description="how many", ge=1)], {"type": "integer", "description": "how many", "minimum": 1}),
        (Annotated[int, msgspec.Meta(description="d", title="t", examples=[1], gt=0)],
         {"type": "integer", "description": "d", "title": "t", "examples": [1], "exclusiveMinimum": 0}),
        (Annotated[Annotated[int, "inner"], "outer"], {"type": "integer", "description": "outer"}),
        (Annotated[int, at.Interval(ge=1, le=5)], {"type": "integer", "minimum": 1, "maximum": 5}),
        (Annotated[float, at.MultipleOf(0.5)], {"type": "number", "multipleOf": 0.5}),
        (Annotated[str, at.Len(1, 3)], {"type": "string", "minLength": 1, "maxLength": 3}),
        (Annotated[str, Field(pattern="^a")], {"type": "string", "pattern": "^a"}),
        (Annotated[str, pydantic.StringConstraints(min_length=2, pattern="a")], {"type": "string", "minLength": 2, "pattern": "a"}),
        (Annotated[list[int], at.MinLen(1)], {"type": "array", "items": {"type": "integer"}, "minItems": 1}),
        (Annotated[dict[str, int], at.MaxLen(2)], {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2}),
        (Annotated[int | None, at.Ge(3)], {"oneOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]}),
        (pydantic.PositiveInt, {"type": "integer", "exclusiveMinimum": 0}),
        (Annotated[int, object(), "d", 17], {"type": "integer", "description": "d"}),
        (Annotated[int, Field(json_schema_extra={"deprecated": True})], {"type": "integer", "deprecated": True}),
    ],
)  # fmt: skip
def test_annotated_metadata(tp: Any, expected: Any):
    assert document(tp) == expected


def test_constraints_are_enforced():
    # D31
    assert from_types(Annotated[int, at.Ge(3)]).violations(2) == ['"value" must be at least 3']
    assert not accepts(Annotated[str, Field(pattern="^a+$")], "ab")
    assert accepts(Annotated[int | None, at.Ge(3)], None)
    assert not accepts(Annotated[int | None, at.Ge(3)], 1)


def test_predicates_run_on_the_loaded_value():
    schema = from_types(list[Annotated[int, at.Predicate(lambda n: n % 2 == 0)]])
    assert schema.refusals([2, 4.0]) == []
    assert schema.refusals([2, 3]) == ['"value[1]" is not valid: does not satisfy <lambda>']


def test_validators_in_annotated_are_pydantics_business():
    schema = from_types(Annotated[str, pydantic.AfterValidator(str.upper)])
    assert schema.load("a") == "A"
    stripped = from_types(Annotated[str, pydantic.StringConstraints(strip_whitespace=True)])
    assert stripped.load(" a ") == "a"


# ── pydantic ───────────────────────────────────────────────────────────────────


def test_pydantic_model_is_inlined_and_closed():
    schema = from_types(Person)
    address = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "city": {"type": "string"},
            "zip": {"oneOf": [{"type": "string", "pattern": r"^\d+$"}, {"type": "null"}], "default": None},
        },
        "required": ["city"],
    }
    assert schema.json == {
        "type": "object",
        "description": "Somebody.",
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string"},
            "home": {**address, "description": "where they live"},
            "work": {"oneOf": [address, {"type": "null"}], "default": None},
        },
        "required": ["name", "home"],
    }
    person = schema.load(snapshot({"name": "a", "home": {"city": "b"}}))
    assert person == Person(name="a", home=Address(city="b"))
    assert schema.dump(person) == {"name": "a", "home": {"city": "b", "zip": None}, "work": None}


def test_pydantic_models_open_only_where_they_say_so():
    assert document(OpenModel)["additionalProperties"] is True
    assert document(CarelessModel)["additionalProperties"] is True
    assert loaded(OpenModel, {"a": 1, "b": 2}).model_extra == {"b": 2}
    assert loaded(CarelessModel, {"a": 1, "b": 2}) == CarelessModel(a=1)
    assert document(Address)["additionalProperties"] is False


def test_pydantic_validators_speak_with_our_paths():
    schema = from_types(list[Person])
    bad = [{"name": "a", "home": {"city": "b"}, "work": {"city": "nowhere"}}]
    assert schema.violations(bad) == []
    assert schema.refusals(bad, "people") == ['"people[0].work.city" is not valid: bad city']


def test_pydantic_fields_of_any_json_are_mutable():
    class Holder(pydantic.BaseModel):
        data: Any

    value = from_types(Holder).load(snapshot({"data": {"a": [1]}}))
    value.data["a"].append(2)
    assert value.data == {"a": [1, 2]}


def test_pydantic_string_types_inside_a_model():
    # Outside a model they are refused; a model says itself how they are written.
    class Event(pydantic.BaseModel):
        when: datetime.datetime
        id: uuid.UUID
        price: decimal.Decimal = decimal.Decimal("1.5")

    schema = from_types(Event)
    assert schema.json["properties"]["when"] == {"type": "string", "format": "date-time"}
    event = schema.load({"when": "2026-01-02T03:04:05Z", "id": "12345678-1234-5678-1234-567812345678"})
    assert event.when.year == 2026
    assert from_types(Event, output=True).dump(event)["price"] == "1.5"
    assert schema.refusals({"when": "soon", "id": "12345678-1234-5678-1234-567812345678"}, "")[0].startswith(
        '"when" is not valid: '
    )


def test_pydantic_output_has_all_fields_and_computed_ones():
    class Rect(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        w: int
        h: int = 2

        @pydantic.computed_field
        @property
        def area(self) -> int:
            return self.w * self.h

    schema = from_types(Rect, output=True)
    assert schema.json["required"] == ["w", "h", "area"]
    dumped = schema.dump(Rect(w=3))
    assert dumped == {"w": 3, "h": 2, "area": 6}
    assert schema.violations(dumped) == []
    assert schema.load(dumped) == Rect(w=3)
    assert schema.load(snapshot([dumped])[0]) == Rect(w=3)


def test_pydantic_aliases_are_the_names_in_json():
    class Mail(pydantic.BaseModel):
        sender: str = Field(alias="from")

    schema = from_types(Mail)
    assert list(schema.json["properties"]) == ["from"]
    assert schema.load({"from": "a"}).sender == "a"
    assert schema.dump(Mail(**{"from": "a"})) == {"from": "a"}


def test_pydantic_discriminated_union():
    class Ant(pydantic.BaseModel):
        kind: Literal["ant"]

    class Bee(pydantic.BaseModel):
        kind: Literal["bee"]
        honey: int

    class Nest(pydantic.BaseModel):
        animal: Ant | Bee = Field(discriminator="kind")

    for tp, read in ((Nest, lambda v: v.animal), (Annotated[Ant | Bee, Field(discriminator="kind")], lambda v: v)):
        schema = from_types(tp)
        union = schema.json["properties"]["animal"] if tp is Nest else schema.json
        assert "oneOf" in union
        assert "discriminator" not in union
        value = {"kind": "bee", "honey": 1}
        assert type(read(schema.load({"animal": value} if tp is Nest else value))) is Bee


def test_pydantic_documents_beyond_nodes_are_judged_as_they_stand():
    class Pairs(pydantic.BaseModel):
        pair: tuple[int, str]

    schema = from_types(Pairs)
    assert schema.accepts({"pair": [1, "a"]})
    assert not schema.accepts({"pair": ["a", 1]})
    assert not schema.accepts({"pair": [1, "a", 2]})
    assert '"value.pair[0]"' in schema.violations({"pair": ["a", "b"]})[0]
    assert schema.load({"pair": [1, "a"]}).pair == (1, "a")
    assert schema.source == "types"


def test_pydantic_defaults_are_filled_only_where_they_fit():
    class Odd(pydantic.BaseModel):
        n: int = Field(default=-1, ge=0)
        m: int = 3

    assert from_types(Odd).defaults == {"m": 3}
    assert from_types(Odd).load({}).n == -1


def test_pydantic_dataclass_and_root_model():
    @pydantic.dataclasses.dataclass
    class Strict:
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def check(cls, value: int) -> int:
            if value == 13:
                raise AssertionError("unlucky")
            return value

    class Tags(pydantic.RootModel[list[str]]):
        pass

    assert from_types(Strict).load({"n": 1}) == Strict(1)
    assert from_types(Strict).refusals({"n": 13}, "") == ['"n" is not valid: unlucky']
    assert document(Tags) == {"type": "array", "items": {"type": "string"}}
    assert from_types(Tags).dump(Tags(["a"])) == ["a"]


def test_a_model_that_pydantic_cannot_write_down_is_refused():
    class Callback(pydantic.BaseModel):
        fn: Callable[[], int]

    with pytest.raises(DefinitionError, match="value: pydantic cannot say it in JSON Schema"):
        from_types(Callback)


# ── values out ─────────────────────────────────────────────────────────────────


def test_values_of_another_type_pass_to_be_named_by_validation():
    # SCHEMA-E6
    for tp, value in (
        (Job, "x"),
        (Color, "nope"),
        (list[Job], [3]),
        (tuple[int, ...], "x"),
        (Person, 1),
        (Cat | Dog, 2),
    ):
        schema = from_types(tp, output=True)
        assert schema.violations(schema.dump(value))
    assert from_types(Point).dump({"x": 1, "extra": 2}) == {"x": 1, "extra": 2}


def test_a_dict_of_the_right_form_passes_for_a_dataclass():
    schema = from_types(Cat, output=True)
    assert schema.violations(schema.dump({"type": "cat", "lives": 1})) == []


def test_lossy_values_are_named_with_their_path():
    schema = from_types(dict[str, Job], output=True)
    with pytest.raises(LossyJsonError) as caught:
        schema.dump({"a": Job("t", float("nan"))})
    assert caught.value.path == "a.weight"

    class Cursed(pydantic.BaseModel):
        x: Any

    with pytest.raises(LossyJsonError) as caught:
        from_types(list[Cursed], output=True).dump([Cursed(x=object())])
    assert caught.value.path == "[0]"


def test_unknown_keys_of_a_typed_dict_survive_dumping():
    class Holder(TypedDict):
        job: Job

    schema = from_types(Holder, output=True)
    dumped = schema.dump({"job": Job("a"), "extra": 1})
    assert dumped["extra"] == 1
    assert schema.violations(dumped) == ['"value.extra" is not a declared property (additionalProperties: false)']


# ── refusals ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tp", "what", "advice"),
    [
        (datetime.datetime, "datetime is not JSON", "use str"),
        (datetime.date, "date is not JSON", "use str"),
        (datetime.timedelta, "timedelta is not JSON", "name the unit"),
        (uuid.UUID, "UUID is not JSON", "use str"),
        (pathlib.Path, "Path is not JSON", "use str"),
        (decimal.Decimal, "Decimal is not JSON", "use str"),
        (bytes, "bytes is not JSON", "base64"),
        (complex, "complex is not JSON", "two floats"),
        (set[int], "set[int] is not JSON", "use list"),
        (frozenset, "frozenset is not JSON", "use list"),
        (object, "object is not JSON", "use Any"),
        (Never, "Never is not JSON", "use None"),
        (Callable[[int], str], "is not JSON", "cannot be sent"),
        (Iterator[int], "is not JSON", "use list"),
        (T, "~T is not JSON", "bind the type variable"),
        (tuple[int, str], "a tuple of fixed places", "dataclass or TypedDict"),
        (tuple[()], "a tuple of fixed places", "dataclass or TypedDict"),
        (namedtuple("Spot", "a b"), "Spot is not JSON", "use a dataclass or a TypedDict"),
        (dict[int, str], "keys of JSON objects are strings, not int", "dict[str, T]"),
        (Perm, "Perm is a Flag", "list of the names"),
        (type("Slug", (str,), {}), "Slug is not JSON", "use NewType, or plain str"),
        (type("Plain", (), {}), "Plain is not JSON", "dataclass"),
        (Literal[Color.RED], "Literal of Color.RED", "use the Enum itself"),
        (Literal[b"a"], "Literal of b'a'", "use strings"),
        (enum.Enum("Pair", {"A": (1, 2)}), "the value of Pair.A is not JSON", "as values"),
        (enum.Enum("Empty", {}), "Empty has no members", "at least one"),
        (list["Missing"], "'Missing'", "cannot be resolved"),
        (Annotated[int, at.MinLen(1)], "minLength does not apply to integer", "remove it"),
        (Annotated[bool, at.Ge(1)], "minimum does not apply to boolean", "remove it"),
        (Annotated[str, Field(pattern="(?=a)")], "look-around", "simpler pattern"),
    ],
)  # fmt: skip
def test_what_json_cannot_say_is_refused_with_a_way_out(tp: Any, what: str, advice: str):
    for wrap in (lambda t: t, lambda t: list[t], lambda t: t | None if not isinstance(t, str) else Optional[t]):
        try:
            wrapped = wrap(tp)
        except TypeError:
            continue
        with pytest.raises(DefinitionError) as caught:
            from_types(wrapped, name='parameter "when"')
        message = str(caught.value)
        assert message.startswith('parameter "when": ')
        assert what in message
        assert advice in message


@pytest.mark.parametrize(
    "tp", [3, "", "1 +", [], {}, object(), ..., (), ("a",), Union, Literal, Optional, type, type[int]]
)
def test_what_is_no_type_at_all_is_refused(tp: Any):
    with pytest.raises(DefinitionError, match="^value: "):
        from_types(tp)


def test_types_that_nest_too_deep_are_refused():
    deep: Any = int
    for _ in range(1_000):
        deep = list[deep]
    with pytest.raises(DefinitionError, match="^value: the type nests more than 64 levels deep"):
        from_types(deep)
    chain: Any = int
    for level in range(300):
        chain = dataclasses.make_dataclass(f"Link{level}", [("next", chain)])
    with pytest.raises(DefinitionError, match="the type nests more than 64 levels deep"):
        from_types(chain)


def test_an_integer_beyond_a_floats_range_is_refused_not_made_infinite():
    assert from_types(float).accepts(10**400)
    with pytest.raises(ToolArgsError, match='"x" is not valid: is beyond the range of a float'):
        from_types(float).load(10**400, "x")


def test_fields_are_named_in_refusals():
    made = dataclasses.make_dataclass("Made", [("when", datetime.datetime)])
    with pytest.raises(DefinitionError, match=r'^value: field "when" of Made: datetime is not JSON'):
        from_types(list[made])


def test_defaults_that_do_not_fit_are_refused():
    with pytest.raises(DefinitionError, match=r'field "a" of Made: the default None does not fit.*write T \| None'):
        from_types(dataclasses.make_dataclass("Made", [("a", int, None)]))
    with pytest.raises(DefinitionError, match="the default <object"):
        from_types(dataclasses.make_dataclass("Made", [("a", int, object())]))


def test_init_variables_and_array_like_structs_are_refused():
    @dataclasses.dataclass
    class Made:
        a: dataclasses.InitVar[int]

    class Row(msgspec.Struct, array_like=True):
        a: int

    with pytest.raises(DefinitionError, match="InitVar is not a field"):
        from_types(Made)
    with pytest.raises(DefinitionError, match="array_like"):
        from_types(Row)


def test_unresolvable_annotations_are_named():
    made = dataclasses.make_dataclass("Made", [("a", "Nothing")])
    with pytest.raises(DefinitionError, match="an annotation of Made cannot be resolved: name 'Nothing'"):
        from_types(made)


def test_local_names_may_be_handed_in():
    made = dataclasses.make_dataclass("Made", [("a", "Secret")])
    assert document(made, names={"Secret": int})["properties"]["a"] == {"type": "integer"}


def test_a_typed_schema_is_a_schema():
    schema = from_types(Point)
    assert isinstance(schema, TypedSchema)
    assert schema.source == "types"
    assert isinstance(schema.json, FrozenDict)
    assert repr(schema) == "<TypedSchema from types>"
