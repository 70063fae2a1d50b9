"""Presenters never harm: whatever they do, the answer is a card or none."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from dsh_tools.content import TextBlock
from dsh_tools.tools.cards import GenericCall, TerminalCall, TerminalResult
from dsh_tools.tools.definition import OutputSpec, PresentedResult, ToolDefinition
from dsh_tools.tools.presenting import view_of_call, view_of_result

SETTLED = PresentedResult((TextBlock("out"),), is_error=False, meta={"exit": 3})


async def body(_args: Any, _run: Any) -> Any:
    return None


def tool(**presenters: Any) -> ToolDefinition:
    return ToolDefinition(
        name="t",
        description="A tool.",
        parameters={"type": "object"},
        output=OutputSpec({}),
        execute=body,
        **presenters,
    )


def fails(*_: object) -> None:
    raise RuntimeError("presenter broke")


def test_presenters_get_the_arguments_and_what_is_persisted():
    # PIPE-205
    seen: list[object] = []
    shown = tool(
        present_call=lambda args: TerminalCall(args["cmd"]),
        present_result=lambda args, presented: (
            seen.append((args, presented)) or TerminalResult(exit_code=presented.meta["exit"])
        ),
    )
    assert view_of_call(shown, {"cmd": "ls"}) == TerminalCall("ls")
    assert view_of_result(shown, {"cmd": "ls"}, SETTLED) == TerminalResult(exit_code=3)
    assert seen == [({"cmd": "ls"}, SETTLED)]


def test_logged_arguments_are_parsed_for_a_replay():
    # PIPE-208
    shown = tool(present_call=lambda args: GenericCall(args["title"]))
    assert view_of_call(shown, '{"title": "again"}') == GenericCall("again")
    assert view_of_call(shown, '{"title": "aga') is None
    assert view_of_result(tool(present_result=fails), '{"', SETTLED) is None


def test_absent_tools_and_absent_presenters_give_no_view():
    assert view_of_call(None, {}) is None
    assert view_of_result(None, {}, SETTLED) is None
    assert view_of_call(tool(), {}) is None
    assert view_of_result(tool(), {}, SETTLED) is None
    assert view_of_call(tool(present_call=lambda _: None), {}) is None


def test_a_presenter_that_raises_is_logged_and_gives_no_view(caplog: pytest.LogCaptureFixture):
    # PIPE-207
    with caplog.at_level(logging.WARNING, "dsh_tools"):
        assert view_of_call(tool(present_call=fails), {}) is None
        assert view_of_result(tool(present_result=fails), {}, SETTLED) is None
    assert [record.getMessage() for record in caplog.records] == [
        'present_call of tool "t" failed; the generic card is shown',
        'present_result of tool "t" failed; the generic card is shown',
    ]
    assert "presenter broke" in caplog.text


def test_the_json_form_of_a_card_is_a_card(caplog: pytest.LogCaptureFixture):
    assert view_of_call(tool(present_call=lambda _: {"card": "terminal", "title": "ls"}), {}) == TerminalCall("ls")
    with caplog.at_level(logging.WARNING, "dsh_tools"):
        assert view_of_call(tool(present_call=lambda _: {"card": "search"}), {}) is None
        # A result's card is no card of a pending call.
        assert view_of_call(tool(present_call=lambda _: TerminalResult(exit_code=1)), {}) is None
        assert view_of_call(tool(present_call=lambda _: "Title"), {}) is None
    assert len(caplog.records) == 3
