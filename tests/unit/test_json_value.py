"""Lossless JSON: snapshots, frozen containers, text in and out."""

from __future__ import annotations

import copy
import datetime
import enum
import hashlib
import json
import pickle
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from dsh_tools.errors import JsonTextError, LossyJsonError
from dsh_tools.json_value import (
    MAX_TEXT_DEPTH,
    FrozenDict,
    FrozenList,
    JsonValue,
    canonical_text,
    depth_of,
    digest,
    exceeds_depth,
    is_lossless,
    js_number,
    js_string,
    js_text,
    literal_text,
    parse_json,
    snapshot,
    snapshot_depth,
    thaw,
    to_json_text,
)

DEEP = 100_000


class Level(enum.IntEnum):
    """An integer that is not a plain one."""

    LOW = 1


class Text(str):
    """A string that is not a plain one."""


class Items(list):
    """A list that is not a plain one."""


def nest(depth: int, base: Any, key: str | None = None) -> Any:
    """Wrap a value in lists, or in records with one key."""
    for _ in range(depth):
        base = [base] if key is None else {key: base}
    return base


def near_the_stack_limit(call: Callable[[], Any], spare: int = 25) -> Any:
    """Call something with only a few frames left on the stack."""
    used = 0
    frame: Any = sys._getframe()
    while frame is not None:
        frame, used = frame.f_back, used + 1

    def dig(levels: int) -> Any:
        return dig(levels - 1) if levels > 0 else call()

    return dig(sys.getrecursionlimit() - used - spare)


# ── snapshots ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        2**53 + 1,
        2**70,
        10**400,
        1.5,
        5e-324,
        1.7976931348623157e308,
        "",
        "\x00",
        "\ud800",
        [],
        {},
    ],
)
def test_scalars_and_empty_containers_are_lossless(value: Any):
    # SCHEMA-A1; SCHEMA-A3 yields to exact integers (D24)
    frozen = snapshot(value)
    assert frozen == value
    assert is_lossless(value)
    assert snapshot([value]) == [value]
    assert snapshot({"k": value}) == {"k": value}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-0.0, "-0.0"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (float("-inf"), "inf"),
        ((1, 2), "tuple"),
        ({1, 2}, "set"),
        (b"x", "bytes"),
        (bytearray(b"x"), "bytearray"),
        (datetime.date(2020, 1, 1), "date"),
        (Decimal(1), "Decimal"),
        (object(), "object"),
        (lambda: None, "function"),
        (Level.LOW, "Level is a subclass of int"),
        (Text("x"), "Text is a subclass of str"),
        (Items([1]), "Items is a subclass of list"),
        (OrderedDict(a=1), "OrderedDict is a subclass of dict"),
        (defaultdict(list), "defaultdict is a subclass of dict"),
        (msgspec.UNSET, "UnsetType"),
        (1j, "complex"),
    ],
)
def test_everything_else_is_refused_with_its_path(value: Any, reason: str):
    # SCHEMA-A2, A5: subclasses are refused too (D26)
    for wrapped, path in [
        (value, ""),
        ([0, value], "[1]"),
        ({"a": value}, "a"),
        ({"a": {"b": [1, {"c": value}]}}, "a.b[1].c"),
        (nest(60, value), "[0]" * 60),
    ]:
        assert not is_lossless(wrapped)
        with pytest.raises(LossyJsonError) as caught:
            snapshot(wrapped)
        assert caught.value.path == path
        assert reason in caught.value.reason
        assert str(caught.value) == f"{path or 'value'}: {caught.value.reason}"


@pytest.mark.parametrize("key", [1, None, True, 1.5, (1,), Text("a"), b"a"])
def test_keys_must_be_plain_strings(key: Any):
    # SCHEMA-A5
    with pytest.raises(LossyJsonError) as caught:
        snapshot({"a": [{key: 1}]})
    assert caught.value.path == "a[0]"
    assert "is not a string" in caught.value.reason


