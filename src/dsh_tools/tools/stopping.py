"""Where a call stands, and how its body stopped when it was told to."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from ..errors import ToolTimeoutError

if TYPE_CHECKING:
    from ..kernel.abort import AbortSignal

__all__ = [
    "CallNotes",
    "CallStatus",
    "PartialOutput",
    "StateListener",
    "StopCause",
    "StopEnding",
    "StopReport",
    "report_stop",
]

T = TypeVar("T")
_MAX_OUTPUT_CHARS = 16_384

CallStatus: TypeAlias = Literal["queued", "running", "stopping", "stopped"]
"""Where a call stands.

``queued`` until its body is called: policy, a person, a limit, or a free thread or process come first; ``running``;
``stopping`` from the moment it is told to stop; ``stopped`` once no body of it runs. A retry goes round again.
"""

StopCause: TypeAlias = Literal["limit", "caller", "cancelled"]
"""Who told a body to stop: its time limit, its caller's signal, or a cancellation of the awaiting task."""

StopEnding: TypeAlias = Literal["cancelled", "raised", "returned", "killed"]
"""How a body ended that was told to stop: by its cancellation, by an error of its own, in order (it swallowed its
cancellation, or was done; its value is dropped), or killed with its process."""


class StopReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How a body stopped that was told to.

    Parameters:
        cause: who told it.
        ending: how it ended.
        seconds: how long that took; None where nobody knows when it was told.
    """

    cause: StopCause
    ending: StopEnding
    seconds: float | None = None


class StateListener(Protocol):
    """Who hears of the states of one call; there only where somebody observes them."""

    @property
    def stopping_since(self) -> float | None:
        """When the body was told to stop, on the monotonic clock."""
        ...

    async def attend(self, body: Coroutine[Any, Any, T], *, elsewhere: bool) -> T:
        """Await a body under these eyes; ``elsewhere`` says that it begins in a thread or process."""
        ...

    def begun(self) -> None:
        """The body is called now."""
        ...

    def told(self, at: float) -> None:
        """The awaiting task was cancelled at this time on the monotonic clock, which has gone into the body."""
        ...

    def settled(self) -> None:
        """The call is over."""
        ...


def report_stop(signals: tuple[AbortSignal, ...], ending: StopEnding, since: float | None) -> StopReport:
    """Describe a stop that has just ended.

    Parameters:
        signals: those that the body was under; the first that has fired counts.
        since: when the awaiting task was cancelled, if anybody saw it, on the monotonic clock.
    """
    cause: StopCause = "cancelled"
    for signal in signals:
        if signal.aborted:
            cause = "limit" if isinstance(signal.reason, ToolTimeoutError) else "caller"
            since = signal.fired_at
            break
    return StopReport(cause, ending, None if since is None else round(max(0.0, time.monotonic() - since), 3))


class CallNotes(msgspec.Struct, eq=False):
    """What only some calls have to note. A call that has nothing of it makes no such record.

    Parameters:
        waiting: its body waits for a thread or a process.
        killed: its body's process had to be killed.
        stop: how its body stopped, if it was told to.
        watch: who announces its states.
        output: the text that its body has reported.
    """

    waiting: bool = False
    killed: bool = False
    stop: StopReport | None = None
    watch: StateListener | None = None
    output: PartialOutput | None = None

    def begin(self) -> None:
        """The body waits no longer; may be said in its thread."""
        self.waiting = False
        if self.watch is not None:
            self.watch.begun()


class PartialOutput:
    """The text that a body has reported; of a long one the end is kept."""

    __slots__ = ("_pieces", "_size", "was_cut")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0
        self.was_cut = False

    def add(self, text: str) -> None:
        """Add a piece; one that does not end its line gets the line's end."""
        piece = text if text.endswith("\n") else text + "\n"
        self._pieces.append(piece)
        self._size += len(piece)
        # Not at every piece, so that many small pieces stay cheap.
        if self._size > 2 * _MAX_OUTPUT_CHARS:
            self._trim()

    @property
    def text(self) -> str:
        """What is kept, without the last line's end."""
        self._trim()
        return "".join(self._pieces).rstrip("\n")

    def _trim(self) -> None:
        if self._size <= _MAX_OUTPUT_CHARS:
            return
        kept = "".join(self._pieces)[-_MAX_OUTPUT_CHARS:]
        self._pieces = [kept]
        self._size = len(kept)
        self.was_cut = True
