"""What the demo's model says and calls: a script whose steps look at the results so far."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..content import content_text
from ..messages import ToolResultBlock, UserMessage
from ..model import ModelRequest, ScriptedModel, ScriptedStep, call, say

__all__ = ["DEMO_RULES", "QUESTION", "demo_model"]

QUESTION = "What is in this folder, and what is it about?"

DEMO_RULES: list[dict[str, Any]] = [
    {
        "tool": "bash",
        "arguments": {"command": "rm *"},
        "action": "deny",
        "reason": "deleting files is not allowed here; list what you would delete instead",
    },
    {"tool": "bash", "action": "ask", "reason": "a shell command can do anything you can"},
]

_READABLE = (".md", ".py", ".toml", ".txt", ".rst", ".json", ".yaml", ".yml", ".cfg", ".ts", ".js", ".rs", ".go", ".c")


def demo_model(root: Path) -> ScriptedModel:
    """Return the model of the demo for one folder."""
    return ScriptedModel(
        [
            say("I'll see what is there. ", call("glob", pattern="**/*")),
            lambda request: _read_three(request, root),
            say("Now a search across all of them. ", call("grep", pattern=r"(?i)\b(license|todo|test)\b")),
            say(
                "Old build output is in the way; I'll remove it. ",
                call("bash", command="rm -rf build", description="Remove build output"),
            ),
            say(
                "That was denied, so I leave it. Counting lines needs a shell. ",
                call("bash", command="ls | wc -l", description="Count the entries of the folder"),
            ),
            say("One last look, deeper. ", call("deep_scan", path=str(root))),
            _sum_up,
        ],
        piece=12,
        name="scripted:demo",
    )


def _read_three(request: ModelRequest, root: Path) -> ScriptedStep:
    found = [root / line for line in _results(request)[-1].splitlines()]
    files = [path for path in found if path.suffix in _READABLE and path.is_file()][:3]
    if not files:
        return say("Nothing here reads as text. ", call("glob", pattern="*"))
    reads = (call("read", file_path=str(path), limit=12) for path in files)
    return say(f"I'll read {len(files)} of them at once. ", *reads)


def _sum_up(request: ModelRequest) -> ScriptedStep:
    results = _results(request)
    listed = len(results[0].splitlines())
    failed = [text.startswith("Error: ") for text in results]
    # The last but one is the call about which a person was asked.
    why, allowed = (", one that a person did not allow", "") if failed[-2] else ("", ", and a person allowed one")
    return say(
        f"I made {len(results)} calls: {listed} lines of listing came back, {sum(failed)} calls did not go through "
        f"(one by policy{why}, one by its time limit){allowed}. Nothing was changed."
    )


def _results(request: ModelRequest) -> list[str]:
    """The text of every tool result in the history, oldest first."""
    return [
        content_text(block.content)
        for message in request.messages
        if isinstance(message, UserMessage)
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]
