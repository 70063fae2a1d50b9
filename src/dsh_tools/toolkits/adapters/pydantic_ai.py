"""pydantic-ai: our tools as a toolset of its agents, its tools as definitions."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import pydantic
from pydantic_ai import BinaryContent, ModelRetry, RunContext, ToolFailed, ToolReturn
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import Tool
from pydantic_ai.tools import ToolDefinition as TheirDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_ai.usage import RunUsage
from pydantic_core import SchemaValidator, core_schema, to_jsonable_python

from ...content import ImageBlock, content_text
from ...errors import ToolArgsError, ToolError
from ...json_value import thaw
from ...schema import RawSchema
from ...tools import AgentLike, ToolDefinition, ToolFailure, ToolRunContext, define_tool
from .calls import Outgoing, refuse_unapproved

if TYPE_CHECKING:
    from ...kernel.context import Context

__all__ = ["RegistryToolset", "from_pydantic_ai"]

_ANYTHING = SchemaValidator(core_schema.any_schema())


class RegistryToolset(AbstractToolset[Any]):
    """The tools of a registry, for ``Agent(toolsets=[…])``.

    A failed call is told to the model as a failure; the value of a successful one is the metadata of its
    return part.

    Parameters:
        context: the application.
        names: which tools; None is all that the caller sees.
        caller: whose scope counts; the context's own by default.
        id: the toolset's id, for durable execution.
    """

    def __init__(
        self,
        context: Context,
        *,
        names: Iterable[str] | None = None,
        caller: AgentLike | None = None,
        id: str | None = "dsh-tools",
    ) -> None:
        self._outgoing = Outgoing(context, names, caller)
        self._id = id

    @property
    def id(self) -> str | None:
        """The toolset's id."""
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools that are visible now."""
        outgoing = self._outgoing
        return {
            schema.name: ToolsetTool(
                toolset=self,
                tool_def=TheirDefinition(
                    name=schema.name,
                    description=schema.description,
                    parameters_json_schema=outgoing.parameters(schema),
                    sequential=outgoing.is_exclusive(schema.name),
                ),
                max_retries=ctx.max_retries,
                # The pipeline checks the arguments, and says what is wrong with them.
                args_validator=_ANYTHING,
            )
            for schema in outgoing.schemas()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Run one tool."""
        result = await self._outgoing.call(name, tool_args, ctx.tool_call_id)
        if isinstance(result, ToolFailure):
            raise ToolFailed(content_text(result.content).removeprefix("Error: "))
        images = [
            BinaryContent(base64.b64decode(block.data), media_type=block.mime_type)
            for block in result.content
            if isinstance(block, ImageBlock)
        ]
        shown = content_text([block for block in result.content if not isinstance(block, ImageBlock)])
        return ToolReturn(return_value=[shown, *images] if images else shown, metadata=thaw(result.value))


def from_pydantic_ai(tool: Tool[Any], *, deps: Any = None, approval_handled: bool = False) -> ToolDefinition:
    """Return a pydantic-ai tool as a definition to register.

    Parameters:
        tool: the tool.
        deps: the dependencies that it gets, where it takes a run context.
        approval_handled: a rule here asks before the tool runs, where it wants approval.

    Raises:
        DefinitionError: it wants approval, and nobody takes care of that.
    """
    refuse_unapproved(tool.name, tool.requires_approval, approval_handled)
    schema = tool.function_schema

    async def execute(args: Any, run: ToolRunContext) -> Any:
        # There is no run of an agent here; a model that is never asked stands in for its own.
        context: RunContext[Any] = RunContext(
            deps=deps, model=TestModel(), usage=RunUsage(), tool_name=tool.name, tool_call_id=run.call_id
        )
        try:
            loaded = cast("dict[str, Any]", schema.validator.validate_python(thaw(args)))
        except pydantic.ValidationError as error:
            raise ToolArgsError([f"{_path(fault['loc'])} {fault['msg']}" for fault in error.errors()]) from error
        try:
            value = await schema.call(loaded, context)
        except (ModelRetry, ToolFailed) as error:
            raise ToolError(error.message) from error
        return to_jsonable_python(value.return_value if isinstance(value, ToolReturn) else value)

    return define_tool(
        name=tool.name,
        description=tool.description or "",
        parameters=RawSchema(schema.json_schema),
        output=RawSchema({}),
        execute=execute,
        timeout_ms=None if tool.timeout is None else tool.timeout * 1000,
    )


def _path(location: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".") or "value"
