"""The file tools against files, links and neighbours that mean harm."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.calls import run
from tests.support.toolkits import SessionAgent, error_of, failed, mounted, value_of

from dsh_tools.kernel import Context
from dsh_tools.toolkits import FilesPlugin
from dsh_tools.tools import ToolSuccess

SECRET = "the secret of another folder"


@pytest.fixture
async def ctx(no_leaks: None, tmp_path: Path) -> AsyncIterator[Context]:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text(SECRET)
    async with mounted(FilesPlugin(), root=str(tmp_path / "root")) as context:
        yield context


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def calls_on(path: str) -> list[tuple[str, dict[str, Any]]]:
    """One call of each tool that touches a path."""
    return [
        ("read", {"file_path": path}),
        ("write", {"file_path": path, "content": "x"}),
        ("edit", {"file_path": path, "old_string": "secret", "new_string": "x"}),
        ("multi_edit", {"file_path": path, "edits": [{"old_string": "secret", "new_string": "x"}]}),
    ]


# ── things that are no files ───────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["fifo", "socket", "device", "folder"])
async def test_what_is_no_file_is_refused_without_waiting(ctx: Context, root: Path, kind: str):
    # HOST-216
    path = root / "thing"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            here = os.getcwd()
            os.chdir(root)  # the address of a socket is short
            listening.bind("thing")
            os.chdir(here)
    elif kind == "device":
        (root / "thing").symlink_to("/dev/zero")
    else:
        path.mkdir()
    started = time.monotonic()
    for name, arguments in calls_on("thing"):
        code, _ = await error_of(ctx, name, arguments)
        assert code == ("FS_SANDBOX_DENIED" if kind == "device" else "FS_NOT_REGULAR_FILE")
    if kind in ("fifo", "socket"):
        assert (await error_of(ctx, "delete", {"file_path": "thing"}))[0] == "FS_NOT_REGULAR_FILE"
        assert (await error_of(ctx, "move", {"source": "thing", "destination": "x"}))[0] == "FS_NOT_REGULAR_FILE"
    assert time.monotonic() - started < 2


async def test_devices_inside_a_root_are_refused(no_leaks: None):
    # HOST-216
    async with mounted(FilesPlugin(), root="/dev", require_read=False) as ctx:
        for path in ("zero", "null", "tty", "urandom", "full"):
            code, _ = await error_of(ctx, "read", {"file_path": path})
            assert code in ("FS_NOT_REGULAR_FILE", "FS_NOT_FOUND")
            code, _ = await error_of(ctx, "write", {"file_path": path, "content": "x"})
            assert code in ("FS_NOT_REGULAR_FILE", "FS_NOT_FOUND") or not Path("/dev", path).exists()


async def test_a_file_that_becomes_a_pipe_does_not_hang(ctx: Context, root: Path):
    swap = (
        "import os, sys\n"
        "os.chdir(sys.argv[1])\n"
        "print(flush=True)\n"
        "while True:\n"
        "    os.mkfifo('next'); os.rename('next', 'f')\n"
        "    open('next', 'w').write('text'); os.rename('next', 'f')\n"
    )
    seen: set[str] = set()
    with subprocess.Popen([sys.executable, "-c", swap, root], stdout=subprocess.PIPE) as swapper:
        try:
            assert swapper.stdout is not None
            swapper.stdout.readline()
            for _ in range(300):
                result = await asyncio.wait_for(run(ctx, "read", {"file_path": "f"}), 10)
                seen.add("read" if isinstance(result, ToolSuccess) else failed(result)[0])
        finally:
            swapper.kill()
    assert seen <= {"read", "FS_NOT_REGULAR_FILE", "FS_NOT_FOUND"}
    assert "FS_NOT_REGULAR_FILE" in seen


# ── links and races ────────────────────────────────────────────────────────────


async def test_links_that_lead_out_are_no_way_out(ctx: Context, root: Path):
    outside = root.parent / "outside"
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    (root / "new").symlink_to(outside / "not-there-yet")
    (root / "deep").mkdir()
    (root / "deep" / "up").symlink_to("../..")
    paths = ["folder/secret", "file", "deep/up/outside/secret", "../outside/secret", f"{outside}/secret", "new"]
    for path in paths:
        for name, arguments in calls_on(path):
            assert (await error_of(ctx, name, arguments))[0] == "FS_SANDBOX_DENIED", (name, path)
    for path in ("folder/secret", "deep/up/outside/secret", "../outside/secret"):
        assert (await error_of(ctx, "delete", {"file_path": path}))[0] == "FS_SANDBOX_DENIED"
        assert (await error_of(ctx, "move", {"source": path, "destination": "x"}))[0] == "FS_SANDBOX_DENIED"
    (root / "mine").write_text("x")
    for path in ("folder/x", "deep/up/x", "../x", f"{outside}/x"):
        assert (await error_of(ctx, "move", {"source": "mine", "destination": path}))[0] == "FS_SANDBOX_DENIED"
    assert os.listdir(outside) == ["secret"]
    assert (outside / "secret").read_text() == SECRET


@pytest.mark.parametrize("victim", ["folder", "file"])
async def test_swapped_links_are_no_way_out(no_leaks: None, tmp_path: Path, victim: str):
    # The checked path becomes a link to the outside, again and again, at any moment between check and use.
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "f").write_text(SECRET)
    if victim == "folder":
        (root / "d").mkdir()
        (root / "d" / "f").write_text("inside")
        target, path = outside, "d/f"
    else:
        (root / "d").write_text("inside")
        target, path = outside / "f", "d"
    swap = (
        "import os, random, shutil, sys, time\n"
        "os.chdir(sys.argv[1])\n"
        "print(flush=True)\n"
        "while True:\n"
        "    os.rename('d', 'away'); os.symlink(sys.argv[2], 'd')\n"
        "    if random.random() < 0.1: time.sleep(0.0001)\n"
        "    os.unlink('d')\n"
        "    while os.path.exists('away'):\n"
        "        try: os.rename('away', 'd')\n"
        "        except OSError: shutil.rmtree('d', True)\n"  # made anew for a file meanwhile
        "    if random.random() < 0.1: time.sleep(0.0001)\n"
    )
    shown: set[str] = set()
    async with mounted(FilesPlugin(), root=str(root), require_read=False) as ctx:
        with subprocess.Popen([sys.executable, "-c", swap, root, target], stdout=subprocess.PIPE) as swapper:
            try:
                assert swapper.stdout is not None
                swapper.stdout.readline()
                turn = 0
                while turn < 400 or (len(shown) < 2 and turn < 20_000):
                    turn += 1
                    result = await run(ctx, "read", {"file_path": path})
                    shown.add(result.value["lines"][0]["text"] if isinstance(result, ToolSuccess) else "refused")
                    if victim == "folder":
                        await run(ctx, "write", {"file_path": "d/f", "content": "inside"})
                        await run(ctx, "write", {"file_path": f"d/new{turn}", "content": "inside"})
                        await run(ctx, "delete", {"file_path": "d/f2"})
            finally:
                swapper.kill()
    assert shown <= {"inside", "refused"}
    assert len(shown) == 2
    assert os.listdir(outside) == ["f"]
    assert (outside / "f").read_text() == SECRET


async def test_two_callers_that_change_one_file_at_once_lose_nothing(no_leaks: None, tmp_path: Path):
    # HOST-214
    path = tmp_path / "log"
    path.write_text("begin\n")
    async with mounted(FilesPlugin(), root=str(tmp_path)) as ctx:
        made: list[str] = []

        async def caller(name: str) -> None:
            agent = SessionAgent(tmp_path, name)
            for turn in range(15):
                await value_of(ctx, "read", {"file_path": "log"}, agent=agent)
                edit = {"file_path": "log", "old_string": "begin\n", "new_string": f"begin\n{name}{turn}\n"}
                result = await run(ctx, "edit", edit, agent=agent)
                if isinstance(result, ToolSuccess):
                    made.append(f"{name}{turn}")
                else:
                    assert failed(result)[0] == "FS_STALE_VERSION"

        await asyncio.gather(*(caller(name) for name in "abcd"))
        assert sorted(path.read_text().split()) == sorted(["begin", *made])
        assert len(made) >= 15


async def test_a_reader_never_sees_half_a_file(ctx: Context, root: Path):
    # HOST-211
    texts = ["a" * 200_000, "b" * 100_000]
    (root / "f").write_text(texts[0])
    await value_of(ctx, "read", {"file_path": "f"})
    stop = asyncio.Event()

    def look() -> set[str]:
        seen: set[str] = set()
        while not stop.is_set():
            seen.add((root / "f").read_text())
        return seen

    looking = asyncio.ensure_future(asyncio.to_thread(look))
    for turn in range(30):
        await value_of(ctx, "write", {"file_path": "f", "content": texts[turn % 2]})
    stop.set()
    assert await looking <= set(texts)


@pytest.mark.limit(60)
async def test_a_process_killed_while_writing_leaves_the_old_file_or_the_new_one(tmp_path: Path):
    # HOST-211
    (tmp_path / "f").write_text("old " * 50_000)
    program = (
        "import asyncio, sys\n"
        "from dsh_tools.kernel import create_context\n"
        "from dsh_tools.pipeline import ToolsPlugin\n"
        "from dsh_tools.toolkits import FilesPlugin\n"
        "from dsh_tools.tools import ToolCall\n"
        "async def main():\n"
        "    async with create_context() as ctx:\n"
        "        await ctx.plugin(ToolsPlugin())\n"
        "        await ctx.plugin(FilesPlugin(), {'root': sys.argv[1], 'require_read': False})\n"
        "        print('ready', flush=True)\n"
        "        while True:\n"
        "            for word in ('new ', 'old '):\n"
        "                await ctx.tools.execute(ToolCall('write', {'file_path': 'f', 'content': word * 50_000}))\n"
        "asyncio.run(main())\n"
    )
    for pause in (0.01, 0.03, 0.05, 0.08):
        with subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            await asyncio.sleep(pause)
            writer.kill()
        assert (tmp_path / "f").read_text() in ("old " * 50_000, "new " * 50_000)


# ── content ────────────────────────────────────────────────────────────────────


async def test_a_huge_file_is_read_in_little_memory(ctx: Context, root: Path):
    # HOST-206
    with (root / "huge").open("wb") as file:
        for _ in range(300):
            file.write(b"x" * 999_999 + b"\n")  # 300 MB
    before = psutil.Process().memory_info().rss
    with memory_samples() as samples:
        value = await value_of(ctx, "read", {"file_path": "huge", "offset": 299, "limit": 1})
    assert value["totalLines"] == 300
    assert len(value["lines"][0]["text"]) < 2100
    grown = psutil.Process().memory_info().rss - before
    assert grown < 60_000_000
    assert max(samples) < before + 150_000_000


@contextmanager
def memory_samples() -> Generator[list[int]]:
    """What the process holds while a block runs. The system's own peak is that of all tests before this one, too."""
    process, samples, over = psutil.Process(), [0], threading.Event()

    def sample() -> None:
        while not over.wait(0.002):
            samples.append(process.memory_info().rss)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield samples
    finally:
        over.set()
        sampler.join()


