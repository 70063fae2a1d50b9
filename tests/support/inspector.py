"""What tests of the inspector need: an application with a page, a model that follows a script, a browser."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from dsh_tools import standard
from dsh_tools.content import ImageBlock, TextBlock
from dsh_tools.inspector import Inspector, InspectorPlugin
from dsh_tools.kernel import Context
from dsh_tools.model import ScriptedModel, say
from dsh_tools.tools import OutputSpec, ToolDefinition
from dsh_tools.tools.cards import (
    DiffCall,
    DiffResult,
    FileDiff,
    FileMatches,
    GenericCall,
    LineMatch,
    ReadLine,
    ReadResult,
    SearchMatches,
    SearchPaths,
    TerminalCall,
    TerminalResult,
    WebFetch,
    WebSearch,
    WebSource,
)

BROWSER_ARGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

OLD = """def greet(name):
    print("hello " + name)


def main():
    greet("world")
"""
NEW = '''def greet(name: str) -> None:
    """Say hello."""
    print(f"hello {name}")


def main() -> None:
    greet("everybody")
'''


@asynccontextmanager
async def inspected(config: dict[str, Any] | None = None, **settings: Any) -> AsyncIterator[tuple[Context, Inspector]]:
    """An application with the default composition, and the page that watches it."""
    async with standard(**settings) as ctx:
        await ctx.plugin(InspectorPlugin(), config or {})
        try:
            yield ctx, cast("Inspector", ctx.require("inspector"))
        finally:
            # A test that failed half way must not wait for answers that nobody gives.
            for agent in ctx.agents:
                agent.cancel()
                await agent.idle()


def show_tool(
    name: str,
    call_view: Any = None,
    result_view: Any = None,
    body: Callable[..., Any] | None = None,
    content: Sequence[Any] | None = None,
    **fields: Any,
) -> ToolDefinition:
    """A tool whose cards are given; it returns a text unless it has a body."""

    async def say_done(args: Any, run: Any) -> Any:
        return f"{name} is done"

    render = None if content is None else (lambda _args, _value: tuple(content))
    output = OutputSpec({}) if render is None else OutputSpec({}, render)
    return ToolDefinition(
        name=name,
        description=f"The tool {name}, which shows a card.",
        parameters=fields.pop("parameters", {"type": "object"}),
        output=output,
        execute=body or say_done,
        present_call=None if call_view is None else lambda _args: call_view,
        present_result=None if result_view is None else lambda _args, _presented: result_view,
        **fields,
    )


def every_card() -> list[ToolDefinition]:
    """One tool for each kind of card, with something to look at."""
    colours = "\n".join(
        [
            "\x1b[1mcollected 4 items\x1b[0m",
            "tests/test_cart.py \x1b[32m...\x1b[31mF\x1b[0m",
            "\x1b[31;1mFAILED\x1b[0m tests/test_cart.py::test_total - \x1b[33massert 41 == 42\x1b[0m",
            "\x1b[31m1 failed\x1b[0m, \x1b[32m3 passed\x1b[0m in 0.12s",
        ]
    )
    lines = ["from decimal import Decimal", "", "# Prices are kept in cents.", 'CURRENCY = "EUR"', "LIMIT = 100_00"]
    return [
        show_tool("weather", GenericCall("The weather in Lisbon", "other"), content=[TextBlock("18 °C, light wind")]),
        show_tool(
            "shell",
            TerminalCall("pytest -q tests/test_cart.py", "Run the tests of the cart", "shop"),
            TerminalResult(output=colours, exit_code=1),
        ),
        show_tool(
            "change",
            DiffCall("Greet everybody", (FileDiff("src/greet.py", OLD, NEW),)),
            DiffResult((FileDiff("src/greet.py", OLD, NEW),)),
        ),
        show_tool(
            "find",
            GenericCall('Search for "total"', "search"),
            SearchMatches(
                (
                    FileMatches(
                        "src/cart.py", (LineMatch(12, "    def total(self) -> int:"), LineMatch(40, "total += 1"))
                    ),
                    FileMatches("tests/test_cart.py", (LineMatch(7, "assert cart.total() == 42"),)),
                ),
                True,
                17,
            ),
        ),
        show_tool(
            "list", GenericCall("*.py", "search"), SearchPaths(("src/cart.py", "src/greet.py", "setup.py"), False, 3)
        ),
        show_tool(
            "look",
            GenericCall("Read src/prices.py", "read"),
            ReadResult("src/prices.py", 1, tuple(ReadLine(n, t) for n, t in enumerate(lines, 1)), 120, lang="python"),
        ),
        show_tool(
            "web",
            GenericCall("Search the web", "fetch"),
            WebSearch(
                (
                    WebSource(
                        "https://example.org/cents", "Money in cents", "Why prices are kept as integers.", "2026-03-01"
                    ),
                    WebSource("https://example.org/round", "Rounding", "Half to even, and why."),
                ),
                False,
                answer="Keep prices as integers.",
            ),
        ),
        show_tool("fetch", GenericCall("Fetch a page", "fetch"), WebFetch("https://example.org/cents", 200, True)),
        show_tool(
            "picture", GenericCall("A picture"), content=[ImageBlock(png(), "image/png"), TextBlock("a gradient")]
        ),
    ]


def png(width: int = 160, height: int = 60) -> str:
    """A small picture, as base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(
        b"\0" + bytes(value for x in range(width) for value in (x * 255 // width, y * 255 // height, 160))
        for y in range(height)
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(data).decode()


def scripted(*steps: Any) -> ScriptedModel:
    """A model that says these steps, then a last word."""
    return ScriptedModel([*steps, say("That is all.")], name="scripted:test")