def test_a_key_whose_repr_fails_is_still_named():
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(LossyJsonError, match="Hostile"):
        snapshot({Hostile(): 1})


def test_cycles_are_refused_and_shared_values_are_not():
    # SCHEMA-A7
    ring: Any = {"a": []}
    ring["a"].append(ring)
    with pytest.raises(LossyJsonError) as caught:
        snapshot(ring)
    assert caught.value.path == "a[0]"
    assert caught.value.reason == "circular reference"
    shared = [1]
    frozen: Any = snapshot({"x": shared, "y": [shared, shared]})
    assert frozen == {"x": [1], "y": [[1], [1]]}


def test_a_deep_cycle_is_refused():
    ring: list[Any] = []
    ring.append(nest(500, ring))
    with pytest.raises(LossyJsonError, match="circular"):
        snapshot(ring)


def test_special_names_are_ordinary_keys_and_order_is_declaration_order():
    # SCHEMA-A8; SCHEMA-A9 yields to declaration order (D2)
    value = {"__proto__": 1, "b": 2, "10": 3, "2": 4, "toString": 5, "": 6}
    frozen: Any = snapshot(value)
    assert list(frozen) == list(value)
    assert to_json_text(value) == '{"__proto__":1,"b":2,"10":3,"2":4,"toString":5,"":6}'


def test_plain_records_are_copied_and_nothing_is_called_on_them():
    # SCHEMA-A6, A11: to_json hooks and the like are ignored, and the copy is detached
    value: Any = {"toJSON": "kept", "list": [{"n": 1}]}
    frozen: Any = snapshot(value)
    value["list"][0]["n"] = 2
    value["more"] = 3
    assert frozen == {"toJSON": "kept", "list": [{"n": 1}]}


def test_a_snapshot_refuses_every_mutation():
    frozen: Any = snapshot({"a": {"b": 1}, "l": [3, 1, 2]})
    record, items = frozen["a"], frozen["l"]
    for mutate in [
        lambda: record.__setitem__("b", 2),
        lambda: record.__delitem__("b"),
        record.clear,
        lambda: record.pop("b"),
        record.popitem,
        lambda: record.setdefault("c", 1),
        lambda: record.update(c=1),
        lambda: record.__ior__({"c": 1}),
        lambda: items.__setitem__(0, 1),
        lambda: items.__delitem__(0),
        lambda: items.append(1),
        lambda: items.extend([1]),
        lambda: items.insert(0, 1),
        items.pop,
        lambda: items.remove(3),
        items.clear,
        items.sort,
        items.reverse,
        lambda: items.__iadd__([1]),
        lambda: items.__imul__(2),
    ]:
        with pytest.raises(TypeError, match="frozen"):
            mutate()
    assert frozen == {"a": {"b": 1}, "l": [3, 1, 2]}


def test_frozen_containers_are_dicts_and_lists_in_every_other_respect():
    value = {"a": [1, {"b": None}], "t": "x"}
    frozen: Any = snapshot(value)
    assert isinstance(frozen, dict)
    assert isinstance(frozen["a"], list)
    assert frozen == value
    assert value == frozen
    assert json.loads(json.dumps(frozen)) == value
    assert msgspec.json.decode(msgspec.json.encode(frozen)) == value
    assert copy.copy(frozen) == copy.deepcopy(frozen) == value
    assert pickle.loads(pickle.dumps(frozen)) == value
    assert type(pickle.loads(pickle.dumps(frozen))) is FrozenDict
    assert {**frozen, "z": 1} == {**value, "z": 1}
    assert type(frozen | {}) is dict
    assert [*frozen["a"]] == value["a"]


def test_a_frozen_value_is_its_own_snapshot():
    frozen: Any = snapshot({"a": [1]})
    assert snapshot(frozen) is frozen
    assert snapshot({"again": frozen}) == {"again": {"a": [1]}}
    assert snapshot([frozen, 1.5])[0] is frozen  # type: ignore[index]


