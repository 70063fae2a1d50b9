"""What a model reads of a run. CODE section J."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from tests.support.json_strategies import json_values

from dsh_tools.code_mode import failure_message, pretty_json, render_run
from dsh_tools.code_runtime import CodeRunError
from dsh_tools.content import content_text
from dsh_tools.json_value import parse_json, snapshot

ABSENT = object()


def rendered(logs: list[str], result: Any = ABSENT) -> str:
    value: dict[str, Any] = {"logs": logs}
    if result is not ABSENT:
        value["result"] = result
    return content_text(render_run({}, snapshot(value)))


@pytest.mark.parametrize(
    ("logs", "result", "text"),
    [
        # CODE-121, 122, 123: parts that are empty as text are left out
        ([], ABSENT, "(run_code completed with no output)"),
        ([""], ABSENT, "(run_code completed with no output)"),
        ([], "", "(run_code completed with no output)"),
        ([""], "", "(run_code completed with no output)"),
        (["", ""], ABSENT, "\n"),
        (["a", "b"], ABSENT, "a\nb"),
        (["a"], "b\nc", "a\nb\nc"),
        ([""], "b", "b"),
        ([], None, "null"),
        ([], {}, "{}"),
        ([], [], "[]"),
        ([], False, "false"),
        ([], 0, "0"),
        ([], {"a": [1, {}], "b": None}, '{\n  "a": [\n    1,\n    {}\n  ],\n  "b": null\n}'),
        ([], "\ud800 raw", "\ud800 raw"),
        ([], ["\ud800", "é", 'a"b'], '[\n  "\\ud800",\n  "é",\n  "a\\"b"\n]'),
    ],
)
def test_success_text(logs: list[str], result: Any, text: str) -> None:
    assert rendered(logs, result) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        # CODE-125: numbers in JavaScript's form, integers exactly
        (5.0, "5"),
        (1e21, "1e+21"),
        (1e-7, "1e-7"),
        (1e16, "10000000000000000"),
        (1.5, "1.5"),
        (-0.25, "-0.25"),
        (2**64, "18446744073709551616"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert rendered([], value) == text
    assert rendered([], [value]) == f"[\n  {text}\n]"


def test_indentation_is_capped() -> None:
    # CODE-124
    deepest = "[1,2]"
    expected = "\n".join(" " * (2 * depth) + "[" for depth in range(5))
    expected += "\n" + " " * 10 + deepest + "\n"
    expected += "\n".join(" " * (2 * depth) + "]" for depth in reversed(range(5)))
    assert pretty_json(snapshot([[[[[[1, 2]]]]]])) == expected
    assert '{"a":[1],"b":2}' in pretty_json(snapshot([[[[[{"a": [1], "b": 2}]]]]]))


def test_deep_values_are_small_and_need_no_stack() -> None:
    # CODE-124
    value: Any = []
    for _ in range(5000):
        value = [value]
    text = pretty_json(snapshot(value))
    assert len(text) < 11_000
    assert max(len(line) - len(line.lstrip()) for line in text.split("\n")) == 10


@given(json_values)
def test_pretty_json_is_json(value: Any) -> None:
    # CODE-123, 124
    text = pretty_json(snapshot(value))
    assert pretty_json(parse_json(text)) == text


@pytest.mark.parametrize(
    ("error", "logs", "message"),
    [
        # CODE-126, PIPE-228
        (CodeRunError("exception", "Error: x"), [], "code run failed (exception): Error: x"),
        (
            CodeRunError("output-limit", "outer output exceeded 8 bytes"),
            ["captured before failure"],
            "code run failed (output-limit): outer output exceeded 8 bytes\nCaptured output:\ncaptured before failure",
        ),
        (CodeRunError("abort", "stop"), [""], "code run failed (abort): stop\nCaptured output:\n"),
        (CodeRunError("timeout", "t"), ["a", "b"], "code run failed (timeout): t\nCaptured output:\na\nb"),
    ],
)
def test_failure_message(error: CodeRunError, logs: list[str], message: str) -> None:
    assert failure_message(error, logs) == message
