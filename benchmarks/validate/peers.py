"""The other validators, each with the same schema in its own terms. A missing package is left out."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union

import jsonschema_rs
import msgspec
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from subject import KINDS
from typing_extensions import TypedDict

Check = Callable[[Any], Any]
CLOSED = ConfigDict(extra="forbid", strict=True)


def load(name: str) -> Any:
    """Import a package that may not be installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


fastjsonschema = load("fastjsonschema")
jsonschema = load("jsonschema")
orjson = load("orjson")


# ── pydantic-core ──────────────────────────────────────────────────────────────


def _typed_dict(name: str, /, **fields: Any) -> Any:
    made = TypedDict(name, fields)  # type: ignore[misc, operator]
    made.__pydantic_config__ = CLOSED
    return made


ItemDict = _typed_dict("ItemDict", id=int, name=str, score=float, tags=list[str], active=bool)
OptionsDict = _typed_dict("OptionsDict", case=bool, depth=int, label=str)
FilterDict = Annotated[
    Union[tuple(_typed_dict(f"Filter{kind}", kind=Literal[kind], value=str) for kind in KINDS)],  # noqa: UP007
    Field(discriminator="kind"),
]
TypicalDict = _typed_dict(
    "TypicalDict",
    path=str,
    query=str,
    limit=int,
    offset=int,
    recursive=bool,
    ratio=float,
    mode=Literal["fast", "thorough"],
    tags=list[str],
    options=OptionsDict,
    filter=FilterDict,
    cursor=None,
    items=list[ItemDict],
)


def pydantic_core(kind: str) -> Check:
    """Validate with a strict pydantic schema; the error's text is its message."""
    adapter: Any = TypeAdapter({"typical": TypicalDict, "list": list[ItemDict], "union": FilterDict}[kind])
    validate = adapter.validator.validate_python

    def check(value: Any) -> Any:
        try:
            return validate(value)
        except ValidationError as error:
            return str(error)

    return check


# ── msgspec ────────────────────────────────────────────────────────────────────


class Item(msgspec.Struct, forbid_unknown_fields=True):
    id: int
    name: str
    score: float
    tags: list[str]
    active: bool


class Options(msgspec.Struct, forbid_unknown_fields=True):
    case: bool
    depth: int
    label: str


FILTERS = tuple(
    msgspec.defstruct(f"Filter{kind}", [("value", str)], tag_field="kind", tag=kind, forbid_unknown_fields=True)
    for kind in KINDS
)


Typical = msgspec.defstruct(
    "Typical",
    [
        ("path", str),
        ("query", str),
        ("limit", int),
        ("offset", int),
        ("recursive", bool),
        ("ratio", float),
        ("mode", Literal["fast", "thorough"]),
        ("tags", list[str]),
        ("options", Options),
        ("filter", Union[FILTERS]),  # noqa: UP007
        ("cursor", None),
        ("items", list[Item]),
    ],
    forbid_unknown_fields=True,
)


def msgspec_convert(kind: str) -> Check:
    """Convert into structs; an error's text is its message (it stops at the first)."""
    wanted: Any = {"typical": Typical, "list": list[Item], "union": Union[FILTERS]}[kind]  # noqa: UP007
    convert = msgspec.convert

    def check(value: Any) -> Any:
        try:
            return convert(value, wanted)
        except msgspec.ValidationError as error:
            return str(error)

    return check


# ── JSON Schema validators ─────────────────────────────────────────────────────


def jsonschema_rs_validate(document: Any) -> Check:
    validate = jsonschema_rs.Draft202012Validator(copy.deepcopy(document)).validate

    def check(value: Any) -> Any:
        try:
            return validate(value)
        except jsonschema_rs.ValidationError as error:
            return error.message

    return check


def fastjsonschema_compiled(document: Any) -> Check:
    compiled = fastjsonschema.compile(document)

    def check(value: Any) -> Any:
        try:
            return compiled(value)
        except fastjsonschema.JsonSchemaException as error:
            return error.message

    return check


def jsonschema_errors(document: Any) -> Check:
    validator = jsonschema.Draft202012Validator(document)
    return lambda value: [error.message for error in validator.iter_errors(value)]


def validators(kind: str, document: Any) -> dict[str, Check]:
    """All peers that are installed, by name."""
    found: dict[str, Check] = {
        "jsonschema-rs": jsonschema_rs_validate(document),
        "msgspec": msgspec_convert(kind),
        "pydantic-core": pydantic_core(kind),
    }
    if fastjsonschema is not None:
        found["fastjsonschema"] = fastjsonschema_compiled(document)
    if jsonschema is not None:
        found["jsonschema"] = jsonschema_errors(document)
    return found


def copies() -> dict[str, Check]:
    """What else makes an independent copy of a JSON value."""
    found: dict[str, Check] = {"copy.deepcopy": copy.deepcopy}
    if orjson is not None:
        found["orjson round trip"] = lambda value: orjson.loads(orjson.dumps(value))
    return found


MISSING = [name for name in ("fastjsonschema", "jsonschema", "orjson") if globals()[name] is None]
