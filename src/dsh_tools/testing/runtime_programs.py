"""The programs of the runtime suite, one set for each language. Not for running outside of it."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

__all__ = ["PROGRAMS"]

_TYPESCRIPT: dict[str, str] = {
    "hello": """
        console.log("one");
        console.log("two");
        const answer: number = 42;
        return { answer };
    """,
    "nothing": "const unused = 1;",
    "empty": "",
    "carry": "const value = await tools.give({}); await tools.take(value); return value;",
    "deep": """
        let value: unknown = null;
        for (let i = 0; i < @depth@; i++) value = [value];
        return await tools.echo(value);
    """,
    "hello_call": "return await tools.echo({ n: 1 });",
    "odd_name": 'return await tools["odd-name"]({ n: 1 });',
    "caught": """
        try { await tools.fail({}); } catch (error) {
            if (error instanceof ToolCallError) return [error.message, error.toolName];
        }
    """,
    "uncaught": "await tools.fail({});",
    "other_names": """
        const seen: unknown[] = [];
        try { await helpers.fail({}); } catch (error) {
            if (error instanceof HelperCallError) seen.push([error.message, error.helperName]);
        }
        try { await plain.fail({}); } catch (error) { seen.push(error.message); }
        return seen;
    """,
    "missing": "return await tools.missing({});",
    "lossy_arguments": """
        const seen: string[] = [];
        for (const bad of [{ a: NaN }, () => 1, { a: -0 }]) {
            try { await tools.echo(bad); } catch (error) {
                if (error instanceof ToolCallError) seen.push(error.message);
            }
        }
        return seen;
    """,
    "lossy_result": "try { await tools.lossy({}); } catch (error) { return error.message; }",
    "lossy_cycle": "const a: unknown[] = []; a.push(a); return a;",
    "lossy_function": "return { f: () => 1 };",
    "lossy_nan": "return [NaN];",
    "lossy_zero": "return -0;",
    "lossy_awaitable": "return { a: tools.echo({}) };",
    "overlap": "return (await Promise.all([0, 1, 2, 3, 4].map((n) => tools.slow({ n })))).map((r) => r.n);",
    "many": """
        const all = await Promise.all(Array.from({ length: @count@ }, (_, n) => tools.echo({ n })));
        return all.reduce((sum, reply) => sum + reply.n, 0);
    """,
    "not_awaited": 'for (let n = 0; n < 100; n++) tools.slow({ seconds: 60 }); return "done";',
    "throws": 'throw new Error("boom");',
    "syntax_error": "const = 1;",
    "undefined_name": "return thereIsNoSuchName;",
    "spin": 'console.log("before"); tools.slow({ seconds: 60 }); for (;;);',
    "wait": 'await tools.slow({ seconds: @seconds@ }); return "waited";',
    "memory_bomb": "const all: unknown[] = []; for (;;) all.push(new Array(10000).fill(all.length));",
    "call_then_spin": 'console.log("before"); await tools.slow({ seconds: 0.01 }); for (;;) await tools.slow({});',
    "exact_fit": 'console.log("abc"); return "xy";',
    "spam": """
        try { for (let i = 0;; i++) console.log(`spam line ${i}`); } catch { await tools.echo({}); }
        finally { await tools.echo({}); }
    """,
    "throws_much": 'throw new Error("x".repeat(1000));',
    "leave_something": "globalThis.leftover = 1; Array.prototype.leftover = 1;",
    "find_something": "return globalThis.leftover !== undefined || [].leftover !== undefined;",
    "repeat": """
        const early = [Math.random(), Date.now(), crypto.randomUUID()];
        const sleep = (ms: number) => new Promise((wake) => setTimeout(wake, ms));
        const both = [sleep(5).then(() => tools.echo("timer")), tools.echo("call").then(() => tools.echo("after"))];
        await Promise.all(both);
        return [...early, Math.random(), Date.now()];
    """,
}

_PYTHON: dict[str, str] = {
    "hello": """
        print("one")
        print("two")
        answer: int = 42
        return {"answer": answer}
    """,
    "nothing": "unused = 1",
    "empty": "",
    "carry": """
        value = await tools.give({})
        await tools.take(value)
        return value
    """,
    "deep": """
        value = None
        for _ in range(@depth@):
            value = [value]
        return await tools.echo(value)
    """,
    "hello_call": 'return await tools.echo({"n": 1})',
    "odd_name": 'return await tools["odd-name"]({"n": 1})',
    "caught": """
        try:
            await tools.fail({})
        except ToolCallError as error:
            return [str(error), error.toolName]
    """,
    "uncaught": "await tools.fail({})",
    "other_names": """
        seen = []
        try:
            await helpers.fail({})
        except HelperCallError as error:
            seen.append([str(error), error.helperName])
        try:
            await plain.fail({})
        except Exception as error:
            seen.append(str(error))
        return seen
    """,
    "missing": "return await tools.missing({})",
    "lossy_arguments": """
        seen = []
        for bad in [{"a": float("nan")}, lambda: 1, {"a": -0.0}]:
            try:
                await tools.echo(bad)
            except ToolCallError as error:
                seen.append(str(error))
        return seen
    """,
    "lossy_result": """
        try:
            await tools.lossy({})
        except ToolCallError as error:
            return str(error)
    """,
    "lossy_cycle": "a = []\na.append(a)\nreturn a",
    "lossy_function": 'return {"f": lambda: 1}',
    "lossy_nan": 'return [float("nan")]',
    "lossy_zero": "return -0.0",
    "lossy_awaitable": 'return {"a": tools.echo({})}',
    "overlap": """
        import asyncio
        replies = await asyncio.gather(*[tools.slow({"n": n}) for n in range(5)])
        return [reply["n"] for reply in replies]
    """,
    "many": """
        import asyncio
        replies = await asyncio.gather(*[tools.echo({"n": n}) for n in range(@count@)])
        return sum([reply["n"] for reply in replies])
    """,
    "not_awaited": """
        for n in range(100):
            tools.slow({"seconds": 60})
        return "done"
    """,
    "throws": 'raise ValueError("boom")',
    "syntax_error": "x = = 1",
    "undefined_name": "return there_is_no_such_name",
    "spin": """
        print("before")
        pending = tools.slow({"seconds": 60})
        while True:
            pass
    """,
    "wait": 'await tools.slow({"seconds": @seconds@})\nreturn "waited"',
    "memory_bomb": """
        all = []
        while True:
            all.append("x" * 100000 + str(len(all)))
    """,
    "call_then_spin": """
        print("before")
        await tools.slow({"seconds": 0.01})
        while True:
            await tools.slow({})
    """,
    "exact_fit": 'print("abc")\nreturn "xy"',
    "spam": """
        i = 0
        try:
            while True:
                print(f"spam line {i}")
                i += 1
        finally:
            await tools.echo({})
    """,
    "throws_much": 'raise ValueError("x" * 1000)',
    "leave_something": """
        global leftover
        leftover = 1
    """,
    "find_something": """
        try:
            return leftover is not None
        except NameError:
            return False
    """,
    "repeat": """
        import asyncio, random, time
        early = [random.random(), time.time(), random.getrandbits(64)]
        async def timer():
            await asyncio.sleep(0.005)
            await tools.echo("timer")
        async def call():
            await tools.echo("call")
            await tools.echo("after")
        await asyncio.gather(timer(), call())
        return [*early, random.random(), time.time()]
    """,
}

PROGRAMS: Mapping[str, Mapping[str, str]] = {
    "typescript": {name: dedent(text).strip() for name, text in _TYPESCRIPT.items()},
    "python": {name: dedent(text).strip() for name, text in _PYTHON.items()},
}
"""Language to name to program; ``@word@`` is replaced by the suite."""
