"""``--tools MODULE:OBJECT``, and the ``plugins`` of ``dsh.yaml``: tools from Python code.

The object is one of:

* a tool definition (what ``@tool`` and ``define_tool`` make), or a list of definitions and plugins;
* a plugin: an object or module with ``apply``, or a class;
* a function. With one parameter it is called with the context, registers what it likes and may return definitions;
  with two it is a plugin, ``(ctx, config)``. It may be async;
* a module, named without ``:OBJECT``: a plugin where it has ``apply``, and all definitions in it otherwise.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ..errors import ConfigError, HarnessError, describe_exception
from ..tools import ToolDefinition
from .config import load_object

if TYPE_CHECKING:
    from ..kernel import Context

__all__ = ["ToolsOption", "mount", "mount_tools"]

ToolsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        metavar="MODULE:OBJECT",
        help="Tools to add: a definition, a list of them, a plugin, or a function that takes the context. Repeatable.",
    ),
]


async def mount_tools(ctx: Context, references: Iterable[str] | None) -> None:
    """Load each reference and register or mount what it names.

    Raises:
        ConfigError: it cannot be imported, is none of these, or what it does fails; the text names it.
    """
    for reference in references or ():
        found = load_object(reference)
        try:
            await mount(ctx, found)
        except HarnessError as error:
            raise ConfigError(f"--tools {reference}: {error}") from error
        except Exception as error:
            raise ConfigError(f"--tools {reference}: {type(error).__name__}: {describe_exception(error)}") from error


async def mount(ctx: Context, found: Any) -> None:
    """Register or mount what was found."""
    if isinstance(found, ToolDefinition):
        ctx.tools.register(found)
    elif isinstance(found, (list, tuple)):
        for item in cast("Iterable[Any]", found):
            await mount(ctx, item)
    elif isinstance(found, ModuleType) and not hasattr(found, "apply"):
        definitions = [item for item in vars(found).values() if isinstance(item, ToolDefinition)]
        if not definitions:
            raise ConfigError("the module has neither apply nor tool definitions; name an object, MODULE:OBJECT")
        await mount(ctx, definitions)
    elif _takes_context(found):
        function = cast("Callable[[Context], Any]", found)
        made: Any = function(ctx)
        made = await made if inspect.isawaitable(made) else made
        if isinstance(made, (ToolDefinition, list, tuple)):
            await mount(ctx, made)
    else:
        await ctx.plugin(cast("Any", found))


def _takes_context(found: Any) -> bool:
    """Whether this is a function of the context alone, not a plugin."""
    if not inspect.isroutine(found):
        return False
    parameters = inspect.signature(found).parameters.values()
    return sum(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters) == 1
