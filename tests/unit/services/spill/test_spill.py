"""The local store, the policy, and the tool that reads back."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
from tests.support.agents import LoggedAgent, LoneAgent

from dsh_tools.content import Content, ImageBlock, JsonBlock, TextBlock, content_text
from dsh_tools.errors import ToolError
from dsh_tools.kernel.context import Context, create_context
from dsh_tools.pipeline.service import ToolsPlugin
from dsh_tools.services import LocalSpillPlugin, SpillPolicyPlugin
from dsh_tools.services.spill import LocalSpillStore, SavedText, SpillOwner, SpillSource, SpillStore
from dsh_tools.session.events import SessionHeader
from dsh_tools.session.log import EventLog
from dsh_tools.tools.definition import OutputSpec, ToolDefinition
from dsh_tools.tools.events import CODE_DISPATCH_LOG, POST_EXECUTE, Accept, Block, DispatchLogEntry
from dsh_tools.tools.execution import ToolCall
from dsh_tools.tools.result import ToolFailure, ToolSuccess

SOURCE = SpillSource("tool", "c1", "result")
LONG = "line of text\n" * 1000


class Memory:
    """A store that keeps texts in a list, and can fail."""

    def __init__(self) -> None:
        self.saved: list[tuple[SpillOwner, SpillSource, str, str]] = []
        self.fails = False

    async def save_text(
        self, *, owner: SpillOwner, source: SpillSource, suggested_name: str, content: str
    ) -> SavedText:
        if self.fails:
            raise OSError("disk full")
        self.saved.append((owner, source, suggested_name, content))
        return SavedText(f"mem-{len(self.saved)}", len(content), "Ask for it.")


@pytest.fixture
async def ctx(no_leaks: None) -> AsyncIterator[Context]:
    context = create_context()
    await context.plugin(ToolsPlugin())
    yield context
    await context.dispose()


@pytest.fixture
async def store(ctx: Context) -> Memory:
    memory = Memory()
    ctx.provide("spill", memory)
    await ctx.plugin(SpillPolicyPlugin(), {"max_inline_bytes": 500})
    return memory


def register(ctx: Context, result: Any = LONG, name: str = "tool", **more: Any) -> None:
    async def body(args: Any, run: Any) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    ctx.tools.register(
        ToolDefinition(
            name=name,
            description="",
            parameters={"type": "object", "properties": {}},
            output=more.pop("output", {"schema": {}}),
            execute=more.pop("execute", body),
            **more,
        )
    )


async def call(ctx: Context, agent: Any = None, name: str = "tool") -> Any:
    return await ctx.tools.execute(ToolCall(name, "{}", call_id="c1", agent=agent or LoggedAgent()))


# ── the policy ────────────────────────────────────────────────────────────────


async def test_a_long_result_is_kept_and_previewed(ctx: Context, store: Memory):
    # HOST-95, 100, 101
    register(ctx)
    result = await call(ctx)
    assert isinstance(result, ToolSuccess)
    assert result.value == LONG
    shown = content_text(result.content)
    assert len(shown.encode()) <= 500
    assert shown.endswith("Full formatted result stored at: mem-1. Ask for it.)")
    assert store.saved == [(SpillOwner("s1"), SOURCE, "tool-c1.txt", LONG)]


async def test_the_limit_is_in_bytes_and_inclusive(ctx: Context, store: Memory):
    # HOST-97
    for name, text in (("fits", "ä" * 250), ("over", "ä" * 250 + "x")):
        register(ctx, text, name)
    assert content_text((await call(ctx, name="fits")).content) == "ä" * 250
    assert store.saved == []
    await call(ctx, name="over")
    assert len(store.saved) == 1


@pytest.mark.parametrize("value", [-1, 1.5, "10", True])
async def test_a_wrong_limit_is_a_load_error(ctx: Context, value: Any):
    # HOST-97
    with pytest.raises(pydantic.ValidationError):
        await ctx.plugin(SpillPolicyPlugin(), {"max_inline_bytes": value})


async def test_without_a_limit_nothing_is_registered(ctx: Context):
    # HOST-97
    await ctx.plugin(SpillPolicyPlugin())
    assert ctx.bus.listeners(POST_EXECUTE) == ()
    assert ctx.bus.listeners(CODE_DISPATCH_LOG) == ()


async def test_it_bounds_what_other_listeners_made_of_a_result(ctx: Context, store: Memory):
    # HOST-98
    register(ctx, "short")
    ctx.on(POST_EXECUTE, lambda review, next: Accept(content=[TextBlock(LONG), TextBlock("end")]))
    result = await call(ctx)
    assert isinstance(result, ToolSuccess)
    assert result.value == "short"
    assert store.saved[0][3] == f"{LONG}\nend"
    assert len(content_text(result.content).encode()) <= 500


async def test_contexts_of_other_listeners_stay(ctx: Context, store: Memory):
    # HOST-100
    register(ctx, execute=_with_context)

    result = await call(ctx)
    assert len(store.saved) == 1
    assert [content_text(message.content) for message in result.additional_contexts] == ["more"]


async def _with_context(args: Any, run: Any) -> str:
    run.defer_context("more")
    return LONG


async def test_errors_are_bounded_too(ctx: Context, store: Memory):
    # HOST-100
    register(ctx, ToolError(LONG, "TOO_LOUD"))
    result = await call(ctx)
    assert isinstance(result, ToolFailure)
    assert result.error.message == LONG
    assert len(content_text(result.content).encode()) <= 500
    assert store.saved[0][3] == "Error: " + LONG


@pytest.mark.parametrize("kind", ["block", "value", "image", "json", "read", "read_file", "read_artifact", "nested"])
async def test_what_is_left_alone(ctx: Context, store: Memory, kind: str):
    # HOST-99
    long: Content = (TextBlock(LONG),)
    blocks = {"image": (TextBlock(LONG), ImageBlock("", "image/png")), "json": (JsonBlock([LONG]),)}
    answers: dict[str, Any] = {"block": Block(long), "value": Accept(value=LONG)}
    name = kind if kind.startswith("read") else "tool"
    register(ctx, LONG, name, output=OutputSpec({}, lambda args, value: blocks.get(kind, long)))
    if kind in answers:
        ctx.on(POST_EXECUTE, lambda review, next: answers[kind])
    if kind == "nested":

        async def outer(args: Any, run: Any) -> int:
            inner = await ctx.tools.execute(ToolCall("tool", "{}", agent=run.agent, parent=run.token))
            return len(content_text(inner.content))

        register(ctx, name="outer", execute=outer)
        assert (await call(ctx, name="outer")).value == len(LONG)
    else:
        assert content_text((await call(ctx, name=name)).content) in (
            LONG,
            f"{LONG}\n[image content]",
            "[json content]",
        )
    assert store.saved == []


async def test_excluded_tools_can_be_chosen(ctx: Context):
    store = Memory()
    ctx.provide("spill", store)
    await ctx.plugin(SpillPolicyPlugin(), {"max_inline_bytes": 500, "exclude": ["tool"]})
    register(ctx)
    register(ctx, name="read")
    await call(ctx)
    assert store.saved == []
    await call(ctx, name="read")
    assert len(store.saved) == 1


@pytest.mark.parametrize("kind", ["no session", "no agent", "no store", "failing store"])
async def test_where_nothing_can_be_kept_the_result_stays(ctx: Context, kind: str, caplog: pytest.LogCaptureFixture):
    # HOST-104; PIPE section P: the call succeeds
    store = Memory()
    store.fails = kind == "failing store"
    if kind != "no store":
        ctx.provide("spill", store)
    await ctx.plugin(SpillPolicyPlugin(), {"max_inline_bytes": 500})
    register(ctx)
    agent = LoneAgent() if kind == "no session" else LoggedAgent()
    call = ToolCall("tool", "{}", agent=None if kind == "no agent" else agent)
    with caplog.at_level(logging.WARNING, "dsh_tools"):
        result = await ctx.tools.execute(call)
    assert content_text(result.content) == LONG
    assert "stays inline" in caplog.text


async def test_a_notice_that_does_not_fit_leaves_the_result(ctx: Context):
    # HOST-102
    store = Memory()
    ctx.provide("spill", store)
    await ctx.plugin(SpillPolicyPlugin(), {"max_inline_bytes": 10})
    register(ctx)
    assert content_text((await call(ctx)).content) == LONG
    assert len(store.saved) == 1


async def test_a_store_is_looked_up_at_each_result(ctx: Context, store: Memory):
    # HOST-41, 104
    register(ctx)
    other = ctx.isolate("spill")
    assert other.get("spill") is None
    await call(ctx)
    assert len(store.saved) == 1


async def test_the_logged_copy_of_a_programs_call_is_bounded(ctx: Context, store: Memory):
    # HOST-105
    register(ctx, name="read")
    seen: list[Any] = []

    async def outer(args: Any, run: Any) -> str:
        inner = await ctx.tools.execute(ToolCall("read", "{}", agent=run.agent, parent=run.token))
        entry = DispatchLogEntry(run, "c1:code:1", "read", False, inner.content)
        logged = await ctx.waterfall(CODE_DISPATCH_LOG, entry, lambda: entry.content)
        seen.extend([inner.value, content_text(logged)])
        return "done"

    register(ctx, name="outer", execute=outer)
    await call(ctx, name="outer")
    value, logged = seen
    assert value == LONG
    assert len(logged.encode()) <= 500
    assert store.saved == [(SpillOwner("s1"), SpillSource("read", "c1:code:1", "dispatch"), "read-c1:code:1.txt", LONG)]


async def test_a_short_log_copy_is_untouched(ctx: Context, store: Memory):
    # HOST-105
    register(ctx, "short")
    content = (TextBlock("short"),)

    async def outer(args: Any, run: Any) -> bool:
        entry = DispatchLogEntry(run, "c1:code:1", "tool", False, content)
        return await ctx.waterfall(CODE_DISPATCH_LOG, entry, lambda: content) is content

    register(ctx, name="outer", execute=outer)
    assert (await call(ctx, name="outer")).value is True


# ── the local store ───────────────────────────────────────────────────────────


async def test_files_are_private_and_apart_by_session(no_leaks: None, tmp_path: Path):
    # HOST-96
    root = tmp_path / "deep" / "root"
    store = LocalSpillStore(root, "See {path}!")
    saved = await store.save_text(
        owner=SpillOwner("one"), source=SOURCE, suggested_name="tool-c1.txt", content="ä\ud800\r\n"
    )
    path = root / saved.locator
    assert saved.retrieval_hint == f"See {path}!"
    folder, name = saved.locator.split("/")
    assert folder == "session-7692c3ad3540"  # sha256 of "one"
    assert name.endswith("-tool-c1.txt")
    assert len(name.split("-")[0]) == 12
    assert path.read_bytes() == b"\xc3\xa4\xed\xa0\x80\r\n"
    assert saved.bytes == 7
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    again = await store.save_text(owner=SpillOwner("two"), source=SOURCE, suggested_name="x", content="")
    assert again.locator.split("/")[0] != folder


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("", "text"),
        ("a/../b", "a%2F..%2Fb"),
        ("a\\b:c*", "a%5Cb%3Ac%2A"),
        ("ü\x00", "%C3%BC%00"),
        ("x" * 500, "x" * 120),
    ],
)
async def test_names_become_harmless(no_leaks: None, tmp_path: Path, name: str, safe: str):
    # HOST-96
    saved = await LocalSpillStore(tmp_path).save_text(
        owner=SpillOwner("one"), source=SOURCE, suggested_name=name, content="text"
    )
    assert saved.locator.split("/", 1)[1][13:] == safe
    assert (tmp_path / saved.locator).read_text() == "text"


async def test_without_a_root_the_folder_is_private_and_temporary(no_leaks: None, monkeypatch: Any, tmp_path: Path):
    # HOST-96
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = LocalSpillStore()
    saved = await store.save_text(owner=SpillOwner("one"), source=SOURCE, suggested_name="x", content="text")
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / saved.locator).read_text() == "text"


async def test_a_failure_to_write_is_raised(no_leaks: None, tmp_path: Path):
    # HOST-95
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        await LocalSpillStore(tmp_path / "file").save_text(
            owner=SpillOwner("one"), source=SOURCE, suggested_name="x", content="text"
        )


async def test_a_cancelled_save_is_waited_for(no_leaks: None, tmp_path: Path):
    store = LocalSpillStore(tmp_path)
    task = asyncio.create_task(
        store.save_text(owner=SpillOwner("one"), source=SOURCE, suggested_name="x", content="text" * 100_000)
    )
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (path,) = tmp_path.rglob("*-x")
    assert path.stat().st_size == 400_000


async def test_the_seam_itself_cannot_be_mounted(ctx: Context):
    # HOST-44
    with pytest.raises(TypeError):
        await ctx.plugin(SpillStore)


# ── reading back ──────────────────────────────────────────────────────────────


@pytest.fixture
async def local(ctx: Context, tmp_path: Path) -> Context:
    await ctx.plugin(LocalSpillPlugin(), {"root": tmp_path})
    await ctx.plugin(SpillPolicyPlugin(), {"max_inline_bytes": 500})
    return ctx


def locator_in(result: Any) -> str:
    return content_text(result.content).rsplit("stored at: ", 1)[1].split(". ")[0]


async def read(ctx: Context, agent: Any, **arguments: Any) -> Any:
    return await ctx.tools.execute(ToolCall("read_artifact", arguments, agent=agent))


async def test_a_model_pages_through_what_was_kept(local: Context):
    text = "".join(f"зеленый {number}\U0001f600\n" for number in range(2000))
    register(local, text)
    agent = LoggedAgent()
    first = await call(local, agent)
    assert "Page through it with read_artifact." in content_text(first.content)
    locator = locator_in(first)
    pieces, offset = [], 0
    while offset is not None:
        result = await read(local, agent, locator=locator, offset=offset, limit=1001)
        assert isinstance(result, ToolSuccess), result
        assert result.value["offset"] == offset
        assert result.value["totalBytes"] == len(text.encode())
        pieces.append(result.value["text"])
        offset = result.value.get("nextOffset")
    assert "".join(pieces) == text
    assert "this is the end" in content_text(result.content)


async def test_an_offset_inside_a_character_moves_on(local: Context):
    register(local, "\U0001f600" * 1000)
    agent = LoggedAgent()
    locator = locator_in(await call(local, agent))
    for offset, begins in ((1, 4), (3, 4), (4, 4), (4000, 4000), (99_999, 4000)):
        result = await read(local, agent, locator=locator, offset=offset, limit=8)
        assert result.value["offset"] == begins
        assert set(result.value["text"]) <= {"\U0001f600"}
    # A limit that is smaller than a character still gives one.
    tiny = await read(local, agent, locator=locator, limit=1)
    assert (tiny.value["text"], tiny.value["nextOffset"]) == ("\U0001f600", 4)


async def test_only_the_own_session_is_read(local: Context, tmp_path: Path):
    register(local)
    owner = LoggedAgent(session="owner")
    locator = locator_in(await call(local, owner))
    assert (await read(local, owner, locator=locator)).is_error is False
    forked, stranger = LoggedAgent(), LoggedAgent(session="stranger")
    forked.session = EventLog(SessionHeader("fork", 0, parent_session="owner"))
    assert (await read(local, forked, locator=locator)).is_error is False
    for agent, wanted in [
        (stranger, locator),
        (owner, str(tmp_path / locator)),
        (owner, f"{locator}/../{locator.split('/')[1]}"),
        (owner, f"{locator.split('/')[0]}/../../etc/passwd"),
        (owner, locator + "\n"),
        (owner, locator[:-1]),
        (owner, ""),
    ]:
        result = await read(local, agent, locator=wanted)
        assert isinstance(result, ToolFailure)
        assert result.error.info is not None
        assert result.error.info.code == "UNKNOWN_ARTIFACT"
    result = await read(local, LoneAgent(), locator=locator)
    assert "this call has none" in content_text(result.content)


async def test_a_link_put_in_the_folder_is_not_followed(local: Context, tmp_path: Path):
    register(local)
    agent = LoggedAgent()
    locator = locator_in(await call(local, agent))
    secret = tmp_path / "secret"
    secret.write_text("secret")
    os.unlink(tmp_path / locator)
    os.symlink(secret, tmp_path / locator)
    result = await read(local, agent, locator=locator)
    assert result.is_error
    assert "secret" not in content_text(result.content).replace(str(secret), "")


async def test_the_tool_can_be_left_out(ctx: Context, tmp_path: Path):
    await ctx.plugin(LocalSpillPlugin(), {"root": tmp_path, "read_tool": False})
    await ctx.plugin(SpillPolicyPlugin(), {"max_inline_bytes": 500})
    assert ctx.tools.get("read_artifact") is None
    register(ctx)
    result = await call(ctx)
    assert f"It is the file {tmp_path}" in content_text(result.content)
