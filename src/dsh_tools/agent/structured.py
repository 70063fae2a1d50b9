"""Ending an agent's work with a value of a given shape (HOST-245 to 248)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..content import text
from ..errors import ToolError
from ..schema import RawSchema, assert_object_json_schema, compile_json_schema
from ..tools.definition import OutputSpec, ToolDefinition
from ..tools.events import TOOL_RESULT
from ..tools.execution import CallToken, ToolExecution, ToolRunContext
from ..tools.result import ToolResult

if TYPE_CHECKING:
    from ..kernel.context import Context

__all__ = ["STRUCTURED_OUTPUT", "StructuredOutput"]

STRUCTURED_OUTPUT = "structured_output"
"""The tool an agent calls to hand its value over."""


class StructuredOutput:
    """A value an agent is asked to finish with.

    ``mount`` it in the agent's setup. The agent gets the tool ``structured_output``, whose parameters are
    the schema itself; wrong values are refused like any arguments, so the model tries again in the
    same turn. The value counts once the call's final result is a success, and for a call made by a
    program once the program's has succeeded, too (HOST-247). From then on every further call is denied (HOST-248).

    Parameters:
        schema: a JSON Schema document of the supported subset with an object root; checked here, before any
            agent exists (HOST-245).

    Raises:
        JsonSchemaError: the schema is outside the subset, or its root is no object.
    """

    def __init__(self, schema: object) -> None:
        document = schema.document if isinstance(schema, RawSchema) else schema
        assert_object_json_schema(document)
        self._schema = compile_json_schema(document)
        self._staged: dict[CallToken, Any] = {}
        self._nested: dict[CallToken, Any] = {}
        self._value: Any = UNSET

    @property
    def captured(self) -> bool:
        """Whether the agent has handed its value over."""
        return self._value is not UNSET

    @property
    def value(self) -> Any:
        """The value, frozen.

        Raises:
            ToolError: the agent ended without one.
        """
        if self._value is UNSET:
            raise ToolError("the agent ended without the result it was asked for", "NO_STRUCTURED_OUTPUT")
        return self._value

    def mount(self, ctx: Context) -> None:
        """Register tool, observer and guard on the agent's context."""
        ctx.on(TOOL_RESULT, self._settled)
        ctx.tools.guard(self._after_capture)
        ctx.tools.register(
            ToolDefinition(
                name=STRUCTURED_OUTPUT,
                description="Hand over the result you were asked for. Call it once, when you are done.",
                parameters=self._schema,
                output=OutputSpec({"type": "null"}, lambda _args, _value: text("received")),
                execute=self._stage,
            )
        )

    async def _stage(self, args: Any, run: ToolRunContext) -> None:
        self._staged[run.token] = args
        run.conclude_turn()

    def _settled(self, execution: ToolExecution, result: ToolResult) -> None:
        """Commit what was staged by this very execution, or pass it on to the call that made it (HOST-247)."""
        nested = self._nested.pop(execution.token, UNSET)
        value = self._staged.pop(execution.token, nested)
        if value is UNSET or result.is_error or self.captured:
            return
        if execution.parent is None:
            self._value = value
        else:
            self._nested[execution.parent] = value

    def _after_capture(self, execution: ToolExecution) -> str | None:
        return "the result has been handed over; nothing more can be done" if self.captured else None
