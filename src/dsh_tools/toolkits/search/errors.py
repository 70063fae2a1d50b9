"""What goes wrong with a search. The **model** reads each message (HOST-220)."""

from __future__ import annotations

from ...errors import HarnessError

__all__ = [
    "InvalidPatternError",
    "RawOutputOverflowError",
    "SearchAbortedError",
    "SearchError",
]


class SearchError(HarnessError):
    """The search could not be done; caused by the system, seen by the model."""

    default_code = "SEARCH_FAILED"


class InvalidPatternError(SearchError):
    """The **model** sent a pattern that is none."""

    default_code = "SEARCH_INVALID_PATTERN"


class RawOutputOverflowError(SearchError):
    """The search found more than can be held; the **model** should look for less."""

    default_code = "SEARCH_RAW_OUTPUT_OVERFLOW"


class SearchAbortedError(SearchError):
    """The caller gave up while the search was on."""

    default_code = "SEARCH_ABORTED"
