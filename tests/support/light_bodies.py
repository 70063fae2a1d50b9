"""A body whose module needs nothing."""

from __future__ import annotations

import sys
from typing import Any


def loaded(args: Any, run: Any) -> list[str]:
    return [name for name in args["names"] if name in sys.modules]
