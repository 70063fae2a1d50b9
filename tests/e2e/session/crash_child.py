"""A session that runs until it is killed: the other half of test_crash.py.

It resumes or creates the session ``s1`` and plays turns for ever: a message, an answer with calls,
the calls (each flushed before its body, whose effect is a line in a file), results, ends. Every
time a flush returns it prints how many events were durable then.
"""

from __future__ import annotations

import asyncio
import os
import sys

from tests.support.sessions import answer, begin, end, say

from dsh_tools.content import text
from dsh_tools.errors import SessionError
from dsh_tools.messages import ToolCallBlock
from dsh_tools.session import (
    EventLog,
    PostgresStore,
    Sessions,
    SessionStore,
    SqliteStore,
    record_call,
    record_dispatch,
    record_dispatch_start,
    record_result,
)
from dsh_tools.tools.result import ToolSuccess


async def acknowledge(log: EventLog) -> None:
    length = len(log.events)
    await log.flush()
    os.write(1, f"{length}\n".encode())


async def body(log: EventLog, call_seq: int, effects: int) -> None:
    os.write(effects, f"{call_seq}\n".encode())
    start = record_dispatch_start(
        log,
        root_call_id=f"c{call_seq}",
        parent_call_id=f"c{call_seq}",
        sub_call_id=f"c{call_seq}:code:1",
        name="inner",
        arguments={"text": "x" * (call_seq % 400)},
    )
    await asyncio.sleep(0)
    record_dispatch(log, start, is_error=False, content=text("\ud835 fine"))


async def play_turn(log: EventLog, effects: int) -> None:
    say(log, "please")
    begin(log)
    await acknowledge(log)
    for step in range(2):
        if step:
            begin(log, turn=False)
        first = len(log.events)
        blocks = [ToolCallBlock(f"c{first + number}", "t", '{"bad') for number in range(2)]
        answer(log, "thinking", *((block.id, block.name, block.arguments) for block in blocks))
        for block in blocks:
            called = record_call(log, block)
            await acknowledge(log)
            await body(log, called.seq, effects)
            record_result(log, block, called, ToolSuccess(1, text("one"), {"n": 1}))
        if step == 0:
            log.append("step/end", {"turn": log.turn, "step": log.step})
        await acknowledge(log)
    end(log)


async def main(place: str, effects_path: str) -> None:
    store: SessionStore = PostgresStore(place) if "host=" in place else SqliteStore(place)
    sessions = Sessions(store)
    try:
        log = await sessions.open("s1")
    except SessionError as error:
        if error.code != "SESSION_NOT_FOUND":
            raise
        log = await sessions.create(id="s1")
    effects = os.open(effects_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    await acknowledge(log)
    while True:
        await play_turn(log, effects)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
