"""The reminder of repeated calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pydantic
import pytest
from tests.support.agents import LoggedAgent, LoneAgent

from dsh_tools.content import TextBlock, content_text
from dsh_tools.kernel.context import Context
from dsh_tools.messages import MessageSource, user_message
from dsh_tools.services import RepeatReminderPlugin
from dsh_tools.tools.events import POST_EXECUTE, PRE_EXECUTE, Accept, Block, Deny
from dsh_tools.tools.execution import ToolCall


async def answer(args: Any, run: Any) -> str:
    return "the answer"


@pytest.fixture
async def ctx(app: Context, register: Callable[..., None]) -> Context:
    for name in ("work", "other", "poll"):
        register(answer, name)
    await app.plugin(RepeatReminderPlugin(), {"exclude": ["po*"], "arguments_preview_chars": 12})
    return app


async def reminders(ctx: Context, agent: Any, *calls: Any) -> list[list[str]]:
    """Make calls, each a name or a name with arguments, and return the contexts that each came with."""
    found = []
    for call in calls:
        name, arguments = (call, {}) if isinstance(call, str) else call
        result = await ctx.tools.execute(ToolCall(name, arguments, agent=agent))
        contexts = result.additional_contexts or ()
        found.append([content_text(message.content) for message in contexts])  # type: ignore[arg-type]
    return found


async def test_the_first_reminder_is_gentle_and_later_ones_show_the_arguments(ctx: Context):
    # HOST-141
    agent = LoneAgent()
    seen = await reminders(ctx, agent, *[("work", {"b": 2, "a": ["x" * 50]})] * 9)
    assert [len(texts) for texts in seen] == [0, 0, 1, 0, 1, 0, 0, 1, 0]
    assert seen[2][0] == (
        'You have called "work" 3 times in a row with the same arguments. '
        "If that does not get you further, try another way."
    )
    assert "5 times in a row" in seen[4][0]
    assert 'The arguments: {"a":["xxxxx…\n' in seen[4][0]


async def test_another_call_starts_afresh_and_the_order_of_keys_does_not_matter(ctx: Context):
    # HOST-141
    first, second = ("work", {"a": 1, "b": {"c": 2, "d": 3}}), ("work", {"b": {"d": 3, "c": 2}, "a": 1})
    assert [len(texts) for texts in await reminders(ctx, LoneAgent(), first, second, first)] == [0, 0, 1]
    changed = ("work", {"a": 1, "b": {"c": 2, "d": 4}})
    assert [len(texts) for texts in await reminders(ctx, LoneAgent(), first, second, changed, first)] == [0] * 4
    assert [len(texts) for texts in await reminders(ctx, LoneAgent(), "work", "work", "other", "work")] == [0] * 4


async def test_excluded_tools_neither_count_nor_start_afresh(ctx: Context):
    # HOST-141
    seen = await reminders(ctx, LoneAgent(), "work", "poll", "work", "poll", "poll", "poll", "work")
    assert [len(texts) for texts in seen] == [0, 0, 0, 0, 0, 0, 1]


async def test_only_included_tools_count(app: Context, register: Callable[..., None]):
    # HOST-141
    await app.plugin(RepeatReminderPlugin(), {"include": ["work"], "thresholds": [2]})
    register(answer)
    register(answer, "other")
    seen = await reminders(app, LoneAgent(), "other", "other", "work", "other", "work")
    assert [len(texts) for texts in seen] == [0, 0, 0, 0, 1]


async def test_agents_count_apart_and_others_do_not_count(ctx: Context):
    # HOST-141
    one, two = LoneAgent(), LoneAgent()
    await reminders(ctx, one, "work", "work")
    assert await reminders(ctx, two, "work", "work") == [[], []]
    assert await reminders(ctx, None, *["work"] * 8) == [[]] * 8
    assert len((await reminders(ctx, one, "work"))[0]) == 1


async def test_calls_of_programs_do_not_count(ctx: Context, register: Callable[..., None]):
    agent = LoneAgent()

    async def program(args: Any, run: Any) -> int:
        for _ in range(5):
            await ctx.tools.execute(ToolCall("work", agent=agent, parent=run.token))
        return 5

    register(program, "program")
    await reminders(ctx, agent, "work", "work", "program")
    assert [len(texts) for texts in await reminders(ctx, agent, "program", "program")] == [0, 1]


async def test_denied_calls_count_and_keep_their_result(ctx: Context):
    # HOST-141
    ctx.on(PRE_EXECUTE, lambda execution, next: Deny("no"))
    agent = LoneAgent()
    assert [len(texts) for texts in await reminders(ctx, agent, *["work"] * 3)] == [0, 0, 1]
    result = await ctx.tools.execute(ToolCall("work", agent=agent))
    assert content_text(result.content) == "Error: no"


async def test_a_message_of_the_users_starts_afresh(ctx: Context):
    # HOST-141
    agent = LoggedAgent()
    await reminders(ctx, agent, "work", "work")
    agent.session.append("user/message", user_message("from a plugin", MessageSource("plugin")), "append")
    assert len((await reminders(ctx, agent, "work"))[0]) == 1
    agent.session.append("user/message", user_message("go on"), "append")
    assert [len(texts) for texts in await reminders(ctx, agent, *["work"] * 3)] == [0, 0, 1]


@pytest.mark.parametrize("kind", ["accept", "block"])
async def test_contexts_of_listeners_further_in_come_behind(ctx: Context, kind: str):
    # HOST-141
    more = (user_message("theirs"),)
    decision: Any = (
        Accept(additional_contexts=more)
        if kind == "accept"
        else Block([TextBlock("blocked")], additional_contexts=more)
    )
    ctx.on(POST_EXECUTE, lambda review, next: decision)
    seen = await reminders(ctx, LoneAgent(), *["work"] * 3)
    assert [len(texts) for texts in seen] == [1, 1, 2]
    assert seen[2][1] == "theirs"


@pytest.mark.parametrize(
    "config",
    [
        {"thresholds": []},
        {"thresholds": [1]},
        {"thresholds": [3, 3]},
        {"thresholds": [2.5]},
        {"thresholds": "3"},
        {"include": ["a\\"]},
        {"arguments_preview_chars": -1},
        {"unknown": 1},
    ],
)
async def test_wrong_config_is_a_load_error(app: Context, config: dict[str, Any]):
    # HOST-141
    with pytest.raises(pydantic.ValidationError):
        await app.plugin(RepeatReminderPlugin(), config)
