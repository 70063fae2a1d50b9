"""Which lifetimes the running code belongs to, so that nothing waits for itself.

A plugin's body, an effect's body, a cleanup and an event delivery all run on behalf of a
lifetime whose disposal waits for them. Were they to await that very disposal, both would
wait for ever; so such an await is recognised here and returns at once.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["activity", "is_inside"]


class _Activity:
    __slots__ = ("lineage", "live")

    def __init__(self, lineage: tuple[object, ...]) -> None:
        self.lineage = lineage
        self.live = True


_current: ContextVar[tuple[_Activity, ...]] = ContextVar("dsh_tools_activity", default=())


@contextmanager
def activity(lineage: tuple[object, ...]) -> Generator[None]:
    """Run the block on behalf of ``lineage``: a lifetime and those that wait for it, innermost first."""
    entry = _Activity(lineage)
    token = _current.set((*_current.get(), entry))
    try:
        yield
    finally:
        # Tasks started in the block copied the variable; for them the activity is over now.
        entry.live = False
        _current.reset(token)


def is_inside(lifetime: object) -> bool:
    """Whether the running code is something that the disposal of ``lifetime`` waits for."""
    return any(entry.live and lifetime in entry.lineage for entry in _current.get())
