"""One card of every kind, for the snapshots."""

from __future__ import annotations

from dsh_tools.content import Content, ImageBlock, JsonBlock, TextBlock
from dsh_tools.terminal import Card, render_call, render_result
from dsh_tools.tools.cards import (
    CallView,
    DiffCall,
    DiffResult,
    FileDiff,
    FileMatches,
    GenericCall,
    GenericResult,
    LineMatch,
    Location,
    ReadLine,
    ReadResult,
    ResultView,
    SearchMatches,
    SearchPaths,
    TerminalCall,
    TerminalResult,
    WebFetch,
    WebSearch,
    WebSource,
)

CODE = '''def main(argv: list[str]) -> int:
    """Say hello."""
    print("hello", *argv, 42)  # to everybody

    return 0
'''
COMMAND = TerminalCall('python -c "\nprint(1 + 1)\n"', description="Add two numbers", cwd="packages/core")
DIFFS = (
    FileDiff("src/app.py", "import os\nprint(1)\n\nmain()\n", "import os\nprint(1, 2)\n\nmain()\nexit()\n"),
    FileDiff(
        "notes/new.txt", None, "A first line that is long enough to wrap where the terminal is narrow.\n\tindented\n"
    ),
)
SEARCH = GenericCall("Search for main", kind="search", raw_input={"pattern": "main"})


def call(view: CallView | None, name: str, arguments: object = None) -> Card:
    return render_call(view, name=name, arguments={} if arguments is None else arguments)


def result(
    view: ResultView | None,
    name: str,
    *,
    pending: CallView | None = None,
    arguments: object = None,
    content: Content = (TextBlock("what the model reads"),),
    is_error: bool = False,
) -> Card:
    return render_result(
        view,
        name=name,
        arguments={} if arguments is None else arguments,
        content=content,
        is_error=is_error,
        call=pending,
    )


def gallery() -> dict[str, Card]:
    """Every card by its name."""
    return {
        "call: no view": call(None, "lookup", {"city": "Ulm", "days": [1, 2.5, True, None], "more": {}}),
        "call: no view, broken arguments": call(None, "lookup", '{"city": "Ul'),
        "call: no view, no arguments": call(None, "ping", ""),
        "call: generic": call(
            GenericCall("Read src/app.py", "read", {"path": "src/app.py"}, locations=(Location("src/app.py", 3), Location("b.py"))),
            "read_file",
        ),
        "call: generic with a program": call(GenericCall("Count lines", "execute", CODE), "run_code"),
        "call: generic with content": call(GenericCall("Ask", content=(TextBlock("What is **this**?"),)), "ask"),
        "call: terminal": call(COMMAND, "bash"),
        "call: diff": call(DiffCall("Edit src/app.py", DIFFS), "edit_file"),
        "result: no view": result(None, "lookup", arguments={"city": "Ulm"}),
        "result: no view, failed": result(
            None, "lookup", arguments='{"city":"Ulm"}', content=(TextBlock("Error: no such city\ntry another"),), is_error=True
        ),
        "result: generic": result(
            GenericResult("Thought about it", (TextBlock("because"), JsonBlock({"x": [1.5, "y"]}), ImageBlock("A" * 4000, "image/png"))),
            "think",
        ),
        "result: generic, title stays": result(GenericResult(), "think", pending=GenericCall("Think hard")),
        "result: terminal": result(
            TerminalResult(
                output="\x1b[32m12 passed\x1b[0m, \x1b[1;31m1 failed\x1b[m in 0.2 s\n 10%\r100%\n\x1b]0;title\x07done\n", exit_code=1
            ),
            "bash",
            pending=COMMAND,
        ),
        "result: terminal, killed": result(TerminalResult("$ sleep 100", "", signal="SIGKILL"), "bash", pending=COMMAND),
        "result: terminal, long": result(
            TerminalResult(output="\n".join(f"line {number}" for number in range(1, 1001)), exit_code=0), "bash", pending=TerminalCall("seq")
        ),
        "result: diff": result(DiffResult(DIFFS, "Edited 2 files"), "edit_file"),
        "result: search, matches": result(
            SearchMatches(
                (
                    FileMatches("src/app.py", (LineMatch(9, "def main():"), LineMatch(120, "    main()"))),
                    FileMatches("b.py", (LineMatch(1, "import main"),)),
                ),
                truncated=True,
                total=240,
            ),
            "grep",
            pending=SEARCH,
        ),
        "result: search, paths": result(SearchPaths(("src/app.py", "b.py"), truncated=False, total=2), "glob", pending=SEARCH),
        "result: search, nothing": result(SearchMatches((), truncated=False, total=0), "grep", pending=SEARCH),
        "result: read": result(
            ReadResult(
                "src/app.py", 98, tuple(ReadLine(number, line) for number, line in enumerate(CODE.split("\n"), 98)), 240, lang="python"
            ),
            "read_file",
        ),
        "result: read, past the end": result(ReadResult("src/app.py", 900, (), 240), "read_file"),
        "result: web, search": result(
            WebSearch(
                (
                    WebSource("https://example.test/a/page", "A page", "What the page says, at such a length that it wraps somewhere.", "2024-05-06"),
                    WebSource("https://example.test/b"),
                ),
                truncated=True,
                answer="It is 42.",
            ),
            "web_search",
            pending=GenericCall("Search the web", "search"),
        ),
        "result: web, fetch": result(
            WebFetch("https://example.test/final?q=1", 404, truncated=False), "web_fetch", pending=GenericCall("Fetch a page", "fetch")
        ),
        "result: hostile text": result(
            None,
            "look\x1b[31mup\nx",
            content=(TextBlock("\x1b]52;c;x\x07 \u202eevil\u202c שלום zero\u200bwidth 👩\u200d💻 日本語の長い文章はどこでも折り返せる \ud800"),),
        ),
    }  # fmt: skip
