"""Code that shows schemas and tools to programs: TypeScript and Python."""

from .python import render_sdk_python, to_python
from .reading import SchemaInput, SdkTool
from .typescript import render_sdk_typescript, to_typescript

__all__ = [
    "SchemaInput",
    "SdkTool",
    "render_sdk_python",
    "render_sdk_typescript",
    "to_python",
    "to_typescript",
]
