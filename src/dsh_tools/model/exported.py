"""A request's tools in a provider's form, and calls back in ours."""

from __future__ import annotations

import logging

from ..json_value import to_json_text
from ..messages import ToolCallBlock
from ..schema.dialects import Dialect, ExportResult, export_tools
from ..tools.registered import ToolSchema

__all__ = ["ExportedTools", "ToolExporter"]

_log = logging.getLogger("dsh_tools")


class ExportedTools:
    """The tools of one request, under the names a provider takes."""

    def __init__(self, result: ExportResult) -> None:
        self._result = result
        self._wire_names = {name: wire for wire, name in result.names.items()}

    @property
    def records(self) -> list[dict[str, object]]:
        """The provider's tool records."""
        return self._result.tools

    def wire_name(self, name: str) -> str:
        """Return the name the provider knows a tool by; a tool that is no longer there keeps its own."""
        return self._wire_names.get(name, name)

    def call(self, call_id: str, wire_name: str, arguments: str) -> ToolCallBlock:
        """Return a model's call under the tool's own name.

        The arguments stay the model's text, byte for byte (HOST-118), unless the provider's form of
        the schema differs from the tool's own in a way that has to be undone.
        """
        name, value = self._result.restore(wire_name, arguments)
        return ToolCallBlock(call_id, name, value if isinstance(value, str) else to_json_text(value))


class ToolExporter:
    """Exports tool lists, and remembers the last one: the steps of a turn mostly repeat it.

    What a provider cannot say in a schema is dropped from it, since the validator enforces it anyway; a
    tool that cannot be offered at all is reported once.
    """

    def __init__(self, dialect: Dialect, *, strict: bool = False) -> None:
        self._dialect: Dialect = dialect
        self._strict = strict
        self._tools: tuple[ToolSchema, ...] = ()
        self._exported: ExportedTools | None = None
        self._reported: set[str] = set()

    def export(self, tools: tuple[ToolSchema, ...]) -> ExportedTools:
        """Return the tools in the provider's form."""
        if self._exported is None or not _same(tools, self._tools):
            result = export_tools(tools, self._dialect, strict=self._strict, lossy=True)
            self._report(result)
            self._tools, self._exported = tools, ExportedTools(result)
        return self._exported

    def _report(self, result: ExportResult) -> None:
        for note in result.refused:
            line = f'tool "{note.tool}" is not offered to the model: {note.reason}'
            if line not in self._reported:
                self._reported.add(line)
                _log.warning("%s", line)


def _same(one: tuple[ToolSchema, ...], two: tuple[ToolSchema, ...]) -> bool:
    # By identity: schemas are frozen and made once per registration, and may be long.
    return len(one) == len(two) and all(a is b for a, b in zip(one, two, strict=True))
