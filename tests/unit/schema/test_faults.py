"""A value with very many faults is not walked further than somebody wants to read."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_tools.schema import RawSchema, Schema, compile_parameters, compile_value, from_types
from dsh_tools.schema.raw import compile_raw

ROWS: dict[str, Any] = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
VALUE: list[Any] = [{"n": "x"}, {"n": 1}, {"n": "y"}, {"n": None}, 5]


def schemas() -> list[Schema]:
    return [
        compile_value({**ROWS, "items": {**ROWS["items"], "additionalProperties": True}}),
        compile_raw(RawSchema(ROWS).document),
        from_types(list[dict[str, int]]),
    ]


@pytest.mark.parametrize("schema", schemas(), ids=lambda schema: schema.source)
def test_the_first_violations_are_those_of_the_whole_list(schema: Schema):
    every = schema.violations(VALUE)
    assert len(every) == 4
    for most in range(1, 6):
        assert schema.violations(VALUE, most=most) == every[:most]
    assert schema.violations([{"n": 1}], most=1) == []


def test_a_union_is_counted_by_its_own_fault():
    schema = compile_parameters({"a": {"oneOf": [{"type": "integer"}, {"type": "array", "items": {"type": "null"}}]}})
    value = {"a": ["x", "y", "z"]}
    assert schema.violations(value, "", most=1) == schema.violations(value, "")
