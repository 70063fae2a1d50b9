"""Tools in the form that a provider's API or an MCP client wants."""

from .export import ExportableTool, ExportResult, export_tools
from .providers import Dialect
from .report import ExportNote

__all__ = ["Dialect", "ExportNote", "ExportResult", "ExportableTool", "export_tools"]