async def test_a_file_larger_than_the_disk_is_not_read_whole(ctx: Context, root: Path):
    with (root / "sparse").open("wb") as file:
        file.truncate(1 << 42)
    started = time.monotonic()
    assert (await error_of(ctx, "read", {"file_path": "sparse"}))[0] == "FS_NOT_TEXT"
    assert (await error_of(ctx, "write", {"file_path": "sparse", "content": "x"}))[0] == "FS_TOO_LARGE"
    assert time.monotonic() - started < 2


async def test_names_in_every_script(ctx: Context, root: Path):
    names = [
        "ü.txt",
        unicodedata.normalize("NFD", "ü.txt"),
        "日本語",
        "a b",
        "-rf",
        "~",
        "$HOME",
        "*",
        "a\nb",
        "😀",
        "%2e%2e",
    ]
    for name in names:
        await value_of(ctx, "write", {"file_path": name, "content": name})
    assert sorted(os.listdir(root)) == sorted(names)
    for name in names:
        value = await value_of(ctx, "read", {"file_path": name})
        assert "\n".join(line["text"] for line in value["lines"]) == name
        await value_of(ctx, "delete", {"file_path": name})
    assert os.listdir(root) == []


async def test_paths_that_no_system_takes(ctx: Context):
    for path in ("", "a\0b", "x" * 5000, "/".join(["x" * 200] * 30), "half\ud800"):
        for name, arguments in calls_on(path):
            code, message = await error_of(ctx, name, arguments)
            assert code in ("FS_NOT_FOUND", "FS_SANDBOX_DENIED"), (name, path, message)


