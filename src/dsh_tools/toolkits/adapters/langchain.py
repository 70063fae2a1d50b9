"""LangChain: our tools for its agents, its tools as definitions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic_core import to_jsonable_python

from ...content import Content, ImageBlock, TextBlock, content_text
from ...errors import ToolError
from ...json_value import thaw, to_json_text
from ...schema import RawSchema
from ...tools import AgentLike, ToolDefinition, ToolFailure, ToolRunContext, define_tool, render_value
from .calls import Outgoing

if TYPE_CHECKING:
    from ...kernel.context import Context

__all__ = ["from_langchain", "langchain_tools"]


def langchain_tools(
    context: Context, *, names: Iterable[str] | None = None, caller: AgentLike | None = None
) -> list[BaseTool]:
    """Return the tools of a registry, for ``bind_tools`` and agents; they are called with ``ainvoke``.

    A failed call is a tool message of status ``error``. The value of a successful one is its artifact.

    Parameters:
        context: the application.
        names: which tools; None is all that the caller sees now.
        caller: whose scope counts; the context's own by default.
    """
    outgoing = Outgoing(context, names, caller)
    return [
        StructuredTool(
            name=schema.name,
            description=schema.description,
            args_schema=outgoing.parameters(schema),
            coroutine=partial(_invoke, outgoing, schema.name),
            response_format="content_and_artifact",
            handle_tool_error=True,
        )
        for schema in outgoing.schemas()
    ]


async def _invoke(outgoing: Outgoing, name: str, /, **arguments: Any) -> tuple[Any, Any]:
    result = await outgoing.call(name, arguments)
    if isinstance(result, ToolFailure):
        raise ToolException(content_text(result.content))
    return _content(result.content), thaw(result.value)


def _content(content: Content) -> Any:
    if not any(isinstance(block, ImageBlock) for block in content):
        return content_text(content)
    return [
        {"type": "image", "base64": block.data, "mime_type": block.mime_type}
        if isinstance(block, ImageBlock)
        else {"type": "text", "text": content_text([block])}
        for block in content
    ]


def from_langchain(tool: BaseTool) -> ToolDefinition:
    """Return a LangChain tool as a definition to register.

    A tool that is not async runs in a thread that the call waits for.

    Parameters:
        tool: the tool.
    """
    parameters = RawSchema(_schema(tool))
    if _is_async(tool):

        async def execute(args: Any, run: ToolRunContext) -> Any:
            return _value(await tool.ainvoke(_request(tool, args, run)))

        return define_tool(
            name=tool.name,
            description=tool.description,
            parameters=parameters,
            output=RawSchema({}),
            render=_render,
            execute=execute,
        )

    def work(args: Any, run: ToolRunContext) -> Any:
        return _value(tool.invoke(_request(tool, args, run)))

    return define_tool(
        name=tool.name,
        description=tool.description,
        parameters=parameters,
        output=RawSchema({}),
        render=_render,
        execute=work,
        isolation="thread",
    )


def _schema(tool: BaseTool) -> Any:
    schema: Any = tool.tool_call_schema
    return cast("Any", schema) if isinstance(schema, dict) else schema.model_json_schema()


def _is_async(tool: BaseTool) -> bool:
    if isinstance(tool, StructuredTool):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun  # pyright: ignore[reportPrivateUsage]


def _request(tool: BaseTool, args: Any, run: ToolRunContext) -> Any:
    return {"type": "tool_call", "id": run.call_id, "name": tool.name, "args": thaw(args)}


def _value(message: Any) -> Any:
    """What the tool returned: its text or blocks, and the artifact beside them where there is one."""
    if not isinstance(message, ToolMessage):
        return to_jsonable_python(message)
    content: Any = message.content  # pyright: ignore[reportUnknownMemberType]
    if message.status == "error":
        raise ToolError(content if isinstance(content, str) else to_json_text(content))
    if message.artifact is None:
        return to_jsonable_python(content)
    return to_jsonable_python({"content": content, "artifact": message.artifact})


def _render(args: Any, value: Any) -> Content:
    record: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    shown = cast("Any", record["content"] if record.keys() == {"content", "artifact"} else value)
    return (TextBlock(shown),) if isinstance(shown, str) else render_value(args, shown)
