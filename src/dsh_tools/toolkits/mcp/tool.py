"""One tool of a server as a definition of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from ...content import Content, content_text
from ...errors import HarnessError
from ...tools import OutputSpec, ToolDefinition, ToolRunContext
from ...tools.cards import GenericCall
from .content import project, result_value
from .errors import McpError, McpToolError
from .names import public_name
from .schemas import output_schema, parameter_schema

if TYPE_CHECKING:
    from .config import McpConfig

__all__ = ["Caller", "RemoteTool", "remote_tool_of"]


class Caller(Protocol):
    """Whoever holds the connection; a tool asks it at each call, so that tools outlive connections."""

    async def call(self, raw_name: str, arguments: Mapping[str, Any], run: ToolRunContext) -> dict[str, Any]:
        """Run the server's tool and return the raw result."""
        ...


class RemoteTool:
    """A server's tool.

    Parameters:
        document: the tool as the server lists it.
        caller: makes the calls.
        config: of the server.

    Raises:
        McpError: the document is no tool.
    """

    def __init__(self, document: object, caller: Caller, config: McpConfig) -> None:
        record = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        name: object = record.get("name")
        if not isinstance(name, str) or not name:
            raise McpError(f"a listed tool has no name: {str(record)[:100]}")
        self.document = record
        self.raw_name = name
        self.name = public_name(config.server_name, name)
        self.server = config.server_name
        self._caller = caller
        self._hints: Mapping[str, Any] = _hints(record) if config.trust_annotations else {}

    @property
    def is_read_only(self) -> bool:
        """Whether the server, if it is trusted, says that the tool changes nothing."""
        return self._hints.get("readOnlyHint") is True

    @property
    def may_destroy(self) -> bool:
        """Whether the tool may destroy something; what is not known to be harmless may."""
        return not self.is_read_only and self._hints.get("destructiveHint") is not False

    @property
    def title(self) -> str:
        """What people call the tool."""
        for title in (self.document.get("title"), _hints(self.document).get("title")):
            if isinstance(title, str) and title:
                return title
        return self.raw_name

    def definition(self) -> ToolDefinition:
        """Return the definition to register."""
        label = f'tool "{self.raw_name}" of MCP server "{self.server}"'
        described: object = self.document.get("description")
        return ToolDefinition(
            name=self.name,
            description=described if isinstance(described, str) and described else self.title,
            parameters=parameter_schema(label, self.document.get("inputSchema")),
            output=OutputSpec(output_schema(label, self.document.get("outputSchema")), self._render),
            execute=self.execute,
            # HOST-244, D18: a server that is not trusted has no say in what overlaps.
            is_concurrency_safe=(lambda args: True) if self.is_read_only else None,
            idempotent=self.is_read_only or self._hints.get("idempotentHint") is True,
            present_call=self._present_call,
        )

    async def execute(self, args: Mapping[str, Any], run: ToolRunContext) -> dict[str, Any]:
        """The body.

        Raises:
            McpToolError: the tool reported an error; the text is the server's.
            HarnessError: it cannot be called, or the connection failed.
        """
        execution: object = self.document.get("execution")
        if isinstance(execution, dict) and cast("dict[str, Any]", execution).get("taskSupport") == "required":
            raise HarnessError(
                f'tool "{self.raw_name}" can only be run as a task of its server, which is not supported here',
                "MCP_TASK_REQUIRED",
            )
        result = await self._caller.call(self.raw_name, args, run)
        value = result_value(result)
        if result.get("isError") is True:
            raise McpToolError(content_text(project(self.raw_name, value)))
        return value

    def _render(self, args: Any, value: Any) -> Content:
        return project(self.raw_name, value)

    def _present_call(self, args: Any) -> GenericCall:
        return GenericCall(
            f"{self.title} ({self.server})", kind="read" if self.is_read_only else "other", raw_input=args
        )


def _hints(document: Mapping[str, Any]) -> Mapping[str, Any]:
    annotations: object = document.get("annotations")
    return cast("dict[str, Any]", annotations) if isinstance(annotations, dict) else {}


def remote_tool_of(definition: ToolDefinition | None) -> RemoteTool | None:
    """Return the server's tool behind a definition, None where it is somebody else's."""
    owner: object = None if definition is None else getattr(definition.execute, "__self__", None)
    return owner if isinstance(owner, RemoteTool) else None
