"""Questions to the person at the client's end, as the protocol's elicitation."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from ....services import ApprovalAnswer

__all__ = ["FORM", "UNAVAILABLE", "answer_of", "can_elicit", "elicitation"]

UNAVAILABLE = ApprovalAnswer("unavailable")

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "allow": {"type": "boolean", "title": "Allow this call", "default": False},
        "comment": {"type": "string", "title": "Comment", "description": "Told to the model where you refuse."},
    },
    "required": ["allow"],
}


def can_elicit(capabilities: types.ClientCapabilities | None) -> bool:
    """Whether the client can show a form; one that names no kinds of elicitation means forms."""
    offered = None if capabilities is None else capabilities.elicitation
    return offered is not None and (offered.form is not None or offered.url is None)


def elicitation(text: str) -> types.ElicitRequest:
    """Return the request for a question."""
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=text, requested_schema=FORM))


def answer_of(result: object) -> ApprovalAnswer:
    """Read the client's answer; only an explicit yes allows."""
    if not isinstance(result, types.ElicitResult):
        return UNAVAILABLE
    content = result.content or {}
    if result.action == "accept" and content.get("allow") is True:
        return ApprovalAnswer("allowed-once")
    comment = content.get("comment")
    reason = comment if isinstance(comment, str) and comment else None
    return ApprovalAnswer("cancelled" if result.action == "cancel" else "rejected", reason)