def test_thaw_gives_a_plain_copy_to_change():
    frozen: Any = snapshot({"a": [{"b": 1}]})
    plain = thaw(frozen)
    assert type(plain) is dict
    assert type(plain["a"]) is list
    assert type(plain["a"][0]) is dict
    plain["a"].append(2)
    assert frozen == {"a": [{"b": 1}]}
    assert thaw("x") == "x"


@pytest.mark.parametrize("key", [None, "k"])
def test_depth_costs_memory_only(key: str | None):
    # SCHEMA-A10
    value = nest(DEEP, 1, key)
    frozen, depth = snapshot_depth(value)
    assert depth == DEEP
    assert depth_of(thaw(frozen)) == DEEP
    assert to_json_text(frozen).count("1") == 1
    assert digest(frozen) == digest(value)
    with pytest.raises(LossyJsonError):
        snapshot(nest(DEEP, -0.0, key))
    del value, frozen


def test_the_stack_of_the_caller_does_not_matter():
    value = nest(39, [1.5, {"a": []}])
    assert depth_of(near_the_stack_limit(lambda: snapshot(value))) == 42


@pytest.mark.parametrize(("value", "depth"), [(1, 0), ("x", 0), ([], 1), ({}, 1), ([[], {"a": [1]}], 3)])
def test_depth_counts_containers(value: Any, depth: int):
    assert depth_of(value) == depth
    assert snapshot_depth(value)[1] == depth
    assert not exceeds_depth(value, depth)
    assert depth == 0 or exceeds_depth(value, depth - 1)


# ── text in ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        (" \n\t", {}),
        ("-0", 0),
        ("1.0", 1.0),
        ("9007199254740993", 9007199254740993),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ('{"a":1,"a":2}', {"a": 2}),
        ('"\\ud800"', "\ud800"),
        ('"\\udc00\\ud800"', "\udc00\ud800"),
        ('"\\ud83d\\ude00"', "😀"),
        (
            '["\\ud800", "\\ud83d\\ude00", true, null, -1.5e3, {"k": []}]',
            ["\ud800", "😀", True, None, -1500.0, {"k": []}],
        ),
        ('"{\\"a\\":1}"', '{"a":1}'),
        ("1" * 4300, int("1" * 4300)),
        (b'{"a":[1]}', {"a": [1]}),
        (" [1] ", [1]),
    ],
)
def test_text_that_is_read(text: str | bytes, value: Any):
    parsed = parse_json(text)
    assert parsed == value
    assert type(parsed) is type(snapshot(value))


