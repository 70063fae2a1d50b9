"""One request of a program whose run is kept: what is known of it until the program has been told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .bridge import SubCall

if TYPE_CHECKING:
    from ..code_runtime import HostAnswer
    from ..tools.execution import ToolCall, ToolExecution
    from .journal import StepKind, StepState
    from .journaled import JournaledBridge

__all__ = ["Step"]


class Step(SubCall):
    """One request of the program. For its body it is the one who keeps the call's state (``DurableCall``)."""

    __slots__ = ("arguments", "begun", "bridge", "call", "due", "kind", "name", "number", "outcome")

    def __init__(self, bridge: JournaledBridge, answer: HostAnswer, number: int, kind: StepKind, name: str) -> None:
        super().__init__(answer)
        self.bridge = bridge
        self.number = number
        self.kind: StepKind = kind
        self.name = name
        self.arguments = ""
        self.begun = False
        # A call has this once its arguments are read; a timer knows when it is up, on the program's clock.
        self.call: ToolCall | None = None
        self.due = 0.0
        # What is known already of a step that the program has not been told about.
        self.outcome: tuple[StepState, Any, Any] | None = None

    @property
    def call_key(self) -> int:
        """The outer call's; see ``DurableCall``."""
        return self.bridge.call_key

    @property
    def is_resumed(self) -> bool:
        """The outer call's; see ``DurableCall``."""
        return self.bridge.is_resumed

    @property
    def has_begun(self) -> bool:
        """Whether the body has been called."""
        return self.begun

    def begin(self, execution: ToolExecution) -> asyncio.Future[None] | None:
        """Note that the body is about to be called, unless it may be called again anyway."""
        if self.begun:
            return None
        self.begun = True
        return self.bridge.note_begun(self, execution)
