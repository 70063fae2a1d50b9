"""One party and a 10,000-level nest, in a process of its own: some do not survive it.

Prints microseconds, or how it ended.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from subject import nest, nest_spec

DEPTH = int(sys.argv[2])
RECURSIVE = {"$defs": {"J": {"type": "array", "items": {"$ref": "#/$defs/J"}}}, "$ref": "#/$defs/J"}


def ours_plain() -> Callable[[Any], Any]:
    from dsh_tools.schema import compile_value

    return compile_value(nest_spec(DEPTH)).accepts


def ours_any() -> Callable[[Any], Any]:
    from dsh_tools.schema import compile_value

    return compile_value({"type": "json"}).accepts


def ours_recursive() -> Callable[[Any], Any]:
    from dsh_tools.schema import ArrayNode, RefNode, Schema

    node = RefNode(name="J")
    return Schema(RECURSIVE, node, "types", definitions={"J": ArrayNode(items=node)}).accepts


def ours_raw() -> Callable[[Any], Any]:
    from dsh_tools.schema import compile_raw

    return compile_raw(RECURSIVE).violations


def rs_recursive() -> Callable[[Any], Any]:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(RECURSIVE).is_valid


def jsonschema_recursive() -> Callable[[Any], Any]:
    import jsonschema

    return jsonschema.Draft202012Validator(RECURSIVE).is_valid


def fastjsonschema_recursive() -> Callable[[Any], Any]:
    import fastjsonschema

    return fastjsonschema.compile(RECURSIVE)


def pydantic_recursive() -> Callable[[Any], Any]:
    from pydantic import TypeAdapter
    from typing_extensions import TypeAliasType

    nested = TypeAliasType("nested", "list[nested]")
    globals()["nested"] = nested
    return TypeAdapter(nested).validate_python


PARTIES: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "ours, a schema as deep": ours_plain,
    "ours, any JSON": ours_any,
    "ours, a recursive type": ours_recursive,
    "ours, a recursive raw schema": ours_raw,
    "jsonschema-rs, recursive": rs_recursive,
    "jsonschema, recursive": jsonschema_recursive,
    "fastjsonschema, recursive": fastjsonschema_recursive,
    "pydantic-core, recursive": pydantic_recursive,
}


def main() -> None:
    name = sys.argv[1]
    check = PARTIES[name]()
    value = nest(DEPTH, 1) if name == "ours, a schema as deep" else nest(DEPTH - 1, [])
    best = float("inf")
    answer: Any = None
    for _ in range(3):
        start = time.perf_counter()
        try:
            answer = check(value)
        except Exception as error:
            answer = type(error).__name__
        best = min(best, time.perf_counter() - start)
    shown = "accepted" if answer is True else f"refused: {answer[0]}" if isinstance(answer, list) and answer else answer
    shown = "accepted" if isinstance(shown, list) else shown
    print(f"{best * 1e6:.0f}\t{str(shown)[:110]}", flush=True)


if __name__ == "__main__":
    main()
