"""The verdict of our validator is the verdict of jsonschema-rs on the compiled document, for lossless values (D41)."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from tests.support.json_strategies import json_values, near, parameter_specs, specs

from dsh_tools.json_value import js_text, snapshot, thaw
from dsh_tools.schema import ObjectNode, Schema, compile_parameters, compile_raw, compile_value
from dsh_tools.schema.validate import Validator

MODERATE = settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@st.composite
def schema_and_value(draw: st.DrawFn) -> tuple[Schema, Any]:
    """A compiled schema, and a lossless value that may or may not fit it."""
    if draw(st.booleans()):
        schema = compile_value(draw(specs))
    else:
        schema = compile_parameters(draw(parameter_specs))
    return schema, snapshot(draw(near(schema.node)))


def library_verdict(document: Any, value: Any) -> bool | None:
    """What jsonschema-rs says; None where it cannot hold the text, which lone surrogates make impossible."""
    try:
        return jsonschema_rs.Draft202012Validator(thaw(document)).is_valid(thaw(value))
    except ValueError:
        assert "\\ud" in js_text([document, value])
        return None


@MODERATE
@given(schema_and_value())
def test_our_verdict_is_the_librarys(pair: tuple[Schema, Any]):
    # SCHEMA-A4, SCHEMA-D5, SCHEMA-D6, SCHEMA-D9, SCHEMA-D12
    schema, value = pair
    own = Validator(schema.node, schema.definitions).violations(value, "value", lossless=False)
    expected = library_verdict(schema.json, value)
    if expected is not None:
        assert (own == []) == expected
    assert schema.accepts(value) == (own == [])
    assert schema.check(value) == own


@MODERATE
@given(schema_and_value())
def test_beside_something_lossy_the_messages_are_the_same(pair: tuple[Schema, Any]):
    # SCHEMA-D10, D15: without a lossless whole the careful way is taken, which asks nobody else.
    schema, value = pair
    around = Validator(ObjectNode(properties={"v": schema.node}), {})
    found = around.violations({"v": thaw(value), "lossy": UNSET}, "value", lossless=False)
    assert found == (schema.violations(value, "value.v") or ['"value" must be a lossless JSON object'])


@MODERATE
@given(schema_and_value())
def test_a_raw_schema_of_the_same_document_agrees(pair: tuple[Schema, Any]):
    schema, value = pair
    if library_verdict(schema.json, value) is None:
        return
    raw = compile_raw(schema.json)
    assert raw.accepts(value) == schema.accepts(value)
    assert (raw.violations(value) == []) == schema.accepts(value)


@MODERATE
@given(specs, json_values)
def test_compiling_is_deterministic_and_never_changes_the_spec(spec: Any, value: Any):
    before = snapshot(spec)
    first, second = compile_value(spec), compile_value(spec)
    assert first.json == second.json
    assert spec == before
    assert first.violations(snapshot(value)) == second.violations(snapshot(value))
