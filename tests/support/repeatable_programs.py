"""Random programs whose course depends on the order of answers, on the clock and on chance, in both languages."""

from __future__ import annotations

from hypothesis import strategies as st

_TYPESCRIPT = {
    "call": "say(@, await tools.echo({id: @, r: Math.random(), t: Date.now()}));",
    "fail": "try { await tools.fail({id: @}) } catch (e) { say(@, e.message, e.toolName) }",
    "other": "say(@, (await tools.other([Math.random()])).chance);",
    "lossy": "try { await tools.echo({id: undefined}) } catch (e) { say(@, e.message) }",
    "sleep": "await new Promise((wake) => setTimeout(wake, # * 7)); say(@);",
    "race": "say(@, await Promise.race([tools.echo(@), new Promise((wake) => setTimeout(wake, #, 'late'))]));",
    "limit": "{ let t; const late = new Promise((wake) => t = setTimeout(wake, 9, 'late')); "
    "say(@, await Promise.race([tools.echo(@), tools.other(#), late])); clearTimeout(t); }",
    "signal": "{ const signal = AbortSignal.timeout(#); await new Promise((wake) => signal.onabort = wake); say(@, String(signal.reason)); }",
    "interval": "await new Promise((wake) => { let n = #; const t = setInterval(() => "
    "{ say(@, n); if (--n <= 0) { clearInterval(t); wake(); } }, 3); });",
    "all": "say(@, await Promise.all([tools.echo(@), tools.other(2), tools.echo(Math.random())]));",
    "settled": "say(@, await Promise.allSettled([tools.fail(@), tools.echo(1)]));",
    "any": "say(@, await Promise.any([tools.fail(0), tools.echo(@), tools.other(@)]));",
    "floating": "tools.echo(Math.random()).then((v) => say(@, v)); tools.fail(@).catch((e) => tools.echo(e.message));",
    "ticks": "for (let i = 0; i < # * 3; i++) await null; say(@);",
    "micro": "queueMicrotask(() => say(@, 'micro')); await null; say(@);",
    "digest": "say(@, new Uint8Array(await crypto.subtle.digest('SHA-256', new Uint8Array(# * 40000)))[0]);",
    "digests": "for (let i = 0; i < 3; i++) crypto.subtle.digest('SHA-256', new Uint8Array((3 - i) * 90000)).then(() => say(@, i));",
    "chance": "say(@, crypto.randomUUID(), ...crypto.getRandomValues(new Uint16Array(#)));",
    "time": "say(@, performance.now(), new Date().getMilliseconds(), Temporal.Now.instant(), new Event('x').timeStamp);",
    "busy": "{ const t = performance.now(); while (performance.now() - t < #); say(@, performance.now()); }",
    "stack": "say(@, new Error('here').stack);",
    "handled later": "{ const lost = tools.fail(@); lost.catch(() => {}); await tools.echo(1); await lost.catch((e) => say(@, e.message)); }",
}  # fmt: skip
_PYTHON = {
    "call": "say(@, await tools.echo({'id': @, 'r': random.random(), 't': time.time()}))",
    "fail": "try:\n    await tools.fail({'id': @})\nexcept ToolCallError as e:\n    say(@, e, e.toolName)",
    "other": "say(@, (await tools.other([random.random()]))['chance'])",
    "lossy": "try:\n    await tools.echo((@, 1))\nexcept ToolCallError as e:\n    say(@, e)",
    "sleep": "await asyncio.sleep(# * 0.007)\nsay(@)",
    "blocking": "time.sleep(# * 0.003)\nsay(@)",
    "all": "say(@, await asyncio.gather(tools.echo(@), tools.other(2), tools.echo(random.random()), asyncio.sleep(0.01)))",
    "later": "early = tools.echo(random.randint(0, 99))\nlate = tools.other(@)\nsay(@, await late)\nsay(@, await early)",
    "refused later": "lost = tools.echo((@,))\nsay(@, await tools.echo(#))\ntry:\n    await lost\nexcept ToolCallError as e:\n    say(@, e)",
    "nested": "async def inner(n):\n    say(@, n, await tools.echo(n))\n    say(@, n, await tools.other(n))\n"
    "await asyncio.gather(*[inner(n) for n in range(#)])",
    "failing": "try:\n    await asyncio.gather(tools.echo(@), tools.fail(@), tools.echo(#))\nexcept ToolCallError as e:\n    say(@, e)",
    "chance": "say(@, random.Random().random(), random.sample(range(99), #), list({str(n) for n in range(9)}))",
    "busy": "t = time.monotonic()\nwhile time.monotonic() - t < # * 0.001:\n    pass\nsay(@, time.time_ns())",
    "time": "say(@, time.monotonic(), datetime.datetime.now(), datetime.date.today(), time.ctime())",
}  # fmt: skip
_TYPESCRIPT_FRAME = """
const say = (...parts: any[]) => console.log(...parts.map((part) => typeof part === "string" ? part : JSON.stringify(part)), Date.now());
const tasks: Promise<unknown>[] = [];
%s
await Promise.all(tasks);
return [Math.random(), Date.now()];
"""
_PYTHON_FRAME = """
import asyncio, datetime, random, time
def say(*parts):
    print(*parts, time.time())
%s
return [await asyncio.gather(%s), random.random(), time.time()]
"""

_Tasks = list[list[tuple[str, int]]]


def _fill(templates: dict[str, str], steps: list[tuple[str, int]], task: int) -> list[str]:
    return [
        templates[name].replace("@", str(100 * task + place)).replace("#", str(number))
        for place, (name, number) in enumerate(steps)
    ]


def _write_typescript(tasks: _Tasks) -> str:
    bodies = [
        f"tasks.push((async () => {{\n{chr(10).join(_fill(_TYPESCRIPT, steps, number))}\n}})());"
        for number, steps in enumerate(tasks)
    ]
    return _TYPESCRIPT_FRAME % "\n".join(bodies)


def _write_python(tasks: _Tasks) -> str:
    bodies = [
        f"async def task{number}():\n" + "\n".join([*_fill(_PYTHON, steps, number), "pass"]).replace("\n", "\n    ")
        for number, steps in enumerate(tasks)
    ]
    text = "\n".join(body.replace(":\n", ":\n    ", 1) for body in bodies)
    return _PYTHON_FRAME % (text, ", ".join(f"task{number}()" for number in range(len(tasks))))


def programs(language: str) -> st.SearchStrategy[str]:
    """Programs of some tasks that run beside each other, each a few steps long."""
    templates, write = (_TYPESCRIPT, _write_typescript) if language == "typescript" else (_PYTHON, _write_python)
    steps = st.tuples(st.sampled_from(sorted(templates)), st.integers(1, 3))
    return st.lists(st.lists(steps, min_size=1, max_size=5), min_size=1, max_size=5).map(write)
