"""What a session's log says about approvals: the policy in force, remembered answers, open questions.

Everything here is a fold over the log, so a resumed session knows what it knew (HOST-126).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ...session.events import ApprovalAsked, ApprovalDecided, ApprovalPolicy, EndSeed, Event
from ..agents import session_of
from .records import AskPolicy, Outcome, is_outcome

if TYPE_CHECKING:
    from ...session.protocol import SessionLog
    from .records import ApprovalRequest

__all__ = ["ApprovalHistory", "AskedBefore", "Histories", "asked_of_data", "open_questions"]


class AskedBefore(msgspec.Struct):
    """A question about a call, as the log has it.

    Parameters:
        seq: the place of the question in the log.
        asked: the question.
        outcome: how it ended; None while it is open.
        reason: what was said with the answer.
        by: who answered.
    """

    seq: int
    asked: ApprovalAsked
    outcome: Outcome | None = None
    reason: str | None = None
    by: str | None = None


class ApprovalHistory:
    """One session's approvals so far.

    A session that begins with a copy of another's events keeps that one's policy, and none of its
    remembered answers: they were given for the other session.
    """

    def __init__(self) -> None:
        self.policy: AskPolicy | None = None
        self.open: dict[str, Mapping[str, Any]] = {}
        self._read = 0
        # The questions about each call, and those that are open by their own id.
        self._about: dict[str, list[AskedBefore]] = {}
        self._questions: dict[str, AskedBefore] = {}
        # With the digest of the rules that each answer was given under.
        self._tools: dict[str, tuple[Outcome, str | None]] = {}
        self._calls: dict[tuple[str, str], tuple[Outcome, str | None]] = {}

    def catch_up(self, log: SessionLog) -> None:
        """Read the events that came since the last time."""
        events = log.events
        for seq in range(self._read, len(events)):
            self.read(events[seq])
        self._read = len(events)

    def read(self, event: Event) -> None:
        """Take one event in."""
        if event.type == ApprovalAsked.event_type:
            self.open[event.data["id"]] = event.data
            if "callId" in event.data and "purpose" not in event.data:
                question = AskedBefore(event.seq, asked_of_data(event.data))
                self._about.setdefault(event.data["callId"], []).append(question)
                self._questions[event.data["id"]] = question
        elif event.type == ApprovalDecided.event_type:
            asked = self.open.pop(event.data["id"], None)
            question = self._questions.pop(event.data["id"], None)
            if question is not None:
                question.outcome, question.reason = event.data["outcome"], event.data.get("reason")
                question.by = event.data.get("by")
            if asked is not None:
                self.remember(
                    asked["toolName"],
                    asked.get("argumentsDigest"),
                    event.data["outcome"],
                    event.data.get("remember"),
                    asked.get("policyDigest"),
                )
        elif event.type == ApprovalPolicy.event_type:
            self.policy = event.data["policy"]
        elif event.type == EndSeed.event_type:
            self._tools.clear()
            self._calls.clear()
            self.open.clear()
            self._about.clear()
            self._questions.clear()

    def about(self, call_id: str | None, since: int) -> list[AskedBefore]:
        """Return the questions about a call that began at the place ``since`` in the log, in their order.

        Calls share ids, so a question that is older than the call is about another one.
        """
        questions = () if call_id is None else self._about.get(call_id, ())
        return [question for question in questions if question.seq > since]

    def remember(self, tool: str, digest: object, outcome: object, remember: object, policy: str | None = None) -> None:
        """Keep an answer that reaches beyond its call; anything else is not kept."""
        if not is_outcome(outcome) or outcome not in ("allowed-once", "rejected"):
            return
        if remember == "tool":
            self._tools[tool] = (outcome, policy)
        elif remember == "arguments" and isinstance(digest, str):
            self._calls[(tool, digest)] = (outcome, policy)

    def recall(self, request: ApprovalRequest) -> Outcome | None:
        """Return the remembered outcome for this question; the answer for exactly these arguments comes first.

        A grant that was given under other rules is not one any more.
        """
        digest = request.arguments_digest
        if not request.can_be_remembered or digest is None:
            return None
        for outcome, policy in filter(
            None, (self._calls.get((request.tool_name, digest)), self._tools.get(request.tool_name))
        ):
            if outcome == "rejected" or policy == request.policy_digest:
                return outcome
        return None


class Histories:
    """The history of each agent that was asked about: of its log, or kept here where it has none."""

    def __init__(self) -> None:
        self._by_owner: weakref.WeakKeyDictionary[Any, ApprovalHistory] = weakref.WeakKeyDictionary()

    def of(self, agent: object) -> ApprovalHistory:
        """Return the agent's history, up to date."""
        log = session_of(agent)
        history = self._by_owner.setdefault(agent if log is None else log, ApprovalHistory())
        if log is not None:
            history.catch_up(log)
        return history


def open_questions(events: Iterable[Event]) -> list[ApprovalAsked]:
    """Return the questions in a log that nobody has decided, oldest first; works on any stored session."""
    history = ApprovalHistory()
    for event in events:
        history.read(event)
    return [asked_of_data(asked) for asked in history.open.values()]


def asked_of_data(data: Mapping[str, Any]) -> ApprovalAsked:
    """Return a question's record; its data was checked when it was appended or loaded, and may nest deeply."""
    return ApprovalAsked(
        id=data["id"],
        tool_name=data["toolName"],
        **{
            name: data[key]
            for name, key in (
                ("call_id", "callId"),
                ("reason", "reason"),
                ("arguments", "arguments"),
                ("arguments_digest", "argumentsDigest"),
                ("policy_digest", "policyDigest"),
                ("purpose", "purpose"),
            )
            if key in data
        },
    )
