"""A child's end is heard of once, with process descriptors and without, and its status is left for others."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dsh_tools.kernel.exits import ExitWatch, exit_code, wait_for_exit


@pytest.fixture(params=["descriptors", "looks"], autouse=True)
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "looks":
        monkeypatch.delattr(os, "pidfd_open", raising=False)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A child that ends with status 3 when its input does."""
    code = "import sys; sys.stdin.read(); sys.exit(3)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as started:
        yield started
        if started.returncode is None:
            started.kill()


def end(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.close()


async def test_a_child_is_waited_for_and_not_reaped(child: subprocess.Popen[bytes], no_leaks: None):
    waiting = asyncio.ensure_future(wait_for_exit(child.pid))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    assert exit_code(child.pid) is None
    end(child)
    await asyncio.wait_for(waiting, 10)
    assert exit_code(child.pid) == 3
    assert child.wait() == 3


async def test_a_signal_is_told_from_a_status(child: subprocess.Popen[bytes]):
    child.send_signal(signal.SIGKILL)
    await asyncio.wait_for(wait_for_exit(child.pid), 10)
    assert exit_code(child.pid) == 128 + signal.SIGKILL


async def test_a_child_that_somebody_else_has_reaped_has_ended(child: subprocess.Popen[bytes]):
    end(child)
    child.wait()
    await asyncio.wait_for(wait_for_exit(child.pid), 10)
    assert exit_code(child.pid) is None


async def test_the_end_is_told_once_and_after_the_watch_is_made(child: subprocess.Popen[bytes], no_leaks: None):
    end(child)
    await asyncio.wait_for(wait_for_exit(child.pid), 10)
    told: list[int] = []
    watch = ExitWatch(child.pid, lambda: told.append(1))
    assert told == []
    await asyncio.sleep(0.1)
    assert told == [1]
    watch.close()


async def test_a_watch_that_is_closed_says_nothing(child: subprocess.Popen[bytes], no_leaks: None):
    told: list[int] = []
    watch = ExitWatch(child.pid, lambda: told.append(1))
    await asyncio.sleep(0.05)
    watch.close()
    watch.close()
    end(child)
    await asyncio.to_thread(child.wait)
    await asyncio.sleep(0.1)
    assert told == []


async def test_who_is_cancelled_waits_no_longer(child: subprocess.Popen[bytes], no_leaks: None):
    waiting = asyncio.ensure_future(wait_for_exit(child.pid))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
