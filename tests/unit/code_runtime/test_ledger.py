from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_tools.code_runtime.ledger import Ledger, string_cost, value_cost
from dsh_tools.code_runtime.seam import CodeRunError, CodeRunResult
from dsh_tools.json_value import snapshot

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)


def wire(text: str) -> str:
    """The JSON text of a string as ECMAScript's JSON.stringify writes it."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(f"\\u{ord(char):04x}" if "\ud800" <= char <= "\udfff" else char for char in quoted)


def total(result: CodeRunResult) -> int:
    """What a result takes: the list of logs plus the value, or the message."""
    logs = "[" + ",".join(map(wire, result.logs)) + "]"
    outcome = wire(result.error.message) if result.error else wire(str(result.value))
    return len(logs.encode()) + len(outcome.encode())


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("", 2),
        ("abc", 5),
        ("€", 5),
        ('"\\', 6),
        ("\b\t\n\f\r", 12),
        ("\x00\x0b\x1f", 20),
        ("\x7f", 3),
        ("\ud800", 8),
        ("a\udc00b", 10),
        ("😀", 6),
        ("\u2028", 5),
        ("\x80", 4),
    ],
)
def test_the_cost_of_a_string(text: str, cost: int):
    # CODE-149
    assert string_cost(text) == cost


@given(ANY_TEXT)
def test_the_cost_of_a_string_is_its_json_text(text: str):
    # CODE-149
    assert string_cost(text) == len(wire(text).encode())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | ANY_TEXT,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
        max_leaves=12,
    )
)
def test_the_cost_of_a_value_is_its_json_text(value: object):
    # CODE-148
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    surrogates = sum("\ud800" <= char <= "\udfff" for char in text)
    assert value_cost(snapshot(value), 10**9) == len(text.encode("utf-8", "surrogatepass")) + 3 * surrogates


@pytest.mark.parametrize(
    ("number", "text"), [(1e16, "10000000000000000"), (1e21, "1e+21"), (1e-7, "1e-7"), (1.5, "1.5")]
)
def test_numbers_cost_what_javascript_writes(number: float, text: str):
    # CODE-148
    assert value_cost(number, 100) == len(text)


def test_a_value_of_any_depth_is_measured():
    # CODE-185
    value: object = None
    for _ in range(50_000):
        value = [value]
    assert value_cost(value, 10**9) == 100_004  # type: ignore[arg-type]


def test_measuring_stops_where_the_value_is_too_large():
    # CODE-185
    assert value_cost(["x" * 1000] * 1000, 10) > 10


def test_an_exact_fit_passes():
    # CODE-150
    assert Ledger(7).success("€") == CodeRunResult([], "€")
    assert Ledger(6).success("€").error == CodeRunError("output-limit", "ou")
    ledger = Ledger(11)
    assert ledger.log("abc")
    assert ledger.success("xy") == CodeRunResult(["abc"], "xy")
    ledger = Ledger(10)
    assert ledger.log("abc")
    result = ledger.success("xy")
    assert result.error is not None and result.error.kind == "output-limit"


def test_the_default_limit_to_the_byte():
    # CODE-150
    assert Ledger(67_108_864).success("x" * 67_108_860).error is None
    failed = Ledger(67_108_864).success("x" * 67_108_861)
    assert failed.error == CodeRunError("output-limit", "outer output exceeded 67108864 bytes")


def test_logs_are_charged_with_their_commas():
    # CODE-148
    ledger = Ledger(100)
    assert ledger.remaining == 98
    ledger.log("a")
    assert ledger.remaining == 95
    ledger.log("")
    assert ledger.remaining == 92


def test_an_overflow_drops_the_value_and_keeps_what_fits():
    # CODE-151, 152
    ledger = Ledger(300)
    index = 0
    while ledger.log(f"spam line {index}"):
        index += 1
    result = ledger.overflow()
    assert result.error == CodeRunError("output-limit", "outer output exceeded 300 bytes")
    assert result.logs == [*(f"spam line {i}" for i in range(18)), "spa"]
    assert total(result) == 300


@pytest.mark.parametrize(("cap", "message"), [(10, "outer "), (4, ""), (5, "o")])
def test_a_limit_too_small_for_the_message_cuts_it(cap: int, message: str):
    # CODE-152
    ledger = Ledger(cap)
    assert not ledger.log("x" * 100)
    assert ledger.overflow() == CodeRunResult([], error=CodeRunError("output-limit", message))


def test_a_failure_that_does_not_fit_becomes_the_limit():
    # CODE-153
    ledger = Ledger(60)
    ledger.log("kept")
    result = ledger.failure(CodeRunError("exception", "x" * 100))
    assert result.logs == ["kept"]
    assert result.error == CodeRunError("output-limit", "outer output exceeded 60 bytes")
    assert Ledger(60).failure(CodeRunError("abort", "x" * 56)).error == CodeRunError("abort", "x" * 56)


def test_a_cut_never_splits_a_character():
    # CODE-152
    ledger = Ledger(45)
    assert not ledger.log("😀" * 20)
    # 45 bytes less the message's 32: two for the list, two quotes, nine for the text, so two characters.
    assert ledger.overflow().logs == ["😀😀"]


@settings(max_examples=200)
@given(st.integers(4, 400), st.lists(ANY_TEXT, max_size=12), ANY_TEXT)
def test_no_result_is_ever_larger_than_the_limit(cap: int, lines: list[str], value: str):
    # CODE-148, 152
    ledger = Ledger(cap)
    for line in lines:
        if not ledger.log(line):
            result = ledger.overflow()
            break
    else:
        result = ledger.success(value)
    assert total(result) <= cap
    if result.error is None:
        assert (result.logs, result.value) == (lines, value)
    else:
        # Whole entries from the start, then at most a part of one.
        *whole, last = result.logs or [""]
        assert lines[: len(whole)] == whole
        assert not result.logs or lines[len(whole)].startswith(last)
