"""What a TypeScript program sees, to the letter of the contract."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import UNSET

from dsh_tools.code_runtime import CodeRunError
from dsh_tools.testing.runtime_conformance import Host

from .conftest import RunProgram

INVALID = CodeRunError("invalid-output", "program completion must be lossless JSON")


@pytest.mark.parametrize(
    ("program", "value"),
    [
        # CODE-157
        ("return await Promise.resolve(4)", 4),
        ("return Promise.resolve(4)", 4),
        ("return [typeof tools, typeof ToolCallError, typeof console]", ["object", "function", "object"]),
        # CODE-158: strict mode
        ("return this === undefined", True),
        ("try { undeclared = 1 } catch (e) { return e.name }", "ReferenceError"),
        ("var tools = 1; return tools", 1),
        ("return (function () { return this === undefined })()", True),
        # CODE-159
        ("return 1 // comment", 1),
        ("return 1 /* comment */", 1),
        ("'use strict'; return 2", 2),
        # CODE-160, 161 (D3)
        ("return ['require', 'module', '__filename', 'Deno', 'Buffer', 'fetch'].map((n) => typeof globalThis[n])", ["undefined"] * 6),
        ("return [process.env, process.argv, process.execArgv, Object.keys(process.env)]", [{}, [], [], []]),
        ("return typeof process.stdout", "undefined"),
        ("return typeof process.chdir", "undefined"),
        ("setTimeout(() => 0, 1); return [typeof URL, typeof TextEncoder, typeof structuredClone, typeof queueMicrotask]", ["function"] * 4),
        ("return crypto.getRandomValues(new Uint8Array(8)).length", 8),
        ("return new TextDecoder().decode(new TextEncoder().encode('é😀'))", "é😀"),
        ("return new URL('https://a.example/b?c=1').searchParams.get('c')", "1"),
        ("return structuredClone({ a: [1] })", {"a": [1]}),
        ("return atob(btoa('x'))", "x"),
        ("await new Promise((r) => setTimeout(r, 5)); return 'slept'", "slept"),
        # CODE-162
        ("return [Object.getPrototypeOf(console), Object.keys(console)]", [None, ["log", "info", "warn", "error", "debug"]]),
        # CODE-167
        ("return Object.getPrototypeOf(tools)", None),
        ("return Object.keys(tools)", ["echo", "fail", "slow", "lossy", "odd-name"]),
        ("const { echo } = tools; return await echo({ a: 1 }, { b: 2 })", {"a": 1}),
        ("return tools.hasOwnProperty === undefined", True),
        ("try { tools.echo = 1 } catch (e) { return e.name }", "TypeError"),
        ("try { delete tools.echo } catch (e) { return e.name }", "TypeError"),
        ("return tools.echo.name", "echo"),
        # CODE-168
        (
            "try { await tools.fail({}) } catch (e) { return [e instanceof ToolCallError, e instanceof Error, Object.keys(e), e.name, 'code' in e, String(e)] }",
            [True, True, ["name", "toolName"], "ToolCallError", False, "ToolCallError: deliberate failure"],
        ),
        ("return [ToolCallError.name, new ToolCallError('m', 't').toolName]", ["ToolCallError", "t"]),
        # CODE-84, 88
        ("return JSON.parse('{\"__proto__\":{\"a\":1}}')", {"__proto__": {"a": 1}}),
        ("return Object.assign(Object.create(null), { a: 1 })", {"a": 1}),
        ("const s = [1]; return [s, s]", [[1], [1]]),
        ("let n = 0; return { get a() { return ++n } }", {"a": 1}),
        ("return new Proxy({ a: [1] }, {})", {"a": [1]}),
        ("return '\\ud800\\u0000é'", "\ud800\x00é"),
        ("return await tools.echo({ '\\udfff': '\\ud800' })", {"\udfff": "\ud800"}),
        ("return [2 ** 53, 2 ** 60, -(2 ** 60), 1e21, 5e-324, 0.1]", [2**53, 2**60, -(2**60), 1e21, 5e-324, 0.1]),
        ("return null", None),
        ("return ''", ""),
        # CODE-86: toJSON is never consulted
        ("try { return { toJSON() { return 1 } } } finally {}", INVALID),
        ("Array.prototype.toJSON = Object.prototype.toJSON = String.prototype.toJSON = () => 'x'; return { a: ['b'] }", INVALID),
        # CODE-175
        ('const x: number = "a" as any; return x', "a"),
    ],
)  # fmt: skip
async def test_values(typescript: RunProgram, program: str, value: Any):
    result = await typescript(program)
    if isinstance(value, CodeRunError):
        if "toJSON = Object" in program:  # an enumerable function on a prototype is nobody's own
            assert result.value == {"a": ["b"]}
        else:
            assert result.error == value
    else:
        assert (result.value, result.error) == (value, None)


LOSSY = [
    # CODE-85, 86
    *(
        "{ a: undefined }",
        "[undefined]",
        "undefined",
        "NaN",
        "[Infinity]",
        "-Infinity",
        "-0",
        "{ a: -0 }",
        "10n",
        "Symbol('s')",
    ),
    *(
        "() => 1",
        "new Date()",
        "new Map()",
        "new Set()",
        "/x/",
        "new (class A {})()",
        "new Number(1)",
        "new String('s')",
    ),
    *("new Uint8Array(2)", "new (class extends Array {})()", "[1, , 2]", "Object.assign([1], { x: 1 })"),
    *(
        "Object.defineProperty([1], 'x', { value: 1 })",
        "{ [Symbol('s')]: 1 }",
        "Object.defineProperty({}, 'a', { value: 1 })",
    ),
    *("Object.create({ a: 1 })", "new Error('e')", "{ get a() { throw 1 } }", "Object.create({ constructor: Object })"),
    *("Object.setPrototypeOf([], null)", "[Promise.resolve(1)]", "new Proxy({}, { ownKeys() { throw 1 } })"),
    *("new Proxy({}, { getPrototypeOf() { throw 1 } })", "arguments", "globalThis", "tools.echo({})", "tools"),
    "(() => { const a = []; a.push({ a }); return a })()",
]


async def test_what_json_cannot_hold(typescript: RunProgram, host: Host):
    # CODE-85, 86, 87, 90: one refusal, in the program's own class
    attempts = "".join(
        f"try {{ const v = {value}; await tools.slow(v); seen.push({index}) }} "
        "catch (e) { seen.push(e instanceof ToolCallError && e.message) }\n"
        for index, value in enumerate(LOSSY)
    )
    result = await typescript(f"const seen = [];\n{attempts}return seen")
    assert result.value == ["binding arguments must be lossless JSON"] * len(LOSSY)
    # CODE-89: nothing was dispatched
    assert [name for name, _ in host.calls if name == "slow"] == []


@pytest.mark.parametrize(
    "value", ["{ a: undefined }", "-0", "new Map()", "[1, , 2]", "{ get a() { throw 1 } }", "[Promise.resolve(1)]"]
)
async def test_what_no_completion_can_be(typescript: RunProgram, value: str):
    # CODE-85, 86, 173
    completion = await typescript(f"const value = {value}; return value")
    assert completion.error == INVALID and completion.value is UNSET


@pytest.mark.parametrize(
    ("program", "message"),
    [
        # CODE-158
        ("const tools = 1", "already been declared"),
        ("let console = 1", "already been declared"),
        ("with ({}) {}", "with"),
        # CODE-159: closing the wrapper's brace early is no way out
        ("}; globalThis.x = 1; async function q() {", "SyntaxError"),
        ("} async function q() { return 1", "SyntaxError"),
        ("/*", "SyntaxError"),
        ("return `", "SyntaxError"),
        ("return '", "SyntaxError"),
        ("*/ return 1 /*", "SyntaxError"),
        # CODE-160 (D3)
        ("await import('node:fs')", "dynamic import"),
        ("await import('data:text/javascript,export default 1')", "dynamic import"),
        ("await (0, eval)(\"import('node:fs')\")", "dynamic import"),
        ("await new Function(\"return import('node:fs')\")()", "dynamic import"),
        ("require('fs')", "require is not defined"),
        ("import fs from 'fs'", "import"),
        ("export const a = 1", "SyntaxError"),
        ("import.meta.url", "SyntaxError"),
        # CODE-162
        ("console.table([1])", "console.table is not a function"),
        # CODE-94
        ("await tools.missing({})", "tools.missing is not a function"),
        # CODE-176: decorators and `using` are for JavaScript to judge
        ("@dec class A {}", "SyntaxError"),
        ("using x = 5; return 1", "TypeError"),
        # CODE-177
        ("enum A { B }", "TypeScript enum is not supported in strip-only mode"),
        ("const enum A { B }", "enum"),
        ("namespace N { export const a = 1 }", "namespace"),
        ("class A { constructor(private x: number) {} }", "parameter property"),
        ("return <any>5", "Instead, use the 'as' syntax"),
        ("import x = require('y')", "SyntaxError"),
        ("return <div/>", "SyntaxError"),
        ("let = = 3", "program.ts:1:7"),
        ("const a = 1;\nfoo(", "SyntaxError"),
        ("}}", "SyntaxError"),
        # CODE-169: the stack, with the program's own lines and nobody else's
        ("function f() {\n  null.x\n}\nf()", "TypeError: Cannot read properties of null (reading 'x')\n    at f (program.ts:2:8)\n    at program.ts:4:1"),
        ("const e = new Error('m'); e.stack = undefined; throw e", "m"),
        ("const e = new Error('m'); e.stack = 5; throw e", "5"),
        # CODE-170
        ("throw 'xy'", "xy"),
        ("throw undefined", "undefined"),
        ("throw { a: 1 }", "[object Object]"),
        ("throw Symbol('s')", "Symbol(s)"),
        ("throw { toString() { throw 1 } }", "program threw an unrenderable value"),
        ("throw Object.create(null)", "program threw an unrenderable value"),
    ],
)  # fmt: skip
async def test_exceptions(typescript: RunProgram, program: str, message: str):
    result = await typescript(program)
    assert result.error is not None and result.error.kind == "exception"
    assert message in result.error.message
    assert "worker.ts" not in result.error.message and "file://" not in result.error.message
    assert result.logs == []


@pytest.mark.parametrize("message", ["xy", "undefined", "[object Object]"])
async def test_thrown_values_are_the_whole_message(typescript: RunProgram, message: str):
    # CODE-170
    thrown = {"xy": "'xy'", "undefined": "undefined", "[object Object]": "{ a: 1 }"}[message]
    assert (await typescript(f"throw {thrown}")).error == CodeRunError("exception", message)


async def test_erasable_syntax_is_erased_in_place(typescript: RunProgram):
    # CODE-175, 176, 178
    result = await typescript(
        """
        interface Point { x: number; y?: number }
        type Pair<T> = [T, T];
        declare enum Level { Low }
        namespace Types { export type A = 1 }
        abstract class Shape<T> {
            private readonly size: number = 3;
            declare kind: string;
            abstract area(scale?: number): T;
            get(): number;
            get(): any { return this.size! }
        }
        class Square extends Shape<number> { area(scale: number = 2) { return this.get() * scale } }
        function first<T>(pair: Pair<T>): T;
        function first(pair: any) { return pair[0] }
        const p = { x: 1 } satisfies Point as Point;
        return [first<number>([p.x!, 2]), new Square().area(), new Error().stack!.split("\\n")[1].includes(":17:")];
        """
    )
    assert (result.error, result.value) == (None, [1, 6, True])


async def test_printing(typescript: RunProgram):
    # CODE-162, 163, 166
    result = await typescript(
        """
        console.log("a", 1, null, undefined, true, "b");
        console.log();
        console.log("%d %s", 1, "x");
        console.info({ a: { b: { c: { d: { e: { f: 1 } } } } } });
        console.warn([..."x".repeat(101)]);
        console.error(["y".repeat(10001)]);
        console.debug("two\\nlines\\n");
        console.log("z".repeat(20000));
        globalThis.console.log("the same console");
        console.log(new Proxy({}, { get() { throw 1 } }), { get a() { throw 2 } });
        """
    )
    assert result.error is None
    assert result.logs[0] == "a 1 null undefined true b"
    assert result.logs[1:3] == ["", "%d %s 1 x"]
    assert "[Object]" in result.logs[3] and "f: 1" not in result.logs[3]
    assert "1 more item" in result.logs[4]
    assert "1 more character" in result.logs[5]
    assert result.logs[6] == "two\nlines\n"
    assert result.logs[7] == "z" * 20000
    # CODE-164 (D42): the global console is the same one
    assert result.logs[8] == "the same console"
    assert len(result.logs) == 10


async def test_what_happens_after_the_return_is_lost(typescript: RunProgram, host: Host):
    # CODE-166
    result = await typescript("setTimeout(() => { console.log('late'); tools.echo({}) }, 0); return 1")
    assert (result.logs, result.value, host.calls) == ([], 1, [])


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("Promise.reject(new Error('afloat')); await new Promise((r) => setTimeout(r, 50)); return 1", "worker error: afloat"),
        ("Promise.reject('text'); await tools.slow({}); return 1", "worker error: text"),
        ("tools.fail({}); await tools.slow({}); return 1", "worker error: deliberate failure"),
        ("setTimeout(() => { throw new Error('timer') }, 1); await tools.slow({}); return 1", "worker error: timer"),
        ("queueMicrotask(() => { throw new Error('micro') }); await tools.slow({}); return 1", "worker error: micro"),
        ("Promise.reject({ toString() { throw 1 } }); await tools.slow({})", "worker error: program threw an unrenderable value"),
    ],
)  # fmt: skip
async def test_failures_beside_the_programs_course(typescript: RunProgram, program: str, message: str):
    # CODE-171, 172
    assert (await typescript(program)).error == CodeRunError("worker-exit", message)


async def test_a_completion_wins_over_a_rejection_seen_later(typescript: RunProgram):
    # CODE-171 (D6): the same way every time
    results = await asyncio.gather(*(typescript("Promise.reject(new Error('afloat')); return 1") for _ in range(12)))
    assert [(result.value, result.error) for result in results] == [(1, None)] * 12
    handled = await typescript("const p = Promise.reject(1); p.catch(() => 0); await tools.slow({}); return 2")
    assert handled.value == 2


@pytest.mark.parametrize(
    "program",
    [
        "await new Promise(() => {})",
        "const never = new Promise(() => {}); await Promise.race([never]); return 1",
        "await tools.echo({}); await new Promise(() => {})",
        "addEventListener('beforeunload', (e) => e.preventDefault()); await new Promise(() => {})",
        "setTimeout(() => console.log('tick'), 10); await new Promise(() => {})",
    ],
)
@pytest.mark.field("field-108")
async def test_waiting_for_nothing_ends_at_once(typescript: RunProgram, program: str):
    # CODE-142: never a normal completion
    program = program.replace("addEventListener", "globalThis.addEventListener?.")
    result = await typescript(program)
    assert result.error == CodeRunError(
        "exception", "program is waiting for something that nothing pending can resolve"
    )


async def test_waiting_for_something_that_may_come_does_not(typescript: RunProgram):
    # CODE-142
    assert (await typescript("await crypto.subtle.digest('SHA-256', new Uint8Array(1e6)); return 1")).value == 1
    forever = await typescript("setInterval(() => {}, 10); await new Promise(() => {})", max_wall_ms=300)
    assert forever.error == CodeRunError("timeout", "wall-clock ceiling reached (300ms)")


@pytest.mark.parametrize(
    ("call", "code"), [("process.exit(7)", 7), ("process.exit()", 0), ("process.exit(0)", 0), ("process.exit('9')", 9)]
)
async def test_a_program_may_end_its_own_process(typescript: RunProgram, call: str, code: int):
    # CODE-145 (D42)
    result = await typescript(f"console.log('bye'); {call}; return 1")
    assert result.logs == ["bye"]
    assert result.error == CodeRunError("worker-exit", f"worker exited with code {code} before completing")


@pytest.mark.parametrize(
    "program",
    [
        "for (;;);",
        "for (;;) await null",
        "for (;;) await tools.echo({})",
        "const f = () => { Promise.resolve().then(f) }; f(); await new Promise((r) => setTimeout(r, 60000))",
        "await tools.slow({ seconds: 0 }); while (true) { JSON.stringify({}) }",
        "/^(a+)+$/.test('a'.repeat(64) + 'b')",
    ],
)
async def test_loops_that_hang(typescript: RunProgram, program: str):
    # CODE-141, 143
    result = await typescript(program, compute_ms=250)
    assert result.error == CodeRunError("timeout", "compute budget exhausted (250ms busy)")


async def test_a_thread_that_sleeps_for_ever_ends_at_the_wall(typescript: RunProgram):
    # CODE-142, 143: no compute is used, and no event loop turns
    program = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)"
    result = await typescript(program, max_wall_ms=400)
    assert result.error == CodeRunError("timeout", "wall-clock ceiling reached (400ms)")


async def test_integers_that_javascript_cannot_hold_are_refused_with_the_path(typescript: RunProgram, host: Host):
    # CODE-91, 93 (D7)
    async def rows(_args: Any) -> Any:
        return {"rows": [{"id": 2**53 + 1}]}

    host.echo = rows  # type: ignore[method-assign]
    result = await typescript("try { await tools.echo({}) } catch (e) { return e.message.split('\\n') }")
    assert result.value == [
        "binding resolution must be lossless JSON",
        "rows[0].id: integer 9007199254740993 has no exact double; send it as a string",
    ]


async def test_a_name_unknown_to_the_host_is_refused(host: Host):
    # CODE-97, 181: names are resolved again on the host's side, as own members only
    from dsh_tools.code_runtime import CodeRunRequest, RuntimeConfig
    from dsh_tools.code_runtime.run import Run

    run = Run(CodeRunRequest("", [host.namespace()]), RuntimeConfig())
    for name in ("missing", "__class__", "toString", "get"):
        replies: list[object] = []
        rejection = run.call("tools", name, lambda: None, lambda *answer: replies.append(answer))
        assert rejection is not None
        assert (rejection.message, replies) == (f'unknown binding "tools.{name}"', [])
    await run.release()


async def test_output_limits_inside_the_program(typescript: RunProgram):
    # CODE-150 to 155
    assert (await typescript("return '€'", max_output_bytes=7)).value == "€"
    assert (await typescript("return '€'", max_output_bytes=6)).error == CodeRunError("output-limit", "ou")
    assert (await typescript("return 'x'", max_output_bytes=4)).error == CodeRunError("output-limit", "")
    over = await typescript("return { a: 'x'.repeat(1e6), b: undefined }", max_output_bytes=1000)
    assert over.error == CodeRunError("output-limit", "outer output exceeded 1000 bytes")
    dag = await typescript("let v = [1]; for (let i = 0; i < 60; i++) v = [v, v]; return v", max_output_bytes=10_000)
    assert dag.error is not None and dag.error.kind == "output-limit"
    free = await typescript("await tools.echo({ x: 'y'.repeat(100000) }); return 1", max_output_bytes=100)
    assert free.value == 1


async def test_arguments_may_be_large_but_not_without_end(typescript: RunProgram, host: Host):
    # CODE-84
    result = await typescript("return (await tools.echo({ x: 'y'.repeat(8e6) })).x.length")
    assert result.value == 8_000_000
    refused = await typescript("try { await tools.echo('y'.repeat(7e7)) } catch (e) { return e.message }")
    assert refused.value == "binding arguments exceed 67108864 bytes"
