"""Provider errors in our words: a stable code, and whether trying again makes sense."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from .base import ModelFailure

__all__ = [
    "connection_failure",
    "failure_of_kind",
    "failure_of_status",
    "retry_after",
    "stream_cut",
    "transport_failure",
]

_LONGEST_MESSAGE = 600

# status: (code, retryable)
_STATUSES: dict[int, tuple[str, bool]] = {
    401: ("AUTHENTICATION", False),
    402: ("QUOTA_EXCEEDED", False),
    403: ("AUTHENTICATION", False),
    404: ("MODEL_NOT_FOUND", False),
    408: ("TIMEOUT", True),
    409: ("PROVIDER_ERROR", True),
    413: ("CONTEXT_TOO_LONG", False),
    425: ("PROVIDER_ERROR", True),
    429: ("RATE_LIMITED", True),
    503: ("OVERLOADED", True),
    504: ("TIMEOUT", True),
    529: ("OVERLOADED", True),
}

# What providers write into ``error.type`` and ``error.code``: (code, retryable)
_KINDS: dict[str, tuple[str, bool]] = {
    "insufficient_quota": ("QUOTA_EXCEEDED", False),
    "billing_error": ("QUOTA_EXCEEDED", False),
    "billing_hard_limit_reached": ("QUOTA_EXCEEDED", False),
    "context_length_exceeded": ("CONTEXT_TOO_LONG", False),
    "request_too_large": ("CONTEXT_TOO_LONG", False),
    "model_not_found": ("MODEL_NOT_FOUND", False),
    "not_found_error": ("MODEL_NOT_FOUND", False),
    "authentication_error": ("AUTHENTICATION", False),
    "invalid_api_key": ("AUTHENTICATION", False),
    "permission_error": ("AUTHENTICATION", False),
    "invalid_request_error": ("INVALID_REQUEST", False),
    "rate_limit_error": ("RATE_LIMITED", True),
    "rate_limit_exceeded": ("RATE_LIMITED", True),
    "overloaded_error": ("OVERLOADED", True),
    "server_overloaded": ("OVERLOADED", True),
    "timeout_error": ("TIMEOUT", True),
    "api_error": ("PROVIDER_ERROR", True),
    "server_error": ("PROVIDER_ERROR", True),
    "internal_server_error": ("PROVIDER_ERROR", True),
}

_TOO_LONG = ("prompt is too long", "maximum context length", "context window")


def failure_of_status(
    status: int, message: str, kinds: tuple[str | None, ...] = (), wait: float | None = None
) -> ModelFailure:
    """Return the failure for an HTTP error.

    Args:
        status: the HTTP status.
        message: the provider's text.
        kinds: what the body says in ``error.code`` and ``error.type``, the more exact one first.
        wait: how many seconds the provider asks to wait.
    """
    by_default = ("PROVIDER_ERROR", True) if status >= 500 else ("INVALID_REQUEST", False)
    code, retryable = _STATUSES.get(status, by_default)
    if status < 500:
        # "429" may mean "later" or "pay first", "400" may mean "too long": the body knows.
        for kind in kinds:
            found = _KINDS.get(kind or "")
            if found is not None and found[0] in ("QUOTA_EXCEEDED", "CONTEXT_TOO_LONG", "MODEL_NOT_FOUND"):
                code, retryable = found
                break
        if code == "INVALID_REQUEST" and any(words in message.lower() for words in _TOO_LONG):
            code = "CONTEXT_TOO_LONG"
    return ModelFailure(code, _cut(message), retryable, wait if retryable else None, status)


def failure_of_kind(message: str, kinds: tuple[str | None, ...]) -> ModelFailure:
    """Return the failure for an error that came inside a stream, where there is no status."""
    for kind in kinds:
        found = _KINDS.get(kind or "")
        if found is not None:
            return ModelFailure(found[0], _cut(message), found[1])
    return ModelFailure("PROVIDER_ERROR", _cut(message), True)


def connection_failure(message: str, *, timeout: bool) -> ModelFailure:
    """Return the failure for a connection that could not be made or was lost."""
    return ModelFailure("TIMEOUT" if timeout else "CONNECTION_FAILED", _cut(message), True)


def stream_cut(what: str) -> ModelFailure:
    """Return the failure for a stream that ended before its end."""
    return ModelFailure("STREAM_CUT", what, True)


def transport_failure(error: BaseException) -> ModelFailure:
    """Return the failure for what a connection raised while a stream was read, or for a fault of ours."""
    if isinstance(error, json.JSONDecodeError):
        return ModelFailure("STREAM_INVALID", f"the model's stream is not JSON: {error}", True)
    module = type(error).__module__.partition(".")[0]
    text = f"{type(error).__name__}: {error}"
    if module in ("httpx", "httpx2", "httpcore", "httpcore2"):
        return connection_failure(text, timeout="Timeout" in type(error).__name__)
    return ModelFailure("MODEL_ERROR", _cut(text))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read how many seconds a provider asks to wait: ``retry-after-ms``, or ``retry-after`` as a number or date."""
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    now = datetime.now(UTC)
    return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now.timestamp())


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _cut(message: str) -> str:
    message = " ".join(message.split())
    return message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 1] + "…"
