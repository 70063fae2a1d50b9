"""What a model sees of a server's result."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from dsh_tools.content import ImageBlock, TextBlock
from dsh_tools.toolkits.mcp.content import project, result_value

PNG = base64.b64encode(b"\x89PNG....").decode()


def shown(*blocks: Any, **more: Any) -> Any:
    return project("t", {"content": list(blocks), **more})


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def image(data: str = PNG, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": data, "mimeType": kind}


def test_text_runs_are_joined_and_order_is_kept():
    # HOST-238
    assert shown(words("a"), words("b"), image(), words("c")) == (
        TextBlock("a\nb"),
        ImageBlock(PNG, "image/png"),
        TextBlock("c"),
    )


def test_links_are_shown_by_name_and_address():
    # HOST-238
    link = {"type": "resource_link", "name": "notes", "uri": "file:///n.txt"}
    assert shown(link) == (TextBlock("notes: file:///n.txt"),)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"type": "audio", "data": PNG, "mimeType": "audio/wav"}, "[audio content of type audio/wav cannot be shown]"),
        (
            {"type": "resource", "resource": {"uri": "x:y", "blob": "AA==", "mimeType": "application/zip"}},
            "[resource x:y of type application/zip is binary and cannot be shown]",
        ),
        ({"type": "resource", "resource": {"uri": "x:y", "text": "hello"}}, "[resource x:y]\nhello"),
        ({"type": "hologram"}, "[content of type hologram cannot be shown]"),
        ({}, "[content of type unknown cannot be shown]"),
        (7, "[content of type unknown cannot be shown]"),
        ({"type": "text"}, "[content of type text cannot be shown]"),
    ],
)
def test_what_cannot_be_shown_is_said(block: Any, said: str):
    # HOST-238
    assert shown(block) == (TextBlock(said),)


@pytest.mark.parametrize("bad", [image(PNG + "="), image("not base64!"), image(PNG, "image/tiff"), image("")])
def test_images_are_shown_all_or_none(bad: dict[str, Any]):
    # HOST-239
    blocks = shown(image(), bad)
    assert [type(block) for block in blocks] == [TextBlock]
    assert blocks[0].text.count("cannot be shown") == 2


def test_nothing_visible_is_said():
    # HOST-238
    assert shown() == (TextBlock("(t returned no model-visible content)"),)
    assert shown(structuredContent={"n": 1}) == (TextBlock('{\n  "n": 1\n}'),)


def test_old_and_empty_results():
    # HOST-237
    assert result_value({"toolResult": {"a": 1}}) == {"content": [words('{"a":1}')]}
    assert result_value({}) == {"content": [words("(no output)")]}
    assert result_value({"content": [], "structuredContent": None}) == {"content": [], "structuredContent": None}
    assert result_value({"structuredContent": [1]}) == {"content": [], "structuredContent": [1]}
