"""The SDK as a prompt section: how programs are written, and what they may call (CODE sections A and E).

The same tools give the same bytes. A text is kept until the tools that it shows change.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..errors import PromptError
from ..schema import RawSchema, Schema, SdkTool, render_sdk_python, render_sdk_typescript
from ..tools.registered import RegisteredTool
from ..tools.registry import RESERVED_NAME
from ..tools.visibility import View

__all__ = ["CODE_ONLY", "CODE_ONLY_ORDER", "SDK_ORDER", "SectionCache", "render_section"]

CODE_ONLY_ORDER: Final = 99
SDK_ORDER: Final = 150

CODE_ONLY: Final = (
    "`run_code` is the only tool that you can call directly; a direct call of any other tool fails. "
    "Reach the other tools from inside the program that you give to `run_code`."
)

_TYPESCRIPT: Final = """\
# Tools for programs

`run_code` takes one required argument, `code`, and an optional one, `description`. `code` is the body of an async \
TypeScript function, in which top-level `await` and `return` work. Every tool below is a function on `tools`:

- Call `await tools.name(args)`. Where the name is not an identifier, call `await tools["odd-name"](args)`.
- `args` is one object of lossless JSON: no `undefined`, `NaN`, `-0`, `Date`, `Map` or class instances. A promise that \
was not awaited is not JSON either.
- A call that fails or is refused rejects with `ToolCallError`: `toolName` says which tool, `message` says why. Catch \
it where the program can go on without that call.
- Start independent calls that only read together, with `Promise.all`. Calls that change something run alone, in the \
order in which they were made, however they are started.
- Only what the program prints with `console.log` or returns comes back to you. Filter and count inside the program, \
and return what you need: lossless JSON.
- Images in the results of calls are attached to the conversation after the run.
- Use erasable TypeScript syntax only: types are stripped and not checked, so annotations are advice, and `enum`, \
parameter properties and namespaces with values fail. There are no imports.
- A program has no files, network, environment or processes of its own, and nothing of it is kept for the next one."""

_PYTHON: Final = """\
# Tools for programs

`run_code` takes one required argument, `code`, and an optional one, `description`. `code` is the body of an async \
Python function, in which top-level `await` and `return` work. Every tool below is a method of `tools`:

- Call `await tools.name(args)`. Where the name is not an identifier, is reserved, or begins with an underscore, call \
`await tools["odd-name"](args)`.
- `args` is one plain dict, never keyword arguments. It is lossless JSON: no NaN, no tuples, sets, bytes or objects, \
and string keys only.
- A call that fails or is refused raises `ToolCallError`: `toolName` says which tool, `str(error)` says why. Catch it \
where the program can go on without that call.
- Start independent calls that only read together: `import asyncio`, then `await asyncio.gather(...)`. Calls that \
change something run alone, in the order in which they were made, however they are started.
- Only what the program writes with `print(...)` or gives back with `return <value>` comes back to you. Filter and \
count inside the program. The returned value must be lossless JSON.
- Images in the results of calls are attached to the conversation after the run.
- At run time exactly `tools` and `ToolCallError` are bound. The `TypedDict` classes below are static stubs: calling \
one raises `NameError`. Pass plain dicts and lists.
- The interpreter knows a part of Python. It has no class inheritance, generators, `del`, `async with`, or \
`asyncio.create_task`, and few modules.
- A program has no files, network, environment or processes of its own, and nothing of it is kept for the next one."""

_Renderer = Callable[[Sequence[SdkTool]], str]
_LANGUAGES: Final[dict[str, tuple[str, _Renderer]]] = {
    "typescript": (_TYPESCRIPT, render_sdk_typescript),
    "python": (_PYTHON, render_sdk_python),
}

# How many texts are kept: one for each set of tools that some scope sees.
_KEPT = 64


def render_section(language: str, tools: Iterable[RegisteredTool]) -> str:
    """Return the section for a set of tools, ``run_code`` left out (CODE-20, 39 to 42).

    Raises:
        PromptError: programs in that language have no SDK (CODE-12).
    """
    if language not in _LANGUAGES:
        known = ", ".join(f'"{name}"' for name in _LANGUAGES)
        raise PromptError(f'no SDK renderer registered for runtime language "{language}" (known: {known})')
    instructions, render = _LANGUAGES[language]
    return f"{instructions}\n\n{render([_sdk_tool(tool) for tool in tools if tool.name != RESERVED_NAME])}"


def _sdk_tool(tool: RegisteredTool) -> SdkTool:
    definition = tool.definition
    parameters = definition.parameters
    if isinstance(parameters, RawSchema) and tool.arguments is not None:
        shown: object = tool.arguments
    elif isinstance(parameters, Schema):
        shown = parameters
    else:
        # A plain document is shown by the rules for plain documents, whatever validates it (CODE-44).
        shown = tool.schema.parameters
    return SdkTool(tool.name, definition.description, shown, tool.output)


class SectionCache:
    """Keeps rendered sections until their tools change (CODE-16)."""

    def __init__(self) -> None:
        self._texts: OrderedDict[tuple[object, ...], str] = OrderedDict()

    def section(self, language: str, view: View) -> str:
        """Return the section for what a view shows.

        Raises:
            PromptError: as :func:`render_section`.
        """
        # Registered tools are immutable and compared by identity.
        key = (language, *view.entries.values())
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = render_section(language, view.entries.values())
            if len(self._texts) > _KEPT:
                self._texts.popitem(last=False)
        else:
            self._texts.move_to_end(key)
        return text