def test_parsed_values_are_frozen():
    for text in ('{"a":[{"b":1}]}', '{"a":[{"b":"\\ud800"}]}', "[" * 100 + "]" * 100):
        parsed: Any = parse_json(text)
        assert type(parsed) in (FrozenDict, FrozenList)
        assert snapshot(parsed) is parsed


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ('{"a":1}{"b":2}', "trailing data", 7),
        ("[1]x", "trailing data", 3),
        ('{"x":1,}', "trailing comma before '}'", 6),
        ("[1, ]", "trailing comma before ']'", 2),
        ('{"path": "a.tx', "the text ends too early, inside a string", 14),
        ("[1,2", "the text ends too early, inside a list", 4),
        ("[", "the text ends too early, inside a list", 1),
        ("[1,", "the text ends too early, inside a list", 3),
        ("{", "the text ends too early, inside an object", 1),
        ('{"a"', "the text ends too early, inside an object", 4),
        ('{"a":', "the text ends too early, inside an object", 5),
        ("tru", "the text ends too early", 3),
        ('"\\', "the text ends too early, inside an escape", 2),
        ('{"seconds": NaN}', "NaN is not JSON", 12),
        ('{"seconds": -Infinity}', "-Infinity is not JSON", 12),
        ('{"seconds": 1e999}', "number 1e999 is out of range", 12),
        ('["x", True]', "True is not JSON; write true", 6),
        ("[None]", "None is not JSON; write null", 1),
        ("{'a':1}", 'unexpected character "\'", expected a key in double quotes', 1),
        ('{"a" 1}', "unexpected character '1', expected ':' after a key", 5),
        ("[1 2]", "unexpected character '2', expected ',' or ']'", 3),
        ('{"a":1 "b":2}', "unexpected character '\"', expected ',' or '}'", 7),
        ("[1,,2]", "unexpected character ',', expected a value", 3),
        ('{"view_range": \\n[1,2]}', "unexpected character '\\\\', expected a value", 15),
        ("\ufeff{}", "unexpected character U+FEFF, expected a value", 0),
        ("01", "malformed number", 0),
        ("1.", "malformed number", 0),
        ("[1.5.2]", "malformed number", 1),
        ("-", "unexpected character '-', expected a value", 0),
        ('"\\q"', "invalid escape \\q", 1),
        ('"\\u12g4"', "invalid escape \\u", 1),
        ('"a\nb"', "unescaped control character U+000A in a string", 2),
        ("1" * 4301, "an integer of 4301 digits is too long to read", 0),
        ("[" * 600 + "]" * 600, "nested 600 levels deep; at most 512 are read", 512),
        ('{"a":' * 90000 + "1" + "}" * 90000, "nested 90000 levels deep; at most 512 are read", 2560),
        (b'{"a":"\xff"}', "the bytes are not UTF-8", 6),
    ],
)
def test_text_that_is_not_json_says_what_is_wrong_and_where(text: str | bytes, message: str, offset: int):
    with pytest.raises(JsonTextError) as caught:
        parse_json(text)
    error = caught.value
    assert error.reason.rstrip(",") == message
    assert error.offset == offset
    assert f" at char {offset}" in str(error)
    assert error.code == "INVALID_JSON"
    assert len(error.snippet) < 120
    assert "\n" not in str(error)


def test_a_negative_zero_is_named_by_its_path():
    # SCHEMA-A2 and decision D39
    with pytest.raises(JsonTextError) as caught:
        parse_json('{"a":[1,-0.0]}')
    assert (caught.value.path, caught.value.offset) == ("a[1]", None)
    assert "-0.0" in str(caught.value)
    with pytest.raises(JsonTextError):
        parse_json("-1e-400")


def test_the_depth_limit_of_text_is_exact_wherever_the_caller_stands():
    # D39
    fits = "[" * MAX_TEXT_DEPTH + "]" * MAX_TEXT_DEPTH
    for spare in (25, 300, 700):
        assert depth_of(near_the_stack_limit(lambda: parse_json(fits), spare)) == MAX_TEXT_DEPTH
        with pytest.raises(JsonTextError, match="513 levels"):
            near_the_stack_limit(lambda: parse_json(f"[{fits}]"), spare)


# ── text out ───────────────────────────────────────────────────────────────────


def test_text_is_compact_or_indented():
    value = {"a": [1, {"b": "é"}], "e": {}, "l": [], "f": 1e16}
    assert to_json_text(value) == '{"a":[1,{"b":"é"}],"e":{},"l":[],"f":1e16}'
    assert to_json_text(value, indent=2) == json.dumps(value, indent=2, ensure_ascii=False).replace("1e+16", "1e16")


def test_the_slow_writer_writes_what_the_fast_one_does():
    value: Any = {"s": ['é\u2028\x7f\x1f"\\/', 1.5, 1e16, -7, True, False, None, {"k": {}}], "l": [[]]}
    for indent in (None, 0, 3):
        fast = to_json_text(value, indent=indent)
        slow = to_json_text([value, "\ud800"], indent=indent)
        assert json.loads(slow) == [value, "\ud800"]
        assert json.loads(fast) == value
        if indent is None:
            assert slow == f'[{fast},"\\ud800"]'


