"""The file tools through the pipeline, on real files."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.calls import run, text_of
from tests.support.toolkits import SessionAgent, error_of, failed, mounted, value_of

from dsh_tools.errors import ConfigError
from dsh_tools.kernel import Context
from dsh_tools.kernel.abort import AbortController
from dsh_tools.toolkits import FilesPlugin, files
from dsh_tools.tools import ToolCall, view_of_call, view_of_result
from dsh_tools.tools.cards import DiffCall, DiffResult, FileDiff, GenericCall, Location, ReadResult
from dsh_tools.tools.definition import PresentedResult


@pytest.fixture
async def ctx(no_leaks: None, tmp_path: Path) -> AsyncIterator[Context]:
    async with mounted(FilesPlugin(), root=str(tmp_path), images=True) as context:
        yield context


async def card_of(ctx: Context, name: str, arguments: Any) -> Any:
    """The result card of a call, as a replay would draw it."""
    result = await run(ctx, name, arguments)
    presented = PresentedResult(result.content, result.is_error, result.meta)
    return view_of_result(ctx.tools.get(name), arguments, presented)


# ── mounting ───────────────────────────────────────────────────────────────────


async def test_the_tools_come_and_go_with_the_plugin(no_leaks: None, tmp_path: Path):
    async with mounted(files, root=str(tmp_path)) as ctx:
        names = [schema.name for schema in ctx.tools.schemas()]
        assert names == ["read", "write", "edit", "multi_edit", "delete", "move"]
    async with mounted(files, root=str(tmp_path), read_only=True) as ctx:
        assert [schema.name for schema in ctx.tools.schemas()] == ["read"]


async def test_reading_may_overlap_and_changing_may_not(ctx: Context):
    # HOST-209
    arguments = {"file_path": "a", "content": "", "old_string": "a", "new_string": "b"}
    modes = {
        name: ctx.tools.execution_mode(ToolCall(name, {key: arguments[key] for key in keys}))
        for name, keys in {
            "read": ["file_path"],
            "write": ["file_path", "content"],
            "edit": ["file_path", "old_string", "new_string"],
            "delete": ["file_path"],
        }.items()
    }
    assert modes == {"read": "parallel", "write": "exclusive", "edit": "exclusive", "delete": "exclusive"}
    assert ctx.tools.execution_mode(ToolCall("read_image", {"file_path": "a.png"})) == "parallel"


@pytest.mark.parametrize("config", [{"read_limit": 0}, {"read_max_bytes": -1}, {"read_limit": "many"}, {"nope": 1}])
async def test_bad_settings_are_load_errors(tmp_path: Path, config: dict[str, Any]):
    # HOST-206
    with pytest.raises(ValueError):
        async with mounted(FilesPlugin(), root=str(tmp_path), **config):
            pass


async def test_a_folder_that_is_not_there_is_a_load_error(tmp_path: Path):
    with pytest.raises(ConfigError, match="does not exist"):
        async with mounted(FilesPlugin(), root=str(tmp_path / "nowhere")):
            pass


# ── read ───────────────────────────────────────────────────────────────────────


async def test_reading_a_file(ctx: Context, tmp_path: Path):
    # HOST-206, 208
    (tmp_path / "a.txt").write_text("one\ntwo\nthree")
    result = await run(ctx, "read", {"file_path": "a.txt"})
    assert result.value == {
        "path": "a.txt",
        "offset": 1,
        "totalLines": 3,
        "lines": [{"number": 1, "text": "one"}, {"number": 2, "text": "two"}, {"number": 3, "text": "three"}],
    }
    assert text_of(result) == (
        "<path>a.txt</path>\n<type>file</type>\n<content>\n"
        "1: one\n2: two\n3: three\n(End of file, 3 lines in all)\n</content>"
    )


async def test_reading_a_piece_says_where_to_go_on(ctx: Context, tmp_path: Path):
    # HOST-208
    (tmp_path / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 11)))
    text = text_of(await run(ctx, "read", {"file_path": "a.txt", "offset": 3, "limit": 2}))
    assert "\n3: 3\n4: 4\n(Lines 3-4 of 10. Go on with offset 5.)\n" in text
    assert "(End of file, 10 lines in all)" in text_of(await run(ctx, "read", {"file_path": "a.txt", "offset": 9}))


async def test_the_size_limit_cuts_and_says_so(no_leaks: None, tmp_path: Path):
    # HOST-207, 208
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    async with mounted(FilesPlugin(), root=str(tmp_path), read_max_bytes=40, read_max_line_length=4) as ctx:
        result = await run(ctx, "read", {"file_path": "a.txt"})
        assert result.value["lines"][0]["text"] == "line... (line truncated to 4 chars)"
        assert result.value["totalLines"] == 100
        assert "(Cut at the size limit: lines 1-1 of 100. Go on with offset 2.)" in text_of(result)


async def test_an_empty_file_and_an_offset_past_the_end(ctx: Context, tmp_path: Path):
    # HOST-207
    (tmp_path / "empty").touch()
    (tmp_path / "one").write_text("x\n")
    assert (await value_of(ctx, "read", {"file_path": "empty"}))["lines"] == []
    code, message = await error_of(ctx, "read", {"file_path": "one", "offset": 2})
    assert (code, message) == ("FS_NOT_FOUND", "one has 1 lines; there is no line 2")
    assert (await error_of(ctx, "read", {"file_path": "empty", "offset": 2}))[0] == "FS_NOT_FOUND"


async def test_a_limit_above_the_cap_is_refused_before_anything_is_read(ctx: Context):
    # HOST-206, D25
    code, message = await error_of(ctx, "read", {"file_path": "nowhere", "limit": 2001})
    assert code == "INVALID_ARGS"
    assert "limit must be at most 2000" in message
    assert (await error_of(ctx, "read", {"file_path": "nowhere", "offset": 0}))[0] == "INVALID_ARGS"


async def test_a_large_file_is_read_in_pieces(no_leaks: None, tmp_path: Path):
    # HOST-206
    path = tmp_path / "large"
    path.write_bytes(b"".join(b"line %d \xc3\xa9\r\n" % n for n in range(1, 200_001)))
    async with mounted(FilesPlugin(), root=str(tmp_path), read_stream_min_size=1000) as pieces:
        one = await value_of(pieces, "read", {"file_path": "large", "offset": 199_999})
    async with mounted(FilesPlugin(), root=str(tmp_path)) as whole:
        other = await value_of(whole, "read", {"file_path": "large", "offset": 199_999})
    assert one == other
    assert one["lines"] == [{"number": 199_999, "text": "line 199999 é"}, {"number": 200_000, "text": "line 200000 é"}]


async def test_a_call_is_aborted_between_pieces(no_leaks: None, tmp_path: Path):
    # HOST-216
    (tmp_path / "large").write_bytes(b"0123456789\n" * 5_000_000)
    controller = AbortController()
    async with mounted(FilesPlugin(), root=str(tmp_path), read_stream_min_size=1) as ctx:
        asyncio.get_running_loop().call_later(0.02, controller.abort)
        started = time.monotonic()
        result = await run(ctx, "read", {"file_path": "large"}, signal=controller.signal)
        assert failed(result)[0] in ("ABORTED", "FS_ABORTED")
        assert time.monotonic() - started < 1


async def test_reading_another_encoding(ctx: Context, tmp_path: Path):
    (tmp_path / "u16").write_bytes("\ufeffwörter\r\nzwei\r\n".encode("utf-16-le"))
    value = await value_of(ctx, "read", {"file_path": "u16"})
    assert [line["text"] for line in value["lines"]] == ["wörter", "zwei"]


async def test_the_card_of_a_read(ctx: Context, tmp_path: Path):
    # HOST-210
    (tmp_path / "a.py").write_text("x = 1\n")
    card = await card_of(ctx, "read", {"file_path": "a.py"})
    assert isinstance(card, ReadResult)
    assert (card.path, card.offset, card.total_lines, card.lang) == ("a.py", 1, 1, "python")
    assert card.lines[0].text == "x = 1"
    assert view_of_call(ctx.tools.get("read"), {"file_path": "a.py", "offset": 4}) == GenericCall(
        "Read a.py from line 4", kind="read", locations=(Location("a.py", 4),)
    )


@pytest.mark.parametrize("meta", [None, {}, {"path": 1}, {"path": "a", "offset": 1, "lines": "x", "totalLines": 1}])
async def test_a_replay_with_other_meta_shows_no_card(ctx: Context, meta: Any):
    # HOST-210
    presented = PresentedResult((), False, meta)
    assert view_of_result(ctx.tools.get("read"), {"file_path": "a"}, presented) is None
    assert view_of_result(ctx.tools.get("write"), {"file_path": "a", "content": ""}, presented) is None


async def test_the_language_of_a_file_is_looked_up_by_its_own_name_only(ctx: Context, tmp_path: Path):
    # HOST-210
    for name in ("__class__", "a.__len__", "get", "a.get"):
        (tmp_path / name).write_text("x")
        assert (await card_of(ctx, "read", {"file_path": name})).lang is None


# ── write ──────────────────────────────────────────────────────────────────────


async def test_writing_a_new_file(ctx: Context, tmp_path: Path):
    # HOST-211
    result = await run(ctx, "write", {"file_path": "new/deep/a.txt", "content": "one\ntwo\n"})
    assert result.value == {
        "path": "new/deep/a.txt",
        "operation": "create",
        "before": None,
        "after": "one\ntwo\n",
    }
    assert text_of(result) == "Created new/deep/a.txt (2 lines)"
    assert (tmp_path / "new/deep/a.txt").read_text() == "one\ntwo\n"
    assert os.listdir(tmp_path / "new/deep") == ["a.txt"]


async def test_writing_over_a_file_needs_a_look_at_it(ctx: Context, tmp_path: Path):
    # HOST-214
    path = tmp_path / "a.txt"
    path.write_text("old\n")
    arguments = {"file_path": "a.txt", "content": "new\n"}
    code, message = await error_of(ctx, "write", arguments)
    assert code == "FS_NOT_OBSERVED"
    assert "read it first" in message
    await value_of(ctx, "read", {"file_path": "a.txt"})
    path.write_text("changed by another\n")
    code, message = await error_of(ctx, "write", arguments)
    assert code == "FS_STALE_VERSION"
    assert "read it again" in message
    await value_of(ctx, "read", {"file_path": "a.txt"})
    value = await value_of(ctx, "write", arguments)
    assert (value["operation"], value["before"]) == ("update", "changed by another\n")
    # Its own writing counts as a look.
    await value_of(ctx, "write", {"file_path": "a.txt", "content": "newer\n"})
    assert path.read_text() == "newer\n"


async def test_a_file_that_was_not_there_when_looked_for(ctx: Context, tmp_path: Path):
    # HOST-214
    assert (await error_of(ctx, "read", {"file_path": "a.txt"}))[0] == "FS_NOT_FOUND"
    (tmp_path / "a.txt").write_text("came meanwhile")
    code, _ = await error_of(ctx, "write", {"file_path": "a.txt", "content": "x"})
    assert code == "FS_STALE_VERSION"
    edit = {"file_path": "a.txt", "old_string": "came", "new_string": "x"}
    assert (await error_of(ctx, "edit", edit))[0] == "FS_STALE_VERSION"


async def test_a_file_that_is_touched_but_not_changed_can_be_edited(ctx: Context, tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("same\n")
    await value_of(ctx, "read", {"file_path": "a.txt"})
    os.utime(path, (1, 1))
    await value_of(ctx, "edit", {"file_path": "a.txt", "old_string": "same", "new_string": "other"})


async def test_a_change_that_keeps_time_and_size_is_seen(ctx: Context, tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("same\n")
    found = path.stat()
    await value_of(ctx, "read", {"file_path": "a.txt"})
    path.write_text("SAME\n")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    code, _ = await error_of(ctx, "edit", {"file_path": "a.txt", "old_string": "SAME", "new_string": "other"})
    assert code == "FS_STALE_VERSION"


async def test_each_caller_has_to_look_by_itself(ctx: Context, tmp_path: Path):
    # HOST-214
    (tmp_path / "a.txt").write_text("old\n")
    one, other = SessionAgent(tmp_path), SessionAgent(tmp_path)
    await value_of(ctx, "read", {"file_path": "a.txt"}, agent=one)
    edit = {"file_path": "a.txt", "old_string": "old", "new_string": "new"}
    assert (await error_of(ctx, "edit", edit, agent=other))[0] == "FS_NOT_OBSERVED"
    await value_of(ctx, "edit", edit, agent=one)


async def test_without_the_policy_nothing_has_to_be_read(no_leaks: None, tmp_path: Path):
    # HOST-214
    (tmp_path / "a.txt").write_text("old\n")
    (tmp_path / "b.bin").write_bytes(b"\0\1")
    async with mounted(FilesPlugin(), root=str(tmp_path), require_read=False) as ctx:
        value = await value_of(ctx, "write", {"file_path": "a.txt", "content": "new"})
        assert value["before"] == "old\n"
        value = await value_of(ctx, "write", {"file_path": "b.bin", "content": "text"})
        assert (value["operation"], value["before"]) == ("update", None)


async def test_writing_keeps_mode_mark_and_line_ends(ctx: Context, tmp_path: Path):
    # HOST-211
    path = tmp_path / "run.bat"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    path.chmod(0o750)
    await value_of(ctx, "read", {"file_path": "run.bat"})
    value = await value_of(ctx, "write", {"file_path": "run.bat", "content": "a\nb\n"})
    assert value["after"] == "a\r\nb\r\n"
    assert path.read_bytes() == b"\xef\xbb\xbfa\r\nb\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


async def test_a_new_file_gets_the_mode_that_others_get(ctx: Context, tmp_path: Path):
    before = os.umask(0o027)
    try:
        await value_of(ctx, "write", {"file_path": "a", "content": ""})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


async def test_attributes_of_a_file_stay(ctx: Context, tmp_path: Path):
    path = tmp_path / "a"
    path.write_text("x")
    kept = hasattr(os, "setxattr")
    try:
        os.setxattr(path, "user.note", b"mine")
    except OSError:
        kept = False  # the file system has none
    await value_of(ctx, "read", {"file_path": "a"})
    await value_of(ctx, "write", {"file_path": "a", "content": "y"})
    assert path.read_text() == "y"
    assert not kept or os.getxattr(path, "user.note") == b"mine"


async def test_writing_through_a_link_keeps_the_link(ctx: Context, tmp_path: Path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    await value_of(ctx, "read", {"file_path": "link"})
    value = await value_of(ctx, "write", {"file_path": "link", "content": "new"})
    assert value["path"] == "real"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


async def test_what_cannot_be_written(ctx: Context, tmp_path: Path):
    # HOST-216
    (tmp_path / "folder").mkdir()
    (tmp_path / "bin").write_bytes(b"\0\1\2")
    assert (await error_of(ctx, "write", {"file_path": "folder", "content": ""}))[0] == "FS_NOT_REGULAR_FILE"
    assert (await error_of(ctx, "write", {"file_path": "new/", "content": ""}))[0] == "FS_NOT_REGULAR_FILE"
    assert (await error_of(ctx, "write", {"file_path": "bin/x", "content": ""}))[0] == "FS_NOT_DIRECTORY"
    code, message = await error_of(ctx, "write", {"file_path": "bin", "content": "x"})
    assert code == "FS_NOT_TEXT"
    assert message.endswith("to put a text in its place, delete it first")
    code, _ = await error_of(ctx, "write", {"file_path": "big", "content": "x" * 3_000_000})
    assert code == "FS_TOO_LARGE"
    code, _ = await error_of(ctx, "write", {"file_path": "half", "content": "\ud800"})
    assert code == "FS_NOT_TEXT"
    assert sorted(os.listdir(tmp_path)) == ["bin", "folder"]


async def test_a_failed_write_leaves_nothing(ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # HOST-216
    (tmp_path / "a").write_text("old")
    await value_of(ctx, "read", {"file_path": "a"})

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, message = await error_of(ctx, "write", {"file_path": "a", "content": "new"})
    assert (code, message) == ("FS_IO_ERROR", "a: no space left on device")
    assert (await error_of(ctx, "write", {"file_path": "b", "content": "new"}))[0] == "FS_IO_ERROR"
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old"


async def test_the_cards_of_a_write(ctx: Context, tmp_path: Path):
    # HOST-212; PIPE-211, 214
    arguments = {"file_path": "a", "content": "one\n"}
    pending = view_of_call(ctx.tools.get("write"), arguments)
    assert pending == DiffCall("Write a", (FileDiff("a", None, "one\n"),), (Location("a"),))
    assert await card_of(ctx, "write", arguments) == DiffResult((FileDiff("a", None, "one\n"),))
    card = await card_of(ctx, "write", {"file_path": "a", "content": "two\n"})
    assert card == DiffResult((FileDiff("a", "one", "two"),))


# ── edit ───────────────────────────────────────────────────────────────────────


async def test_editing_a_file(ctx: Context, tmp_path: Path):
    # HOST-211
    (tmp_path / "a.py").write_text("x = 1\ny = 2\n")
    await value_of(ctx, "read", {"file_path": "a.py"})
    arguments = {"file_path": "a.py", "old_string": "y = 2", "new_string": "y = 3\nz = 4"}
    result = await run(ctx, "edit", arguments)
    assert result.value == {"path": "a.py", "before": "x = 1\ny = 2\n", "after": "x = 1\ny = 3\nz = 4\n"}
    assert text_of(result) == "Edited a.py (one more line)"
    assert (tmp_path / "a.py").read_text() == "x = 1\ny = 3\nz = 4\n"
    assert view_of_result(ctx.tools.get("edit"), arguments, PresentedResult(result.content, False, result.meta)) == (
        DiffResult((FileDiff("a.py", "x = 1\ny = 2", "x = 1\ny = 3\nz = 4"),))
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [("", "x", "must not be empty"), ("x", "x", "are the same"), ("a\r\nb", "a\nb", "are the same")],
)
async def test_an_edit_without_sense_is_refused_before_anybody_is_asked(ctx: Context, old: str, new: str, words: str):
    # HOST-211, D25
    code, message = await error_of(ctx, "edit", {"file_path": "nowhere", "old_string": old, "new_string": new})
    assert code == "INVALID_ARGS"
    assert words in message


async def test_an_edit_of_something_unseen_or_missing(ctx: Context, tmp_path: Path):
    # HOST-214
    (tmp_path / "a").write_text("text")
    edit = {"old_string": "text", "new_string": "x"}
    assert (await error_of(ctx, "edit", {"file_path": "a", **edit}))[0] == "FS_NOT_OBSERVED"
    code, message = await error_of(ctx, "edit", {"file_path": "A", **edit})
    assert (code, message) == ("FS_NOT_FOUND", "A does not exist; there is a")


async def test_an_edit_that_does_not_fit_changes_nothing(ctx: Context, tmp_path: Path):
    # HOST-211, 216
    (tmp_path / "a").write_text("\tone\none\n")
    await value_of(ctx, "read", {"file_path": "a"})
    code, message = await error_of(ctx, "edit", {"file_path": "a", "old_string": "one", "new_string": "x"})
    assert code == "FS_AMBIGUOUS_EDIT"
    assert "(lines 1, 2)" in message
    code, message = await error_of(ctx, "edit", {"file_path": "a", "old_string": "    one", "new_string": "x"})
    assert code == "FS_EDIT_NOT_FOUND"
    assert "indents with 1 tab, old_string with 4 spaces" in message
    assert (tmp_path / "a").read_text() == "\tone\none\n"
    everywhere = {"file_path": "a", "old_string": "one", "new_string": "x", "replace_all": True}
    assert (await value_of(ctx, "edit", everywhere))["after"] == "\tx\nx\n"


async def test_several_edits_are_all_made_or_none(ctx: Context, tmp_path: Path):
    (tmp_path / "a").write_text("one two three\n")
    await value_of(ctx, "read", {"file_path": "a"})
    edits = [{"old_string": "one", "new_string": "1"}, {"old_string": "1 two", "new_string": "2"}]
    bad = [*edits, {"old_string": "four", "new_string": "4"}]
    code, message = await error_of(ctx, "multi_edit", {"file_path": "a", "edits": bad})
    assert code == "FS_EDIT_NOT_FOUND"
    assert message.startswith("edit 3 of 3, none of which was made: old_string is not in a.")
    assert (tmp_path / "a").read_text() == "one two three\n"
    assert (await value_of(ctx, "multi_edit", {"file_path": "a", "edits": edits}))["after"] == "2 three\n"
    code, message = await error_of(
        ctx, "multi_edit", {"file_path": "a", "edits": [{"old_string": "", "new_string": ""}]}
    )
    assert code == "INVALID_ARGS"
    assert "edits[0].old_string must not be empty" in message
    assert (await error_of(ctx, "multi_edit", {"file_path": "a", "edits": []}))[0] == "INVALID_ARGS"


# ── delete and move ────────────────────────────────────────────────────────────


async def test_deleting(ctx: Context, tmp_path: Path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").mkdir()
    assert await value_of(ctx, "delete", {"file_path": "link"}) == {"path": "link", "kind": "link"}
    assert await value_of(ctx, "delete", {"file_path": "a"}) == {"path": "a", "kind": "file"}
    assert Path("/etc/passwd").exists()
    assert (await error_of(ctx, "delete", {"file_path": "a"}))[0] == "FS_NOT_FOUND"
    assert (await error_of(ctx, "delete", {"file_path": "folder"}))[0] == "FS_NOT_REGULAR_FILE"
    assert (await error_of(ctx, "delete", {"file_path": "."}))[0] == "FS_NOT_REGULAR_FILE"
    assert os.listdir(tmp_path) == ["folder"]


async def test_what_was_read_and_has_changed_is_not_deleted(ctx: Context, tmp_path: Path):
    # HOST-214
    for name in ("a", "b"):
        (tmp_path / name).write_text("x")
        await value_of(ctx, "read", {"file_path": name})
        (tmp_path / name).write_text("y")
    assert (await error_of(ctx, "delete", {"file_path": "a"}))[0] == "FS_STALE_VERSION"
    assert (await error_of(ctx, "move", {"source": "b", "destination": "c"}))[0] == "FS_STALE_VERSION"


async def test_moving(ctx: Context, tmp_path: Path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "folder" / "in").mkdir(parents=True)
    await value_of(ctx, "read", {"file_path": "a"})
    await value_of(ctx, "move", {"source": "a", "destination": "new/b"})
    # What was known of the file goes with it.
    await value_of(ctx, "edit", {"file_path": "new/b", "old_string": "x", "new_string": "y"})
    await value_of(ctx, "move", {"source": "folder", "destination": "other"})
    assert (tmp_path / "other" / "in").is_dir()
    code, message = await error_of(ctx, "move", {"source": "new/b", "destination": "other"})
    assert code == "FS_EXISTS"
    assert "whole new path" in message
    assert (await error_of(ctx, "move", {"source": "other", "destination": "other/in/x"}))[0] == "FS_IO_ERROR"
    assert (await error_of(ctx, "move", {"source": "nope", "destination": "x"}))[0] == "FS_NOT_FOUND"
    assert (await error_of(ctx, "move", {"source": ".", "destination": "x"}))[0] == "FS_NOT_REGULAR_FILE"
    assert (tmp_path / "new" / "b").read_text() == "y"


async def test_the_cards_of_delete_and_move(ctx: Context):
    assert view_of_call(ctx.tools.get("delete"), {"file_path": "a"}) == GenericCall(
        "Delete a", kind="delete", locations=(Location("a"),)
    )
    assert view_of_call(ctx.tools.get("move"), {"source": "a", "destination": "b"}) == GenericCall(
        "Move a to b", kind="move", locations=(Location("a"), Location("b"))
    )


# ── images ─────────────────────────────────────────────────────────────────────


async def test_looking_at_an_image(ctx: Context, tmp_path: Path):
    # HOST-217
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n0000")
    (tmp_path / "b.png").write_text("no image")
    result = await run(ctx, "read_image", {"file_path": "a.png"})
    assert result.content[0].mime_type == "image/png"
    assert result.value["bytes"] == 12
    assert (await error_of(ctx, "read_image", {"file_path": "b.png"}))[0] == "FS_NOT_TEXT"
    code, message = await error_of(ctx, "read_image", {"file_path": "a.txt"})
    assert code == "INVALID_ARGS"
    assert "use read" in message


# ── folders ────────────────────────────────────────────────────────────────────


async def test_paths_start_at_the_sessions_folder(no_leaks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # HOST-213
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a").write_text("session")
    (tmp_path / "a").write_text("process")
    monkeypatch.chdir(tmp_path)
    async with mounted(FilesPlugin()) as ctx:
        agent = SessionAgent(tmp_path / "mine")
        for arguments in ({"file_path": "a"}, {"file_path": str(tmp_path / "mine" / "a")}):
            assert (await value_of(ctx, "read", arguments, agent=agent))["lines"][0]["text"] == "session"
        assert (await value_of(ctx, "read", {"file_path": "a"}))["lines"][0]["text"] == "process"
        assert (await error_of(ctx, "read", {"file_path": "../a"}, agent=agent))[0] == "FS_SANDBOX_DENIED"


async def test_a_configured_root_holds_for_sessions_elsewhere(no_leaks: None, tmp_path: Path):
    # HOST-213
    (tmp_path / "root").mkdir()
    (tmp_path / "a").write_text("outside")
    async with mounted(FilesPlugin(), root=str(tmp_path / "root")) as ctx:
        assert (await error_of(ctx, "read", {"file_path": "a"}, agent=SessionAgent(tmp_path)))[0] == "FS_SANDBOX_DENIED"


async def test_further_roots_and_read_only_ones(no_leaks: None, tmp_path: Path):
    for name in ("root", "more", "docs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    config = {"extra_roots": [str(tmp_path / "more")], "read_only_roots": [str(tmp_path / "docs")]}
    async with mounted(FilesPlugin(), root=str(tmp_path / "root"), **config) as ctx:
        for name in ("more", "docs"):
            path = str(tmp_path / name / "a")
            assert (await value_of(ctx, "read", {"file_path": path}))["path"] == path
        await value_of(ctx, "write", {"file_path": str(tmp_path / "more" / "b"), "content": ""})
        docs = str(tmp_path / "docs" / "a")
        for name, arguments in (
            ("write", {"file_path": docs, "content": ""}),
            ("write", {"file_path": str(tmp_path / "docs/new/x"), "content": ""}),
            ("edit", {"file_path": docs, "old_string": "docs", "new_string": "x"}),
            ("delete", {"file_path": docs}),
            ("move", {"source": docs, "destination": "b"}),
            ("move", {"source": "a", "destination": str(tmp_path / "docs" / "c")}),
        ):
            assert (await error_of(ctx, name, arguments))[0] == "FS_SANDBOX_DENIED", name
        assert os.listdir(tmp_path / "docs") == ["a"]
