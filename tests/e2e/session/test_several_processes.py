"""One file, several connections in one process, and other processes that come and go: nothing that was stored is lost."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from dsh_tools.content import content_text
from dsh_tools.errors import SessionError
from dsh_tools.kernel import create_context
from dsh_tools.pipeline import ToolsPlugin
from dsh_tools.session import EventDraft, EventLog, Sessions, SqliteStore, is_held, is_sqlite_store
from dsh_tools.toolkits.files import FilesPlugin
from dsh_tools.toolkits.search import SearchPlugin
from dsh_tools.tools.execution import ToolCall

VISIT = """
import asyncio, sys
from dsh_tools.session import Sessions, SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    try:
        await Sessions(store).create(id=sys.argv[2])
    finally:
        await store.close()

asyncio.run(main())
"""


async def visit(path: Path, session: str) -> None:
    """Have another process open the file, write, and close its last connection."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", VISIT, str(path), session, stderr=-1)
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


async def say(log: EventLog, turn: int) -> None:
    log.append("turn/start", {"turn": turn})
    log.append("turn/end", {"turn": turn, "reason": {"kind": "completed"}})
    await log.flush()


async def stored(path: Path, session: str) -> int:
    """How many events somebody finds who opens the file now."""
    store = SqliteStore(path, read_only=True)
    try:
        return len((await store.read(session)).events)
    finally:
        await store.close()


async def read_and_search(folder: Path) -> None:
    """Let the tools of the same process have a go at every file there."""
    (folder / "notes.txt").write_text("SQLite and me\n")
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin())
        await ctx.plugin(FilesPlugin(), {"root": str(folder)})
        await ctx.plugin(SearchPlugin(), {"root": str(folder), "engine": "library"})
        found = await ctx.tools.execute(ToolCall("grep", {"pattern": "SQLite"}))
        assert "notes.txt" in content_text(found.content)
        for name in ("sessions.sqlite", "sessions.sqlite-shm"):
            refused = await ctx.tools.execute(ToolCall("read", {"file_path": name}))
            assert f"{name} keeps the sessions of this application" in content_text(refused.content)
            (folder / "link").unlink(missing_ok=True)
            (folder / "link").hardlink_to(folder / name)
            refused = await ctx.tools.execute(ToolCall("read", {"file_path": "link"}))
            assert "keeps the sessions of this application" in content_text(refused.content)


@pytest.mark.parametrize("look", ["read", "second store", "read-only store", "kind of file", "tools"])
async def test_looking_in_the_writing_process_costs_no_events(tmp_path: Path, look: str) -> None:
    # Whatever opens or closes the file beside the writer must not take SQLite's locks away.
    path = tmp_path / "sessions.sqlite"
    store = SqliteStore(path)
    sessions = Sessions(store)
    log = await sessions.create(id="mine")
    await say(log, 1)
    others: list[SqliteStore] = []
    if look == "read":
        await store.read("mine")
    elif look == "kind of file":
        assert is_sqlite_store(path)
    elif look == "tools":
        await read_and_search(tmp_path)
    else:
        others.append(SqliteStore(path, read_only=look == "read-only store"))
        await others[0].read("mine")
        assert await others[0].list_sessions()
    await visit(path, "theirs")
    for turn in range(2, 5):
        await say(log, turn)
        assert await stored(path, "mine") == 2 * turn
        await visit(path, f"theirs {turn}")
    for other in others:
        await other.close()
    await visit(path, "their last")
    await say(log, 5)
    await sessions.close()
    await store.close()
    assert await stored(path, "mine") == 10
    assert not is_held(path.stat())
    reader = SqliteStore(path, read_only=True)
    assert len(await reader.list_sessions()) == 6
    await reader.close()


async def test_many_connections_may_make_one_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "new.sqlite"
    stores = [SqliteStore(path) for _ in range(6)]

    async def fill(number: int) -> None:
        sessions = Sessions(stores[number])
        log = await sessions.create(id=f"s{number}", seed=[EventDraft("turn/start", {"turn": 1})])
        await log.flush()
        await asyncio.gather(stores[number].read(f"s{number}"), visit(path, f"visitor {number}"))
        log.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
        await sessions.close()

    await asyncio.gather(*(fill(number) for number in range(len(stores))))
    for store in stores:
        await store.close()
    for number in range(len(stores)):
        assert await stored(path, f"s{number}") == 3
    assert path.stat().st_mode & 0o777 == 0o600


async def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for store in (SqliteStore(folder), SqliteStore(folder, read_only=True)):
        with pytest.raises(SessionError, match="Is a directory"):
            await store.list_sessions()
        await store.close()
    with pytest.raises(SessionError, match="No such file"):
        is_sqlite_store(tmp_path / "nothing")
    export = tmp_path / "export.jsonl"
    export.write_text('{"id": "x"}\n' * 100)
    assert not is_sqlite_store(export)
    empty = tmp_path / "empty"
    empty.touch()
    assert not is_sqlite_store(empty)