def test_text_of_anything_lossless_is_valid():
    assert to_json_text("\ud800x") == '"\\ud800x"'
    assert to_json_text({"\udfff": 1}) == '{"\\udfff":1}'
    assert to_json_text(10**5000) == "1" + "0" * 5000
    assert to_json_text(-(2**70)) == str(-(2**70))
    assert len(to_json_text(nest(DEEP, 1), indent=None)) == 2 * DEEP + 1


@pytest.mark.parametrize("key", [None, "k"])
def test_indentation_does_not_grow_with_the_square_of_the_depth(key: str | None):
    # 64 levels are indented; what is below them is on one line
    value = nest(64, 1, key)
    assert to_json_text(value, indent=2) == json.dumps(value, indent=2)
    for depth in (65, 500, DEEP):
        text = to_json_text(nest(depth, 1, key), indent=2)
        assert len(text.splitlines()) == 129
        assert len(text) < 20_000 + 10 * depth
    deepest = to_json_text(nest(66, [1, 2], key), indent=2).splitlines()[64].strip()
    assert deepest == ("[[[1,2]]]" if key is None else '"k": {"k": {"k": [1,2]}}')


@pytest.mark.parametrize("value", [float("nan"), {1}, datetime.datetime(2020, 1, 1), {"a": -0.0}, b"x"])
def test_text_of_something_lossy_is_refused(value: Any):
    for write in (to_json_text, canonical_text, digest, js_text):
        with pytest.raises(LossyJsonError):
            write(value)


def test_canonical_text_has_one_form_for_one_value():
    assert canonical_text({"b": 1.0, "a": [1e21, 1e-7, 2**70]}) == f'{{"a":[1e+21,1e-7,{2**70}],"b":1}}'
    assert digest({"a": 1, "b": [True]}) == digest({"b": [True], "a": 1.0})
    assert digest({"a": 1}) != digest({"a": True})
    assert digest(["é"]) == hashlib.sha256('["é"]'.encode()).hexdigest()
    # By UTF-16 code units an astral name comes before U+E000 and above.
    assert canonical_text({"\ue000": 1, "🙂": 2}) == '{"🙂":2,"\ue000":1}'


def test_js_text_keeps_declaration_order():
    assert js_text({"b": 1.0, "a": [1e21]}) == '{"b":1,"a":[1e+21]}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (1e-6, "0.000001"),
        (9.9e-7, "9.9e-7"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.234e25, "1.234e+25"),
        (123456.789, "123456.789"),
        (12345678901234567890, "12345678901234567000"),
        (1e16, "10000000000000000"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740992"),
        (10**400, "Infinity"),
        (-(10**400), "-Infinity"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (-0.0, "0"),
        (0.1 + 0.2, "0.30000000000000004"),
    ],
)
def test_numbers_as_javascript_writes_them(value: int | float, text: str):
    # SCHEMA-D7
    assert js_number(value) == text


def test_strings_as_javascript_writes_them():
    # SCHEMA-D7
    assert (
        js_string('a"\\/\b\f\n\r\t\x00\x1f\x7f\x85é\u2028🙂')
        == '"a\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\x85é\u2028🙂"'
    )
    assert js_string("\ud800\udfff") == '"\\ud800\\udfff"'


def test_literals_are_exact_for_integers():
    # SCHEMA-D7 and decision D24
    assert [literal_text(v) for v in (None, True, False, "a", 1.0, 2**53 + 1)] == [
        "null",
        "true",
        "false",
        '"a"',
        "1",
        "9007199254740993",
    ]


def test_the_value_type_can_be_part_of_a_union_at_run_time():
    assert (JsonValue | None) == JsonValue
    assert bytes in (JsonValue | bytes).__args__


def test_a_message_shows_only_the_beginning_of_a_long_token():
    for text in ("k" * 1_000_000, "1" * 500 + "e" + "9" * 1_000_000):
        with pytest.raises(JsonTextError) as caught:
            parse_json(text)
        assert len(str(caught.value)) < 200