@given(st.binary(max_size=200))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_as_what_they_are_or_refused(tmp_path: Path, data: bytes):
    # HOST-216
    async def check() -> None:
        (tmp_path / "f").write_bytes(data)
        async with mounted(FilesPlugin(), root=str(tmp_path)) as ctx:
            result = await run(ctx, "read", {"file_path": "f"})
            if not isinstance(result, ToolSuccess):
                assert failed(result)[0] == "FS_NOT_TEXT"
                assert (tmp_path / "f").read_bytes() == data
                return
            # What was read can be edited, and only what is edited changes.
            text = result.value["lines"]
            if text and text[0]["text"] and "\r" not in data.decode("latin-1"):
                first = text[0]["text"]
                edit = {"file_path": "f", "old_string": first, "new_string": first + "!", "replace_all": True}
                await value_of(ctx, "edit", edit)
                after = (tmp_path / "f").read_bytes()
                assert len(after) > len(data)
                assert after.replace(b"!", b"").replace(b"\0", b"") == data.replace(b"!", b"").replace(b"\0", b"")

    asyncio.run(check())


async def test_files_that_the_system_protects(no_leaks: None, tmp_path: Path):
    # HOST-216: run as another user, because root may do anything.
    root = tmp_path / "root"
    root.mkdir()
    (root / "secret").write_text("x")
    (root / "secret").chmod(0)
    (root / "fixed").write_text("x")
    (root / "fixed").chmod(0o444)
    for folder in (root, *root.parents):
        if folder.stat().st_uid == os.getuid() and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    root.chmod(0o777)
    program = (
        "import asyncio, os, sys\n"
        "from dsh_tools.kernel import create_context\n"
        "from dsh_tools.pipeline import ToolsPlugin\n"
        "from dsh_tools.toolkits import FilesPlugin\n"
        "from dsh_tools.tools import ToolCall\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "async def main():\n"
        "    async with create_context() as ctx:\n"
        "        await ctx.plugin(ToolsPlugin())\n"
        "        await ctx.plugin(FilesPlugin(), {'root': sys.argv[1], 'require_read': False})\n"
        "        for name, arguments in (\n"
        "            ('read', {'file_path': 'secret'}),\n"
        "            ('write', {'file_path': 'fixed', 'content': 'y'}),\n"
        "            ('edit', {'file_path': 'fixed', 'old_string': 'x', 'new_string': 'y'}),\n"
        "        ):\n"
        "            result = await ctx.tools.execute(ToolCall(name, arguments))\n"
        "            print(result.error.info.code)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program, root], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["FS_PERMISSION_DENIED"] * 3, done.stderr
    assert (root / "fixed").read_text() == "x"
