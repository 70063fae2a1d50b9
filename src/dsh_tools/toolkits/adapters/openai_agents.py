"""The OpenAI Agents SDK: our tools for its agents, its function tools as definitions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from agents import FunctionTool, ToolOutputImage, ToolOutputText
from agents.tool_context import ToolContext
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ...content import Content, ImageBlock, content_text
from ...json_value import to_json_text
from ...schema import RawSchema
from ...tools import AgentLike, ToolDefinition, ToolRunContext, define_tool
from .calls import Outgoing, refuse_unapproved

if TYPE_CHECKING:
    from ...kernel.context import Context

__all__ = ["from_openai_agents", "function_tools"]


def function_tools(
    context: Context, *, names: Iterable[str] | None = None, caller: AgentLike | None = None
) -> list[FunctionTool]:
    """Return the tools of a registry, for ``Agent(tools=…)``.

    The model reads a failed call as ``Error: …``; the run goes on.

    Parameters:
        context: the application.
        names: which tools; None is all that the caller sees now.
        caller: whose scope counts; the context's own by default.
    """
    outgoing = Outgoing(context, names, caller)
    return [
        FunctionTool(
            name=schema.name,
            description=schema.description,
            params_json_schema=outgoing.parameters(schema),
            on_invoke_tool=partial(_invoke, outgoing, schema.name),
            # Strict mode has a subset of its own; the pipeline checks the arguments against the whole schema.
            strict_json_schema=False,
        )
        for schema in outgoing.schemas()
    ]


async def _invoke(outgoing: Outgoing, name: str, ctx: ToolContext[Any], arguments: str) -> Any:
    result = await outgoing.call(name, arguments, ctx.tool_call_id)
    return _output(result.content)


def _output(content: Content) -> Any:
    if not any(isinstance(block, ImageBlock) for block in content):
        return content_text(content)
    return [
        ToolOutputImage(image_url=f"data:{block.mime_type};base64,{block.data}")
        if isinstance(block, ImageBlock)
        else ToolOutputText(text=content_text([block]))
        for block in content
    ]


def from_openai_agents(tool: FunctionTool, *, context: Any = None, approval_handled: bool = False) -> ToolDefinition:
    """Return a function tool as a definition to register.

    The SDK turns most exceptions of such tools into text before we see them, so those come as results.

    Parameters:
        tool: the tool; its guardrails belong to the SDK's runs and are not part of it here.
        context: what the tool gets as its run's context.
        approval_handled: a rule here asks before the tool runs, where it wants approval.

    Raises:
        DefinitionError: it wants approval, and nobody takes care of that.
    """
    refuse_unapproved(tool.name, tool.needs_approval is not False, approval_handled)

    async def execute(args: Any, run: ToolRunContext) -> Any:
        text = to_json_text(args)
        call: ToolContext[Any] = ToolContext(
            context, tool_name=tool.name, tool_call_id=run.call_id, tool_arguments=text
        )
        return _plain(await tool.on_invoke_tool(call, text))

    return define_tool(
        name=tool.name,
        description=tool.description,
        parameters=RawSchema(tool.params_json_schema),
        output=RawSchema({}),
        execute=execute,
        timeout_ms=None if tool.timeout_seconds is None else tool.timeout_seconds * 1000,
    )


def _plain(value: Any) -> Any:
    """The JSON form of what the tool returned; the SDK itself would show a model its text."""
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError:
        return str(value)
