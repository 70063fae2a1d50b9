# also: mypy
"""Names that a package does not have, although it imports late what it has."""

from __future__ import annotations

import dsh_tools
import dsh_tools.model
import dsh_tools.pipeline
import dsh_tools.schema

dsh_tools.nonsense  # error
dsh_tools.tool.nonsense  # error
dsh_tools.model.AnthropicModels  # error
dsh_tools.pipeline.ToolsPlugins  # error
dsh_tools.schema.to_rust  # error
