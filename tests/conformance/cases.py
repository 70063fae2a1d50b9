"""Running one golden case: what this implementation answers, next to what was expected."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.conformance.applicability import has_newer_unicode, reorders_keys
from tests.conformance.decoding import NoCounterpart, decode, has_numbers, in_js_order

from dsh_tools import schema as schemas
from dsh_tools.errors import JsonSchemaError, LossyJsonError, ToolArgsError
from dsh_tools.json_value import js_text, snapshot

DEFAULT_DIR = Path(__file__).parents[1] / "vectors"
_FEW = 400


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    id: str
    status: Literal["passed", "failed", "skipped"]
    detail: str = ""


def dsl_compile(given: dict[str, Any]) -> dict[str, Any]:
    compile_spec = schemas.compile_value if given["kind"] == "value" else schemas.compile_parameters
    try:
        compiled = compile_spec(given["spec"])
    except JsonSchemaError as error:
        return {"ok": False, "error": error_record(error)}
    return {"ok": True, "json": js_text(compiled.json)}


def validate_args(given: dict[str, Any]) -> dict[str, Any]:
    try:
        violations = schemas.validate_args(given["spec"], given["args"])
        compiled = schemas.compile_parameters(given["spec"])
    except JsonSchemaError as error:
        return {"ok": False, "throws": error_record(error)}
    check_compiled(compiled, given["args"], "", violations)
    answer: dict[str, Any] = {"ok": not violations, **listed(violations)}
    if violations:
        error = ToolArgsError(violations)
        answer["tool_args_error"] = {"class": type(error).__name__, "code": error.code, "message": error.message}
    return answer


def json_schema_support(given: dict[str, Any]) -> dict[str, Any]:
    check = schemas.assert_supported_json_schema if given["mode"] == "any" else schemas.assert_object_json_schema
    try:
        check(given["schema"])
    except JsonSchemaError as error:
        return {"ok": False, "error": error_record(error)}
    return {"ok": True}


def json_schema_validate(given: dict[str, Any]) -> dict[str, Any]:
    path = given.get("path", "value")
    violations = schemas.validate_json_schema_value(given["schema"], given["value"], path)
    check_compiled(schemas.compile_json_schema(given["schema"]), given["value"], path, violations)
    return {"ok": not violations, **listed(violations)}


def lossless(given: dict[str, Any]) -> dict[str, Any]:
    try:
        frozen = snapshot(given["value"])
    except LossyJsonError:
        return {"lossless": False}
    return {"lossless": True, "snapshot_json": js_text(frozen)}


def ts_types(given: dict[str, Any]) -> dict[str, Any]:
    return {"text": schemas.to_typescript(given["schema"], given.get("indent", 0))}


def py_types(given: dict[str, Any]) -> dict[str, Any]:
    return {"text": schemas.to_python(given["schema"])}


def sdk_sections(given: dict[str, Any]) -> dict[str, Any]:
    tools = [
        schemas.SdkTool(tool["name"], tool.get("description"), tool["parameters"], tool["output"])
        for tool in given["tools"]
    ]
    return {"ts": schemas.render_sdk_typescript(tools), "python": schemas.render_sdk_python(tools)}


RUNNERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "dsl_compile": dsl_compile,
    "validate_args": validate_args,
    "json_schema_support": json_schema_support,
    "json_schema_validate": json_schema_validate,
    "lossless": lossless,
    "ts_types": ts_types,
    "py_types": py_types,
    "sdk_sections": sdk_sections,
}


def check_compiled(compiled: schemas.Schema, value: Any, path: str, violations: list[str]) -> None:
    """Hold the hot path to the same answer wherever the value is lossless (D41)."""
    try:
        frozen = snapshot(value)
    except LossyJsonError:
        return
    if compiled.accepts(frozen) != (not violations) or compiled.violations(frozen, path) != violations:
        raise AssertionError("the compiled schema disagrees with validate_json_schema_value")


def error_record(error: JsonSchemaError) -> dict[str, Any]:
    record = {"class": type(error).__name__, "code": error.code, "message": error.message}
    return {**record, **listed(list(error.violations))}


def listed(violations: list[str]) -> dict[str, Any]:
    """List violations as the files do: many of them by count, ends and digest."""
    if len(violations) <= _FEW:
        return {"violations": violations}
    return {
        "violation_count": len(violations),
        "violations_first": violations[:3],
        "violations_last": violations[-2:],
        "violations_joined": "\n".join(violations),
    }


def matches(expected: Any, actual: Any) -> bool:
    """Whether an answer is the expected one; long texts are compared by their digest."""
    if isinstance(expected, dict) and set(expected) == {"$digest"}:
        return isinstance(actual, str) and matches_digest(expected["$digest"], actual)
    if isinstance(expected, dict):
        # A schema is pinned by its text, which holds the order of members as well.
        wanted = {key: item for key, item in expected.items() if key != "schema"}
        return isinstance(actual, dict) and all(matches(item, actual.get(key)) for key, item in wanted.items())
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(expected)
            and all(matches(item, other) for item, other in zip(expected, actual, strict=True))
        )
    return type(expected) is type(actual) and expected == actual


def matches_digest(digest: dict[str, Any], text: str) -> bool:
    """Compare a text with its recorded digest."""
    # The digest is of the text that may itself stand under a further digest record.
    data = text.encode("utf-8")
    return len(data) == digest["utf8_bytes"] and hashlib.sha256(data).hexdigest() == digest["sha256_utf8"]


def run_case(kind: str, case: dict[str, Any]) -> Outcome:
    """Run one case in every form its numbers may take."""
    for form in ("float", "int") if has_numbers(case["input"]) else ("int",):
        outcome = _run_form(kind, case, form)
        if outcome.status != "passed":
            return outcome
    return Outcome(case["id"], "passed")


def _run_form(kind: str, case: dict[str, Any], form: str) -> Outcome:
    try:
        given = decode(case["input"], form)
    except NoCounterpart as error:
        return Outcome(case["id"], "skipped", f"host value {error} has no counterpart")
    problem = _problem(kind, case, given)
    if problem is None:
        return Outcome(case["id"], "passed")
    if reorders_keys(given) and _problem(kind, case, in_js_order(given)) is None:
        return Outcome(case["id"], "skipped", "differs only in the order of integer-like keys (D2)")
    if has_newer_unicode(given):
        return Outcome(case["id"], "skipped", "newer Unicode tables (D23)")
    return Outcome(case["id"], "failed", problem)


def _problem(kind: str, case: dict[str, Any], given: dict[str, Any]) -> str | None:
    try:
        actual = RUNNERS[kind](given)
    except Exception as error:
        return f"raised {type(error).__name__}: {str(error)[:200]}"
    if matches(case["expected"], actual):
        return None
    return f"expected {_short(case['expected'])}, got {_short(actual)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 400 else text[:397] + "..."


def load(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the case files of a folder, by kind."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(directory.glob("*.json")):
        if path.stem in RUNNERS:
            found[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    return found
