"""The prompt section: what is said, what is declared, when it is rendered. CODE sections A and E."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.calls import make_tool
from tests.support.code_mode import code_app

from dsh_tools.code_mode import CODE_ONLY, render_section
from dsh_tools.code_mode.section import SectionCache
from dsh_tools.errors import HarnessError, PromptError
from dsh_tools.schema import RawSchema, SdkTool, render_sdk_python, render_sdk_typescript
from dsh_tools.tools import ToolDefinition, compile_definition, tool

CASES = json.loads((Path(__file__).parents[2] / "vectors" / "sdk_sections.json").read_text(encoding="utf-8"))
LANGUAGES = ("typescript", "python")


def entries(*definitions: ToolDefinition) -> list[Any]:
    return [compile_definition(definition) for definition in definitions]


def split(section: str) -> tuple[str, str]:
    """The instructions and the fenced block."""
    instructions, _, block = section.partition("\n\n```")
    return instructions, "```" + block


@pytest.mark.parametrize(("language", "fence"), [("typescript", "ts"), ("python", "python")])
def test_layout(language: str, fence: str) -> None:
    # CODE-39: heading and instructions, a blank line, one fenced block
    section = render_section(language, entries(make_tool("t")))
    assert section.startswith("# ")
    assert section.count("```") == 2
    assert f"\n\n```{fence}\n" in section
    assert section.endswith("\n```")


@pytest.mark.parametrize(
    ("language", "words"),
    [
        # CODE-39, 40, 31
        ("typescript", ["`code`", "optional", "`description`", "await tools.name(args)", 'tools["odd-name"](args)']),
        ("typescript", ["lossless JSON", "ToolCallError", "toolName", "message", "Catch"]),
        (
            "typescript",
            ["Promise.all", "run alone", "in the order", "console.log", "returns", "Images", "after the run"],
        ),
        ("typescript", ["erasable", "stripped", "annotations", "enum"]),
        ("python", ["`code`", "optional", "`description`", "await tools.name(args)", 'tools["odd-name"](args)']),
        ("python", ["lossless JSON", "ToolCallError", "toolName", "Catch", "reserved", "underscore"]),
        (
            "python",
            ["asyncio.gather", "run alone", "in the order", "print(", "return <value>", "Images", "after the run"],
        ),
        (
            "python",
            ["exactly `tools` and `ToolCallError` are bound", "TypedDict", "static stubs", "NameError", "plain dict"],
        ),
        ("python", ["returned value must be lossless JSON", "no class inheritance", "generators", "create_task"]),
    ],
)
def test_instructions_say(language: str, words: list[str]) -> None:
    instructions, _ = split(render_section(language, []))
    assert [word for word in words if word not in instructions] == []


def test_python_instructions_never_speak_of_typescript() -> None:
    # CODE-31
    assert "TypeScript" not in render_section("python", [])


@pytest.mark.parametrize("language", LANGUAGES)
def test_tools_made_of_documents_are_shown_as_documents(language: str) -> None:
    # CODE-41 to 47: the vectors rule the renderers; what is registered gets the same text
    render = render_sdk_typescript if language == "typescript" else render_sdk_python
    checked = 0
    for case in CASES:
        for item in case["input"]["tools"]:
            if item["name"] == "run_code":
                continue  # the name is reserved
            try:
                made = compile_definition(
                    ToolDefinition(
                        name=item["name"],
                        description=item["description"],
                        parameters=item["parameters"],
                        output={"schema": item["output"]},
                        execute=lambda _args, _run: None,
                    )
                )
            except (HarnessError, KeyError):
                continue  # what cannot be registered cannot be shown
            shown = SdkTool(item["name"], item["description"], item["parameters"], item["output"])
            assert split(render_section(language, [made]))[1] == render([shown]), case["id"]
            checked += 1
    assert checked > 60


@pytest.mark.parametrize("language", LANGUAGES)
def test_sorted_by_utf16_whatever_the_order_of_registration(language: str) -> None:
    # CODE-41, 42
    names = ["alpha", "Zed", "\ue000", "\U0001f600", "b"]
    made = entries(*(make_tool(name) for name in names))
    section = render_section(language, made)
    assert section == render_section(language, list(reversed(made)))
    places = [section.index(json.dumps(name, ensure_ascii=False)) for name in ("\U0001f600", "\ue000")]
    assert places == sorted(places)
    block = split(section)[1]
    assert block.index("Zed") < block.index("alpha")


def test_properties_keep_their_order() -> None:
    # CODE-42, D2
    properties = {"zeta": {"type": "string"}, "10": {"type": "string"}, "alpha": {"type": "string"}}
    made = entries(make_tool("t", parameters={"type": "object", "properties": properties}))
    block = split(render_section("typescript", made))[1]
    assert block.index("zeta") < block.index('"10"') < block.index("alpha")


def test_a_plain_document_degrades_as_a_whole_and_a_raw_schema_in_parts() -> None:
    # CODE-43, 44, 45, D31
    document = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    plain, raw = (
        split(render_section("typescript", entries(make_tool("t", parameters=parameters))))[1]
        for parameters in (document, RawSchema(document))
    )
    assert "  t: unknown;" in plain
    assert "n: number;" in raw


def test_types_are_shown_with_what_they_can_say() -> None:
    # CODE-43, D31
    @tool
    async def count(words: dict[str, int]) -> dict[str, int]:
        """Count words."""
        return words

    assert "words: Record<string, number>;" in render_section("typescript", entries(count))
    assert "words: dict[str, int]" in render_section("python", entries(count))


def test_deep_schemas_render() -> None:
    # CODE-46, 47
    schema: dict[str, Any] = {"type": "null", "const": None}
    for _ in range(2000):
        schema = {"type": "array", "items": schema}
    made = entries(make_tool("deep", parameters={"type": "object", "properties": {"x": schema}}))
    assert "null[][][]" in render_section("typescript", made)
    assert "list[list[" in render_section("python", made)


@pytest.mark.parametrize("language", ["ruby", "toString", "constructor", "__class__", ""])
def test_other_languages_have_no_section(language: str) -> None:
    # CODE-12
    with pytest.raises(PromptError) as refused:
        render_section(language, [])
    assert str(refused.value) == (
        f'no SDK renderer registered for runtime language "{language}" (known: "typescript", "python")'
    )


def test_the_rule_names_the_one_tool_and_the_way() -> None:
    # CODE-6
    assert "`run_code` is the only tool that you can call directly" in CODE_ONLY
    assert "from inside the program" in CODE_ONLY


async def test_texts_are_kept_until_what_is_seen_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    # CODE-16
    rendered: list[str] = []
    render = render_section

    def counted(language: str, tools: Any) -> str:
        rendered.append(language)
        return render(language, tools)

    monkeypatch.setattr("dsh_tools.code_mode.section.render_section", counted)
    cache = SectionCache()
    async with code_app() as (ctx, _runtime):
        ctx.tools.register(make_tool("a"))
        remove = ctx.tools.register(make_tool("b"))
        both = cache.section("typescript", ctx.tools.view())
        scope = ctx.create_scope("agent")
        scope.tools.guard(lambda _execution: None)
        assert cache.section("typescript", ctx.tools.view()) is both
        assert cache.section("typescript", ctx.tools.view(scope.scope)) is both
        assert rendered == ["typescript"]
        lift = scope.tools.restrict(deny=["b"])
        assert '"b"' not in cache.section("typescript", ctx.tools.view(scope.scope))
        lift()
        assert cache.section("typescript", ctx.tools.view(scope.scope)) is both
        remove()
        ctx.tools.register(make_tool("b"))
        assert cache.section("typescript", ctx.tools.view()) == both
        assert cache.section("python", ctx.tools.view()) != both
        assert rendered == ["typescript"] * 3 + ["python"]


async def test_the_cache_is_bounded() -> None:
    # CODE-16
    cache = SectionCache()
    async with code_app() as (ctx, _runtime):
        for number in range(100):
            ctx.tools.register(make_tool(f"t{number}"))
            cache.section("typescript", ctx.tools.view())
    assert len(cache._texts) == 64
