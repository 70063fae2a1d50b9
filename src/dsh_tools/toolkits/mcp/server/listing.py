"""What clients are told about our tools, and how results are put for them."""

from __future__ import annotations

from typing import Any, cast

import mcp_types as types

from ....content import Content, ImageBlock, TextBlock
from ....json_value import thaw, to_json_text
from ....tools import RegisteredTool, ToolFailure, ToolResult, ToolSchema
from ..schemas import nest_schema
from ..tool import remote_tool_of

__all__ = ["published_result", "published_tool"]

_RESULT = "result"


def published_tool(schema: ToolSchema, entry: RegisteredTool | None, description: str) -> types.Tool:
    """Return the record of one tool.

    Parameters:
        schema: what a model is told.
        entry: the registered tool, for its output schema.
        description: instead of the schema's.
    """
    tool = types.Tool(
        name=schema.name, description=description, input_schema=cast("dict[str, Any]", thaw(schema.parameters))
    )
    if entry is None:
        return tool
    remote = remote_tool_of(entry.definition)
    if remote is None:
        tool.output_schema = _output_schema(entry)
        return tool
    # A tool of another server goes on as it came.
    tool.title = remote.title if remote.title != remote.raw_name else None
    tool.output_schema = _object_rooted(remote.document.get("outputSchema"))
    annotations: object = remote.document.get("annotations")
    if isinstance(annotations, dict):
        known = {key: value for key, value in cast("dict[str, Any]", annotations).items() if key.endswith("Hint")}
        flags = {key: value for key, value in known.items() if isinstance(value, bool)}
        tool.annotations = types.ToolAnnotations.model_validate(flags)
    return tool


def _output_schema(entry: RegisteredTool) -> dict[str, Any]:
    """The protocol's structured content is an object; other values are put under a key."""
    document = thaw(entry.output.json)
    rooted = _object_rooted(document)
    if rooted is not None:
        return rooted
    return {
        "type": "object",
        "properties": {_RESULT: nest_schema(document, f"#/properties/{_RESULT}")},
        "required": [_RESULT],
    }


def _object_rooted(document: object) -> dict[str, Any] | None:
    record = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    return record if record.get("type") == "object" else None


def published_result(entry: RegisteredTool | None, arguments: Any, result: ToolResult) -> types.CallToolResult:
    """Return the answer to a call.

    A result of another server's tool goes on with its own blocks, unless a policy has changed what is shown.
    """
    if isinstance(result, ToolFailure) or entry is None:
        return types.CallToolResult(content=_blocks(result.content), is_error=result.is_error)
    remote = remote_tool_of(entry.definition)
    if remote is None:
        plain = _object_rooted(thaw(entry.output.json)) is not None
        value = thaw(result.value)
        return types.CallToolResult(
            content=_blocks(result.content), structured_content=value if plain else {_RESULT: value}
        )
    value = cast("dict[str, Any]", thaw(result.value))
    answer: dict[str, Any] = {"content": [block.model_dump(by_alias=True) for block in _blocks(result.content)]}
    if result.content == tuple(entry.render(arguments, result.value)):
        answer["content"] = value["content"]
    if "structuredContent" in value:
        answer["structuredContent"] = value["structuredContent"]
    try:
        return types.CallToolResult.model_validate(answer)
    except ValueError:
        # Blocks that the protocol does not know: what a model is shown of them.
        answer["content"] = [block.model_dump(by_alias=True) for block in _blocks(result.content)]
        return types.CallToolResult.model_validate(answer)


def _blocks(content: Content) -> list[types.ContentBlock]:
    blocks: list[types.ContentBlock] = []
    for block in content:
        if isinstance(block, TextBlock):
            blocks.append(types.TextContent(text=block.text))
        elif isinstance(block, ImageBlock):
            blocks.append(types.ImageContent(data=block.data, mime_type=block.mime_type))
        else:
            blocks.append(types.TextContent(text=to_json_text(block.value, indent=2)))
    return blocks
