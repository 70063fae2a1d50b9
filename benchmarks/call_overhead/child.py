"""One party in a process of its own: answers each line of its input with one measured round.

    python child.py MODULE NAME

A request is ``{"seconds": S, "parallel": K}``: run for about S seconds, K calls at a time. The answer is
``{"us": X, "calls": N}``, microseconds a call.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
import warnings
from typing import Any

from subject import Subject

WARM_UP = 300


async def sequential(subject: Subject, inputs: list[Any]) -> float:
    run = subject.run
    started = time.perf_counter()
    for one in inputs:
        await run(one)
    return time.perf_counter() - started


async def overlapped(subject: Subject, inputs: list[Any], parallel: int) -> float:
    run = subject.run
    started = time.perf_counter()
    for first in range(0, len(inputs), parallel):
        await asyncio.gather(*[run(one) for one in inputs[first : first + parallel]])
    return time.perf_counter() - started


async def measured(subject: Subject, count: int, parallel: int) -> float:
    inputs = [subject.make_input(i) for i in range(count)]
    if parallel == 1:
        return await sequential(subject, inputs)
    return await overlapped(subject, inputs, parallel)


async def serve(module: str, name: str) -> None:
    subject: Subject = await importlib.import_module(module).SUBJECTS[name]()
    result = await subject.run(subject.make_input(40))
    pace = await measured(subject, WARM_UP, 1) / WARM_UP
    print(json.dumps({"result": repr(result)}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        parallel = request["parallel"]
        count = max(int(request["seconds"] / pace) // parallel, 1) * parallel
        seconds = await measured(subject, count, parallel)
        print(json.dumps({"us": seconds / count * 1e6, "calls": count}), flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    asyncio.run(serve(sys.argv[1], sys.argv[2]))
