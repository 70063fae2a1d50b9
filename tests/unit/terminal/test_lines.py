"""Reading lines without blocking the loop."""

from __future__ import annotations

import asyncio
import os
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsh_tools.terminal.lines import LineReader


@pytest.fixture
def pipe(no_leaks: None) -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for descriptor in (read, write):
        try:
            os.close(descriptor)
        except OSError:
            pass


@pytest.fixture
def terminal(no_leaks: None) -> Iterator[tuple[int, int]]:
    person, program = os.openpty()
    yield person, program
    os.close(person)
    os.close(program)


async def test_lines_come_one_by_one_and_then_the_end(pipe: tuple[int, int]):
    read, write = pipe
    lines = LineReader(read)
    os.write(write, "y\nmüde\r\n\nrest".encode())
    os.close(write)
    assert [await lines.read_line() for _ in range(6)] == ["y", "müde", "", "rest", None, None]


async def test_the_loop_runs_on_while_nobody_types(pipe: tuple[int, int]):
    read, write = pipe
    lines = LineReader(read)
    task = asyncio.create_task(lines.read_line())
    await asyncio.sleep(0.02)
    assert not task.done()
    os.write(write, b"half ")
    await asyncio.sleep(0.02)
    assert not task.done()
    os.write(write, b"line\n")
    assert await task == "half line"


async def test_cancelling_loses_nothing(pipe: tuple[int, int]):
    read, write = pipe
    lines = LineReader(read)
    task = asyncio.create_task(lines.read_line())
    os.write(write, b"half ")
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    os.write(write, b"line\n")
    assert await lines.read_line() == "half line"


async def test_two_readers_get_a_line_each(pipe: tuple[int, int]):
    read, write = pipe
    lines = LineReader(read)
    tasks = [asyncio.create_task(lines.read_line()) for _ in range(2)]
    os.write(write, b"one\ntwo\n")
    assert await asyncio.gather(*tasks) == ["one", "two"]


async def test_a_file_is_read_to_its_end(no_leaks: None, tmp_path: Path):
    path = tmp_path / "answers"
    path.write_text("y\nn\n")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        lines = LineReader(descriptor)
        assert not lines.is_terminal
        assert [await lines.read_line() for _ in range(3)] == ["y", "n", None]
    finally:
        os.close(descriptor)


async def test_what_was_typed_ahead_can_be_forgotten(terminal: tuple[int, int]):
    person, program = terminal
    tty.setcbreak(program)
    lines = LineReader(program)
    assert lines.is_terminal
    os.write(person, b"y\nleft over")
    assert await lines.read_line() == "y"
    os.write(person, b"more\n")
    await asyncio.sleep(0.02)
    lines.forget_typed_ahead()
    os.write(person, b"now\n")
    assert await lines.read_line() == "now"


async def test_a_pipe_keeps_what_was_written_ahead(pipe: tuple[int, int]):
    read, write = pipe
    lines = LineReader(read)
    os.write(write, b"y\n")
    lines.forget_typed_ahead()
    assert await lines.read_line() == "y"


async def test_at_a_terminal_the_end_of_input_is_not_final(terminal: tuple[int, int]):
    person, program = terminal
    lines = LineReader(program)
    os.write(person, b"\x04")
    assert await lines.read_line() is None
    os.write(person, b"again\n")
    assert await lines.read_line() == "again"
