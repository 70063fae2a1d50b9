"""The tool ``run_code``: its definition in each language, and its card (CODE section D)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from ..errors import CodeRuntimeError
from ..json_value import snapshot
from ..tools.cards import GenericCall
from ..tools.definition import OutputSpec, ToolDefinition
from ..tools.registered import RegisteredTool, ToolSchema, compile_definition
from ..tools.registry import RESERVED_NAME
from .render import render_run

__all__ = ["OUTPUT_SCHEMA", "RunCodeEntry"]

_DEFAULT_LANGUAGE: Final = "typescript"
_TITLE_LENGTH = 60

OUTPUT_SCHEMA: Final[Any] = snapshot(
    {
        "type": "object",
        "properties": {"logs": {"type": "array", "items": {"type": "string"}}, "result": {}},
        "required": ["logs"],
        "additionalProperties": False,
    }
)
"""The canonical output: what was printed, and what was returned unless it was nothing (CODE-35)."""

_DESCRIPTION_TEXT: Final = (
    "What the program does, in 5 to 10 words and the active voice. Shown to the user in place of the code."
)

_ABOUT: Final = {
    "typescript": (
        "Run a TypeScript program that calls tools. Give the program as `code`, and say in `description` what it does. "
        "`code` is the body of an async function: top-level `await` and `return` work. Call tools as "
        "`await tools.name(args)`. Only what the program prints with `console.log` or returns is output; images in the "
        "results of its calls are attached afterwards. Erasable syntax only: types are stripped, not checked.",
        "The program: the body of an async TypeScript function.",
    ),
    "python": (
        "Run a Python program that calls tools. Give the program as `code`, and say in `description` what it does. "
        "`code` is the body of an async function: top-level `await` and `return` work. Call tools as "
        "`await tools.name(args)`. Only what the program writes with `print(...)` or gives back with `return <value>` "
        "is output; images in the results of its calls are attached afterwards.",
        "The program: the body of an async Python function.",
    ),
}


def _definition(language: str, execute: Callable[[Any, Any], Any]) -> ToolDefinition:
    description, code = _ABOUT[language]
    return ToolDefinition(
        name=RESERVED_NAME,
        description=description,
        parameters={
            "type": "object",
            "properties": {
                "code": {"type": "string", "description": code},
                "description": {"type": "string", "description": _DESCRIPTION_TEXT},
            },
            "required": ["code"],
        },
        output=OutputSpec(OUTPUT_SCHEMA, render_run),
        execute=execute,
        present_call=_present_call,
    )


def _present_call(args: Any) -> GenericCall | None:
    """The card: what the program is for, or how it begins; and the program itself (CODE-34, D1)."""
    if not isinstance(args, dict):
        return None
    fields = cast("dict[str, object]", args)
    code, description = fields.get("code"), fields.get("description")
    if not isinstance(code, str) or not isinstance(description, str | None):
        return None
    if description is None or not description.strip():
        lines = (line.strip() for line in code.splitlines())
        description = next((line[:_TITLE_LENGTH] for line in lines if line), RESERVED_NAME)
    return GenericCall(description, "execute", code)


class RunCodeEntry(RegisteredTool):
    """``run_code`` as the registry keeps it: its texts follow the language of the runtime there is (CODE-13).

    Parameters:
        execute: the body.
        language: gives the language of the mounted runtime, None without one.
    """

    __slots__ = ("_flavors", "_language")

    def __init__(self, execute: Callable[[Any, Any], Any], language: Callable[[], str | None]) -> None:
        self._language = language
        self._flavors = {name: compile_definition(_definition(name, execute)) for name in _ABOUT}
        default = self._flavors[_DEFAULT_LANGUAGE]
        for name in RegisteredTool.__slots__:
            if name not in ("definition", "schema"):
                setattr(self, name, getattr(default, name))
        self.owner = "code-mode"

    @property
    def definition(self) -> ToolDefinition:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The definition in the language of the mounted runtime; in TypeScript without one.

        Raises:
            CodeRuntimeError: the runtime's language is not known.
        """
        return self._flavor().definition

    @property
    def schema(self) -> ToolSchema:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What a model is told, in that language. Raises as :attr:`definition`."""
        return self._flavor().schema

    def _flavor(self) -> RegisteredTool:
        language = self._language()
        if language is None:
            language = _DEFAULT_LANGUAGE
        if language not in self._flavors:
            known = ", ".join(f'"{name}"' for name in self._flavors)
            raise CodeRuntimeError(
                f'no run_code schema flavor registered for runtime language "{language}" (known: {known})'
            )
        return self._flavors[language]
