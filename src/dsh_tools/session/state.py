"""Where a log stands: its open turn and step, and the calls of programs that have not settled.

The calls of a turn that ended as waiting stay pending over its end: the next turn's first step answers them (D34).

Checks come before the commit and change nothing; a rejected event leaves no trace (PIPE-220).
"""

from __future__ import annotations

from collections import Counter

import msgspec
from msgspec import UNSET, UnsetType

from ..errors import SessionError
from .events import (
    CodeDispatch,
    CodeDispatchStart,
    StepEnd,
    StepStart,
    SurfaceOp,
    ToolCallRecord,
    ToolResultRecord,
    TurnEnd,
    TurnStart,
    Waiting,
)
from .pending import PendingMessages
from .surface import TOOL_NOT_STARTED

__all__ = ["LogState"]


class LogState:
    """The rules that span several events, as a fold over the log.

    Parameters:
        check_pairing: also refuse a result whose call is not pending in the open step (HOST-125).
    """

    def __init__(self, *, check_pairing: bool = False) -> None:
        self.turn = 0
        self.turn_open = False
        self.step = 0
        self.step_open = False
        self.waiting = False
        self.pending = PendingMessages()
        self._check_pairing = check_pairing
        self._open_calls: set[int] = set()
        self._carried = False
        self._roots: dict[str, str] = {}
        self._running: Counter[str] = Counter()

    def check(
        self, record: msgspec.Struct | None, op: SurfaceOp | UnsetType, sources: tuple[int, ...] | UnsetType
    ) -> None:
        """Check that an event fits the log so far.

        Raises:
            SessionError: ``INVALID_NESTING`` for turns and steps (HOST-124), ``INVALID_DISPATCH`` for
                calls of programs (HOST-123), ``UNPAIRED_RESULT`` (HOST-125), ``INVALID_INBOX`` (HOST-192).
        """
        if isinstance(record, (TurnStart, TurnEnd)):
            self._check_turn(record)
        elif isinstance(record, (StepStart, StepEnd)):
            self._check_step(record)
        elif isinstance(record, (CodeDispatchStart, CodeDispatch)):
            self._check_dispatch(record)
        elif isinstance(record, ToolResultRecord):
            if op == "append":
                self._check_pair(record, sources)
        else:
            self.pending.check(record)

    def apply(self, seq: int, record: msgspec.Struct | None, sources: tuple[int, ...] | UnsetType) -> None:
        """Take a committed event in."""
        if isinstance(record, TurnStart):
            self.turn, self.turn_open, self.step = record.turn, True, 0
            self._carried, self.waiting = self.waiting, False
        elif isinstance(record, TurnEnd):
            self.turn_open = False
            self.waiting = isinstance(record.reason, Waiting)
        elif isinstance(record, StepStart):
            self.step, self.step_open = record.step, True
            if not self._carried:
                self._open_calls.clear()
            self._carried = False
        elif isinstance(record, StepEnd):
            self.step_open = False
        elif isinstance(record, CodeDispatchStart):
            self._roots[record.sub_call_id] = record.root_call_id
            self._running[record.sub_call_id] += 1
        elif isinstance(record, CodeDispatch):
            self._running[record.sub_call_id] -= 1
        elif isinstance(record, ToolCallRecord):
            self._open_calls.add(seq)
        elif isinstance(record, ToolResultRecord):
            self._open_calls.difference_update(() if sources is UNSET else sources)
        else:
            self.pending.apply(record)

    def _check_turn(self, record: TurnStart | TurnEnd) -> None:
        if isinstance(record, TurnStart):
            if self.turn_open:
                raise _nesting(f"turn {record.turn} cannot start: turn {self.turn} is open")
            if record.turn != self.turn + 1:
                raise _nesting(f"turn {record.turn} cannot start: the next turn is {self.turn + 1}")
        elif not self.turn_open or record.turn != self.turn:
            raise _nesting(f"turn {record.turn} cannot end: it is not open")
        elif self.step_open:
            raise _nesting(f"turn {record.turn} cannot end: step {self.step} is open")

    def _check_step(self, record: StepStart | StepEnd) -> None:
        if not self.turn_open or record.turn != self.turn:
            raise _nesting(f"step {record.step}: turn {record.turn} is not open")
        if isinstance(record, StepStart):
            if self.step_open:
                raise _nesting(f"step {record.step} cannot start: step {self.step} is open")
            if record.step != self.step + 1:
                raise _nesting(f"step {record.step} cannot start: the next step is {self.step + 1}")
        elif not self.step_open or record.step != self.step:
            raise _nesting(f"step {record.step} cannot end: it is not open")

    def _check_dispatch(self, record: CodeDispatchStart | CodeDispatch) -> None:
        root, parent, sub = record.root_call_id, record.parent_call_id, record.sub_call_id
        if not self.turn_open:
            raise _dispatch(f'"{sub}" is outside an open turn')
        if self._roots.get(sub, root) != root:
            raise _dispatch(f'"{sub}" belongs to "{self._roots[sub]}", not to "{root}"')
        if parent != root and self._roots.get(parent) != root:
            raise _dispatch(f'the parent "{parent}" of "{sub}" is no call of "{root}"')
        if isinstance(record, CodeDispatch) and not self._running[sub]:
            raise _dispatch(f'"{sub}" settles without having started')

    def _check_pair(self, record: ToolResultRecord, sources: tuple[int, ...] | UnsetType) -> None:
        if not self._check_pairing or (record.error is not UNSET and record.error.code == TOOL_NOT_STARTED):
            return
        # By the event that is cited and not by the call id, since providers repeat ids (HOST-163).
        if sources is UNSET or not self.step_open or not self._open_calls.issuperset(sources):
            raise SessionError(
                f'the result of "{record.message.source.call_id}" answers no pending call of this step',
                "UNPAIRED_RESULT",
            )


def _nesting(text: str) -> SessionError:
    return SessionError(text, "INVALID_NESTING")


def _dispatch(text: str) -> SessionError:
    return SessionError(f"code dispatch {text}", "INVALID_DISPATCH")
