"""The bodies that are timed; other processes find them here by name."""

from __future__ import annotations

import time
from typing import Any


def echo(args: Any, run: Any) -> Any:
    return args["value"]


async def echo_later(args: Any, run: Any) -> Any:
    return args["value"]


def deaf(args: Any, run: Any) -> str:
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    run.progress("deaf")
    while True:
        time.sleep(600)
