"""What holds for every JSON value: snapshots are equal, independent and frozen; text goes there and back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.json_strategies import json_values, texts

from dsh_tools.errors import JsonTextError, LossyJsonError
from dsh_tools.json_value import (
    CONTAINER_TYPES,
    FrozenDict,
    FrozenList,
    canonical_text,
    depth_of,
    digest,
    is_lossless,
    js_number,
    js_text,
    parse_json,
    snapshot,
    snapshot_depth,
    thaw,
    to_json_text,
)

MODERATE = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
lossy = st.sampled_from([float("nan"), float("inf"), -0.0, (1,), {1}, b"x", object(), msgspec.UNSET, 1j])
host_values = st.recursive(
    st.one_of(json_values, lossy),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(texts, st.integers()), inner, max_size=3),
    ),
    max_leaves=6,
)


def containers(value: Any) -> list[Any]:
    found: list[Any] = []
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, (dict, list)):
            found.append(current)
            pending.extend(current.values() if isinstance(current, dict) else current)
    return found


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types: ``1``, ``1.0`` and ``True`` are three values here."""
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


@MODERATE
@given(json_values)
def test_a_snapshot_is_equal_independent_and_frozen(value: Any):
    # SCHEMA-A1, A11
    before = thaw(value)
    frozen, depth = snapshot_depth(value)
    assert same(frozen, value)
    assert depth == depth_of(value)
    assert all(type(container) in (FrozenDict, FrozenList) for container in containers(frozen))
    assert not {id(c) for c in containers(frozen)} & {id(c) for c in containers(value)}
    for container in containers(value):
        container.clear()
    assert same(frozen, before)
    for container in containers(frozen):
        with pytest.raises(TypeError):
            container.clear()


@MODERATE
@given(json_values, st.integers(35, 60))
def test_the_slow_way_and_the_fast_way_give_the_same(value: Any, depth: int):
    deep = value
    for _ in range(depth):
        deep = {"k": [deep]}
    inner: Any = snapshot(deep)
    for _ in range(depth):
        inner = inner["k"][0]
    assert same(inner, snapshot(value))
    assert same(inner, value)


def is_plain_json(value: Any) -> bool:
    """The rule of SCHEMA-A1, written down a second time."""
    if value is None or type(value) in (bool, int, str):
        return True
    if type(value) is float:
        return value - value == 0 and str(value) != "-0.0"
    if type(value) is list:
        return all(map(is_plain_json, value))
    return type(value) is dict and all(type(key) is str for key in value) and all(map(is_plain_json, value.values()))


@MODERATE
@given(host_values)
def test_exactly_the_plain_values_are_lossless(value: Any):
    # SCHEMA-A1, A2, A5
    assert is_lossless(value) == is_plain_json(value)
    if not is_lossless(value):
        with pytest.raises(LossyJsonError) as caught:
            snapshot(value)
        assert caught.value.reason


@MODERATE
@given(json_values, st.sampled_from([None, 0, 2]))
def test_text_goes_there_and_back(value: Any, indent: int | None):
    text = to_json_text(value, indent=indent)
    text.encode("utf-8")
    assert json.loads(text) == value
    assert same(parse_json(text), value)
    assert canonical_text(parse_json(text)) == canonical_text(value)


@MODERATE
@given(json_values)
def test_canonical_text_is_blind_to_order_and_to_the_form_of_numbers(value: Any):
    def shuffled(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: shuffled(item[key]) for key in reversed(item)}
        if isinstance(item, list):
            return [shuffled(child) for child in item]
        return int(item) if isinstance(item, float) and item.is_integer() and abs(item) < 2**53 else item

    assert digest(shuffled(value)) == digest(value)


@MODERATE
@given(st.floats(allow_nan=False, allow_infinity=False))
@example(1e21)
@example(123456789012345680000.0)
def test_javascript_numbers_read_back_as_the_same_double(number: float):
    # SCHEMA-D7
    text = js_number(number)
    assert float(text) == number
    assert not text.endswith(".0")
    assert ("e" in text) == (number != 0 and not 1e-6 <= abs(number) < 1e21)


@settings(MODERATE, max_examples=400)
@given(
    st.one_of(
        st.text(st.sampled_from('{}[]",:\\ud8009ntruefalsenul0123.-+eE \n')),
        st.builds(
            lambda value, at, junk: (lambda t: t[: at % (len(t) + 1)] + junk + t[at % (len(t) + 1) :])(js_text(value)),
            json_values,
            st.integers(0, 200),
            st.sampled_from(["", "}", ",", '"', "\\", "\x01", "NaN", "1", " ", "\ud800"]),
        ),
    )
)
def test_whatever_a_model_writes_is_read_as_the_standard_library_reads_it_or_refused(text: str):
    try:
        expected = json.loads(text, parse_constant=lambda name: float("nan"))
        accepted = is_lossless(expected)
    except (ValueError, RecursionError):
        expected, accepted = None, not text.strip()
    try:
        parsed = parse_json(text)
    except JsonTextError as error:
        assert not accepted
        assert error.message
        assert error.offset is None or 0 <= error.offset <= len(text)
    else:
        assert accepted
        if text.strip():
            assert same(parsed, expected)
        assert type(parsed) not in CONTAINER_TYPES or snapshot(parsed) is parsed


@MODERATE
@given(json_values)
def test_the_short_way_to_canonical_text_is_the_long_one(value: Any):
    # A float anywhere takes the long way for all of it.
    nested = canonical_text([value, 0.5])
    assert canonical_text(value) == nested[1 : -len(",0.5]")]


@given(
    st.dictionaries(
        st.text(max_size=6),
        st.none() | st.booleans() | st.integers() | st.integers(2**62, 2**80) | st.floats(allow_nan=False) | st.text(),
        max_size=6,
    )
)
def test_flat_values_have_no_canonical_form_of_their_own(value: Any):
    # Flat records take a shorter way; as part of something larger they take the long one.
    try:
        nested = canonical_text([value])
    except LossyJsonError:
        return
    assert canonical_text(value) == nested[1:-1]
    assert canonical_text(snapshot(dict(reversed(value.items())))) == nested[1:-1]
