"""What is kept of a command's output, how it is reported, and what a model reads of it."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_tools.toolkits.processes import Outcome
from dsh_tools.toolkits.shell.executor import Finished
from dsh_tools.toolkits.shell.output import Kept, SpillFile, StreamTail, Watcher
from dsh_tools.toolkits.shell.text import background, foreground, render, split_marker

# ── what is kept ───────────────────────────────────────────────────────────────


@given(st.lists(st.binary(max_size=30), max_size=12), st.integers(1, 40), st.integers(0, 120))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_end_is_kept_and_all_of_it_in_a_file(tmp_path: Path, pieces: list[bytes], limit: int, spill: int):
    # HOST-199, 202
    tail = StreamTail(limit, SpillFile(lambda: tmp_path, "out", spill))
    for piece in pieces:
        tail.feed(piece)
    everything = b"".join(pieces)
    kept = tail.result()
    assert kept.truncated is (len(everything) > limit)
    if not kept.truncated:
        assert kept == Kept(everything.decode("utf-8", "replace"), False, None)
        return
    end = everything[-limit:]
    # The first character may be cut in half: then it is left out.
    assert kept.text in [end[cut:].decode("utf-8", "replace") for cut in range(4)]
    if len(everything) <= spill:
        assert kept.spill_path is not None
        assert Path(kept.spill_path).read_bytes() == everything
        assert Path(kept.spill_path).stat().st_mode & 0o777 == 0o600
    else:
        assert kept.spill_path is None


def test_a_file_that_gets_too_long_is_removed(tmp_path: Path):
    tail = StreamTail(10, SpillFile(lambda: tmp_path, "out", 50))
    tail.feed(b"x" * 40)
    assert len(list(tmp_path.iterdir())) == 1
    tail.feed(b"x" * 40)
    assert list(tmp_path.iterdir()) == []
    assert tail.result() == Kept("x" * 10, True, None)


def test_a_file_that_cannot_be_written_is_done_without(tmp_path: Path):
    def nowhere() -> Path:
        raise OSError("read-only")

    for folder in (nowhere, lambda: tmp_path / "nowhere"):
        tail = StreamTail(4, SpillFile(folder, "out", 1000))
        tail.feed(b"abcdefgh")
        assert tail.result() == Kept("efgh", True, None)


def test_little_memory_is_enough_for_much_output(tmp_path: Path):
    tail = StreamTail(1000, SpillFile(lambda: tmp_path, "out", 0))
    for _ in range(1000):
        tail.feed(b"x" * 65_536)
        assert len(tail._kept) <= 2 * 1000 + 65_536


# ── what is reported ───────────────────────────────────────────────────────────


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("dsh_tools.toolkits.shell.output.time", clock)
    return clock


class Loop:
    """Stands for an event loop that runs what it is given at once."""

    def call_soon_threadsafe(self, function: Any, *args: Any) -> None:
        function(*args)


def watcher() -> tuple[Watcher, list[str]]:
    said: list[str] = []
    loop: Any = Loop()
    return Watcher(loop, said.append), said


def test_whole_lines_are_reported(clock: Clock):
    watch, said = watcher()
    watch.feed("stdout", b"one\ntw")
    assert watch.flush() is None
    assert said == ["one\n"]
    watch.feed("stdout", b"o\nthree")
    assert watch.flush() == pytest.approx(0.1)
    assert said == ["one\n"]
    clock.now += 0.1
    assert watch.flush() is None
    assert said == ["one\n", "two\n"]
    watch.finish()
    assert said[-1] == "three"


def test_two_streams_do_not_share_a_line(clock: Clock):
    watch, said = watcher()
    watch.feed("stdout", b"out")
    watch.feed("stderr", b"err\n")
    watch.feed("stdout", b"put\n")
    watch.feed("stderr", b"last")
    watch.feed("stdout", b"end")
    watch.finish()
    assert "".join(said) == "err\noutput\nend\nlast"


def test_a_character_that_comes_in_pieces_is_whole(clock: Clock):
    watch, said = watcher()
    for byte in "é😀\n".encode():
        watch.feed("stdout", bytes([byte]))
    watch.finish()
    assert said == ["é😀\n"]


def test_too_much_is_reported_from_its_end(clock: Clock):
    watch, said = watcher()
    for number in range(20_000):
        watch.feed("stdout", b"line %d\n" % number)
    watch.finish()
    assert len(said) == 1
    assert said[0].startswith("[…]\n")
    assert said[0].endswith("line 19999\n")
    assert len(said[0]) <= 2 * 16_384 + 4


def test_a_line_without_an_end_is_reported_in_parts(clock: Clock):
    watch, said = watcher()
    for _ in range(100):
        watch.feed("stdout", b"x" * 1000)
        clock.now += 1
        watch.flush()
    assert said
    assert all(len(lines._begun) <= 17_000 for lines in watch._lines.values())


# ── what a model reads ─────────────────────────────────────────────────────────


def value(
    stdout: str = "",
    stderr: str = "",
    code: int | None = 0,
    signal: str | None = None,
    *,
    timed_out: bool = False,
    leftovers: int = 0,
    cut: str | None = "",
    sandbox: Any = None,
) -> Any:
    outcome = Outcome(code, signal, timed_out, False, leftovers)
    kept = Kept(stdout, cut != "", cut or None)
    return foreground(Finished(outcome, kept, Kept(stderr, False, None)), 500, sandbox)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (value(), "(no output)"),
        (value("out\n"), "out"),
        (value("out\n\n"), "out\n"),
        (value("no end"), "no end"),
        (value("", "err\n"), "[stderr]\nerr"),
        (value("out\n", "err"), "out\n[stderr]\nerr"),
        (value("out", code=3), "out\n[exit code: 3]"),
        (value(code=1), "(no output)\n[exit code: 1]"),
        (value(code=None, signal="SIGKILL"), "(no output)\n[killed by signal: SIGKILL]"),
        (value("x", timed_out=True), "x\n[timed out after 500ms]"),
        (
            value("x", code=None, signal="SIGTERM", timed_out=True),
            "x\n[timed out after 500ms]\n[killed by signal: SIGTERM]",
        ),
        (value("x", leftovers=1), "x\n[stopped a background process that the command left running]"),
        (value("x", leftovers=3), "x\n[stopped 3 background processes that the command left running]"),
        (value("end", cut="/tmp/f"), "end\n[output truncated; full output: /tmp/f]"),
        (value("end\n", cut=None), "end\n[output truncated; full output: (unavailable)]"),
        (
            value(
                "", "Read-only file system\n", code=1, sandbox={"mode": "read-only", "network": False, "denied": True}
            ),
            "[stderr]\nRead-only file system\n[the sandbox seems to have stopped this: read-only, no network]\n"
            "[exit code: 1]",
        ),
    ],
)
def test_the_text_of_a_command(given: Any, shown: str):
    # HOST-198, 199
    assert render(given) == shown


def test_the_text_of_a_job():
    # HOST-200
    class Handle:
        job_id = "bash-3"

    handle: Any = Handle()
    assert background(handle) == {"kind": "background", "jobId": "bash-3"}
    assert render(background(handle)) == "started background job bash-3"


@pytest.mark.parametrize(
    ("shown", "body", "code", "signal"),
    [
        ("out", "out", 0, None),
        ("out\n[exit code: 3]", "out", 3, None),
        ("[exit code: 3]", "", 3, None),
        ("out\n[killed by signal: SIGKILL]", "out", None, "SIGKILL"),
        ("out\n[exit code: 3] ", "out\n[exit code: 3] ", 0, None),
        ("[exit code: 3]\nout", "[exit code: 3]\nout", 0, None),
        ("", "", 0, None),
    ],
)
def test_the_marker_is_taken_off_again(shown: str, body: str, code: int | None, signal: str | None):
    # HOST-203
    assert split_marker(shown) == (body, code, signal)


def test_every_ending_is_read_as_it_was_written():
    # HOST-203
    for code, signal in itertools.chain(
        ((code, None) for code in range(256)), [(None, "SIGSEGV"), (None, "SIGRTMIN+3")]
    ):
        body, read_code, read_signal = split_marker(render(value("out\n", code=code, signal=signal)))
        assert (body, read_code, read_signal) == ("out", code, signal)


async def test_a_report_arrives_on_the_loop():
    said: list[str] = []
    watch = Watcher(asyncio.get_running_loop(), said.append)

    def work() -> None:
        watch.feed("stdout", b"line\n")
        watch.flush()

    await asyncio.to_thread(work)
    await asyncio.sleep(0)
    assert said == ["line\n"]
