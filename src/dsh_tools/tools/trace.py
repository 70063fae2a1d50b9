"""What was asked about one call, and what each said: kept only for calls that somebody records or explains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from .registered import RegisteredTool

__all__ = ["CallTrace", "Consulted", "ConsultedKind", "MissedRule"]

ConsultedKind: TypeAlias = Literal["listener", "rule", "guard", "wrapper", "reviewer"]
"""Who was asked: a listener on ``tools/pre-execute``, a rule behind one, a guard, a wrapper on ``tools/execute``,
or a reviewer on ``tools/post-execute``."""


class Consulted(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One who was asked about a call.

    Parameters:
        kind: what it is.
        name: its qualified name; for a rule, which one it is.
        verdict: ``passed`` where it handed on what the others say. Else, of a listener or rule ``allow``, ``ask`` or
            ``deny``; of a guard ``deny``; of a wrapper ``answered`` (the body was not its business) or ``replaced``;
            of a reviewer ``accept``, ``replace`` or ``block``. ``raised`` and ``invalid`` are its failures.
        reason: what it gave as its reason, or the text of what it raised.
    """

    kind: ConsultedKind
    name: str
    verdict: str
    reason: str | None = None


class MissedRule(msgspec.Struct, frozen=True):
    """A rule that is about a call's tool and does not match the call.

    Parameters:
        name: which rule it is.
        argument: the path of the argument that keeps it from matching.
    """

    name: str
    argument: str


class CallTrace:
    """Collects the verdicts over one call, in the order in which they were asked for.

    Parameters:
        explains: whether it is also to be noted in ``missed`` which rules nearly matched.
    """

    __slots__ = ("attempts", "consulted", "heard_others", "milliseconds", "missed", "tool")

    def __init__(self, *, explains: bool = False) -> None:
        self.missed: list[MissedRule] | None = [] if explains else None
        # The places of those who asked the others before they answered.
        self.heard_others: set[int] = set()
        self.consulted: list[Consulted] = []
        self.milliseconds: list[float] = []
        self.tool: RegisteredTool | None = None
        self.attempts = 0

    def open(self, kind: ConsultedKind, name: str) -> int:
        """Note that somebody is asked now; returns the place for :meth:`close`."""
        self.consulted.append(Consulted(kind, name, "interrupted"))
        self.milliseconds.append(0.0)
        return len(self.consulted) - 1

    def close(self, place: int, verdict: str, reason: str | None, milliseconds: float) -> None:
        """Note what came of it, and the time it took itself, without those that it handed on to."""
        asked = self.consulted[place]
        self.consulted[place] = Consulted(asked.kind, asked.name, verdict, reason)
        self.milliseconds[place] = round(max(0.0, milliseconds), 3)

    def note(
        self, kind: ConsultedKind, name: str, verdict: str, reason: str | None = None, milliseconds: float = 0.0
    ) -> None:
        """Note somebody who was asked and has answered."""
        self.close(self.open(kind, name), verdict, reason, milliseconds)

    def ran(self, tool: RegisteredTool) -> None:
        """Note that a tool's body is called; a wrapper that tries again comes here again."""
        self.tool = tool
        self.attempts += 1
