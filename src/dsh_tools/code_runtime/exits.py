"""Learning of a child's end without a thread, where the system has process descriptors."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

__all__ = ["exit_code", "wait_for_exit"]

_POLL_SECONDS = 0.02


async def wait_for_exit(pid: int) -> None:
    """Wait until a child of this process has ended. It is not reaped: its status can still be asked for."""
    try:
        fd = os.pidfd_open(pid)
    except AttributeError:
        await _poll(pid)
        return
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    gone: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, lambda: gone.done() or gone.set_result(None))
    try:
        await gone
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def exit_code(pid: int) -> int | None:
    """Return the exit code of a child that has ended, 128 and more for a signal; None if nobody knows it.

    The child is not reaped.
    """
    with suppress(ChildProcessError):
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is not None:
            return found.si_status if found.si_code == os.CLD_EXITED else 128 + found.si_status
    return None


async def _poll(pid: int) -> None:
    while not _has_ended(pid):  # noqa: ASYNC110 - there is no event for it on this system
        await asyncio.sleep(_POLL_SECONDS)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
