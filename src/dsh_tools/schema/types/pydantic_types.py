"""Pydantic models, and every type that brings its own pydantic schema.

Pydantic writes their documents and runs their validators; this module fits both into ours: closed
objects, no invented titles, definitions under names of the whole document, errors with our paths.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticSerializationError, core_schema

from ...json_value import thaw
from .codec import Codec, Fault, Problem, Shape
from .guards import is_class, is_dict, is_list
from .refusals import refuse, type_name

__all__ = ["pydantic_adapter", "pydantic_document", "pydantic_shape"]


class _Documents(GenerateJsonSchema):
    """Pydantic's generator, with objects closed unless the model says otherwise, and fewer titles."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return self._close(super().model_schema(schema), schema["cls"], schema.get("config"))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return self._close(super().dataclass_schema(schema), schema["cls"], schema.get("config"))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return self._close(super().typed_dict_schema(schema), schema.get("cls"), schema.get("config"))

    def field_is_required(self, field: Any, total: bool) -> bool:
        # What a body returns is an instance: all its fields are there, defaults included.
        if self.mode == "serialization" and field["type"] != "typed-dict-field":
            return not field.get("serialization_exclude")
        return super().field_is_required(field, total)

    def _close(self, document: JsonSchemaValue, cls: Any, config: Any) -> JsonSchemaValue:
        target = self.resolve_ref_schema(document)
        named: Any = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
        if target.get("title") == getattr(cls, "__name__", None) and not named.get("title"):
            del target["title"]
        extra: Any = None if config is None else config.get("extra_fields_behavior")
        if target.get("type") == "object" and "properties" in target:
            # Only who writes extra="ignore" out wants unknown keys dropped in silence.
            target.setdefault("additionalProperties", extra == "ignore")
        return document


def pydantic_document(adapter: TypeAdapter[Any], output: bool, where: str) -> dict[str, Any]:
    """Return pydantic's document for a type, its definitions under ``$defs``."""
    try:
        return adapter.json_schema(mode="serialization" if output else "validation", schema_generator=_Documents)
    except PydanticUserError as error:
        raise refuse(where, f"pydantic cannot say it in JSON Schema ({_first_line(error)})", _ADVICE) from error


_ADVICE = "use a type that JSON can carry, or give the field a json_schema"


def pydantic_adapter(tp: Any, names: dict[str, Any], where: str) -> TypeAdapter[Any]:
    """Return pydantic's own entry to a type; names are those of whoever defines the tool."""
    try:
        if is_class(tp) and issubclass(tp, BaseModel) and not tp.__pydantic_complete__:
            tp.model_rebuild(_types_namespace=names, raise_errors=True)
        return TypeAdapter(tp)
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError) as error:
        what = f"pydantic does not take {type_name(tp)} ({_first_line(error)})"
        raise refuse(where, what, _ADVICE) from error


def pydantic_shape(adapter: TypeAdapter[Any], tp: Any, document: dict[str, Any], output: bool) -> Shape:
    """Return the shape of a type that pydantic handles.

    What a body returned may hold computed fields; they are dropped where it is read back.
    """
    validator, serializer = adapter.validator, adapter.serializer
    cls = tp if is_class(tp) else None

    def load(value: Any) -> Any:
        # Fields of any JSON would keep the frozen snapshot; the body gets containers it may change.
        plain = thaw(value)
        try:
            return validator.validate_python(plain)
        except ValidationError as error:
            if output and _drop_computed(plain, error):
                return validator.validate_python(plain)
            raise Fault(_problems(error, plain)) from error

    def dump(value: Any) -> Any:
        if cls is not None and not isinstance(value, cls):
            return value
        try:
            return serializer.to_python(value, mode="json", by_alias=True, warnings=False)
        except (PydanticSerializationError, ValueError, TypeError) as error:
            raise Fault.of(_first_line(error)) from error

    return Shape(document, Codec(load, dump, lambda value: cls is None or isinstance(value, cls)))


def _drop_computed(value: Any, error: ValidationError) -> bool:
    """Remove the keys that the model computes itself and refuses to be given; say whether that was all."""
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        if item["type"] != "extra_forbidden":
            return False
        place = value
        path = _path_in(value, item["loc"])
        for segment in path[:-1]:
            place = place[segment]
        del place[path[-1]]
    return True


def _problems(error: ValidationError, value: Any) -> list[Problem]:
    return [
        Problem(_message(item), _path_in(value, item["loc"]))
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _message(item: Any) -> str:
    text = item["msg"]
    for prefix in ("Value error, ", "Assertion failed, "):
        text = text.removeprefix(prefix)
    return text


def _path_in(value: Any, location: tuple[str | int, ...]) -> list[str | int]:
    """Return the part of pydantic's location that is a path: union branches and validators are named in it too."""
    path: list[str | int] = []
    for index, segment in enumerate(location):
        if isinstance(segment, str) and is_dict(value):
            if segment in value:
                value = value[segment]
                path.append(segment)
            elif index == len(location) - 1:
                path.append(segment)
        elif isinstance(segment, int) and is_list(value) and segment < len(value):
            value = value[segment]
            path.append(segment)
    return path


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]
