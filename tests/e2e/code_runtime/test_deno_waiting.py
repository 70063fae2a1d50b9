"""A program that waits for a call goes on by whatever else wakes it, long before the call is answered."""

from __future__ import annotations

import asyncio

import pytest

from .conftest import RunProgram

WAKERS = {
    "a timer set before the call": "const woken = new Promise((r) => setTimeout(r, 1, 'x')); {CALL};",
    "a timer set after the call": "{CALL}; const woken = new Promise((r) => setTimeout(r, 1, 'x'));",
    "a timer set by a continuation": """
        {CALL}; await null;
        const woken = Promise.resolve().then(() => new Promise((r) => setTimeout(r, 1, 'x')));
    """,
    "an interval": """
        {CALL}; let left = 3;
        const woken = new Promise((r) => { const id = setInterval(() => --left || r((clearInterval(id), 'x')), 1) });
    """,
    "a deadline of a signal": """
        const signal = AbortSignal.timeout(1);
        const woken = new Promise((r) => signal.addEventListener('abort', () => r('x'))); {CALL};
    """,
    "a digest": "{CALL}; const woken = crypto.subtle.digest('SHA-256', new Uint8Array(9)).then(() => 'x');",
    "an atomic wait": """
        const cell = new Int32Array(new SharedArrayBuffer(4));
        const woken = Atomics.waitAsync(cell, 0, 0, 1).value.then(() => 'x'); {CALL};
    """,
}


@pytest.mark.parametrize("program", WAKERS.values(), ids=WAKERS.keys())
async def test_something_else_wakes_a_program(typescript: RunProgram, program: str):
    call = "const slow = tools.slow({ seconds: 300 }).catch(() => 'late')"
    # A call that has been answered comes first: from then on, replies may be waited for in another way.
    source = "await tools.echo({});" + program.replace("{CALL}", call) + "return await Promise.race([slow, woken]);"
    result = await asyncio.wait_for(typescript(source), 60)
    assert result.error is None, result.error
    assert result.value == "x"


@pytest.mark.parametrize(
    "floating", ["Promise.reject(new Error('lost'))", "(async () => { throw new Error('lost') })()"]
)
async def test_a_floating_rejection_ends_a_program_that_waits(typescript: RunProgram, floating: str):
    # CODE-171: at once, not when the call is answered
    source = f"await tools.echo({{}}); {floating}; await tools.slow({{ seconds: 300 }});"
    result = await asyncio.wait_for(typescript(source), 60)
    assert result.error is not None
    assert result.error.message == "worker error: lost"
