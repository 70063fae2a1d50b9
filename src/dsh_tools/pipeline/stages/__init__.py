"""The stages of a call, one module and one public function each, in the order they run.

snapshot, authorize, invoke (with body and check_output inside), review, finalize, settle.
"""

from __future__ import annotations

from .authorize import authorize
from .check_output import check_output
from .finalize import finalize
from .invoke import invoke
from .review import review
from .settle import settle
from .snapshot import snapshot_call

__all__ = ["authorize", "check_output", "finalize", "invoke", "review", "settle", "snapshot_call"]
