"""Learning of a child's end without a thread, where the system has process descriptors."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

__all__ = ["ExitWatch", "exit_code", "wait_for_exit"]

# How often a child is looked at where the system has no process descriptors, in seconds.
_LOOK_EVERY = 0.02


class ExitWatch:
    """Calls ``gone`` once, in the running loop, when a child of this process has ended.

    The child is not reaped: its status can still be asked for. One that somebody else has reaped has ended, too.

    Parameters:
        pid: the child.
        gone: called when the watch is over already; not before this returns.
    """

    def __init__(self, pid: int, gone: Callable[[], object]) -> None:
        self._pid = pid
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._next_look: asyncio.Handle | None = None
        self._fd = _open_pidfd(pid)
        if self._fd is None:
            self._next_look = self._loop.call_soon(self._look)
        else:
            self._loop.add_reader(self._fd, self._ended)

    def close(self) -> None:
        """Stop watching; closing again does nothing."""
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    def _look(self) -> None:
        # Where the host ignores the ends of its children, the system forgets them at once.
        with suppress(ChildProcessError):
            if _end_of(self._pid) is None:
                self._next_look = self._loop.call_later(_LOOK_EVERY, self._look)
                return
        self._ended()

    def _ended(self) -> None:
        self.close()
        self._gone()


async def wait_for_exit(pid: int) -> None:
    """Wait until a child of this process has ended; see :class:`ExitWatch`."""
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watch = ExitWatch(pid, lambda: gone.done() or gone.set_result(None))
    try:
        await gone
    finally:
        watch.close()


def exit_code(pid: int) -> int | None:
    """Return the exit code of a child that has ended, 128 and more for a signal; None if nobody knows it.

    The child is not reaped.
    """
    with suppress(ChildProcessError):
        found = _end_of(pid)
        if found is not None:
            return found.si_status if found.si_code == os.CLD_EXITED else 128 + found.si_status
    return None


def _end_of(pid: int) -> os.waitid_result | None:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
