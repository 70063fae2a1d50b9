"""What a Python program sees, where that is not the same for all runtimes."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest
from msgspec import UNSET

from dsh_tools.code_runtime import CodeRunError, CodeRunRequest, CodeRunResult, MontyRuntime, RuntimeConfig
from dsh_tools.testing.runtime_conformance import Host

from .conftest import RunProgram

INVALID = CodeRunError("invalid-output", "program completion must be lossless JSON")


@pytest.mark.parametrize(
    ("program", "value"),
    [
        # CODE-188: top-level await and return, attribute and subscript access
        ("return await tools.echo({'a': 1})", {"a": 1}),
        ("name = 'odd-name'\nreturn await tools[name]({'a': 1})", {"a": 1}),
        ("if True:\n    return 5\nreturn 6", 5),
        ("pending = tools.echo({'a': 1})\nprint('meanwhile')\nreturn await pending", {"a": 1}),
        ("return [await tools.echo(n) for n in range(3)]", [0, 1, 2]),
        ("async def twice(x):\n    return [await tools.echo(x), await tools.echo(x)]\nreturn await twice(1)", [1, 1]),
        ("x = '''a\n  b\n'''\nreturn x", "a\n  b\n"),
        ("count = 0\ndef bump():\n    nonlocal count\n    count += 1\nbump()\nreturn count", 1),
        # CODE-188: the error class and its member, in every way a program spells it
        ("try:\n    await tools.fail({})\nexcept ToolCallError as e:\n    return f'{e.toolName}: {e}'", "fail: deliberate failure"),
        ("try:\n    await tools['fail']({})\nexcept Exception as e:\n    return [e.toolName, isinstance(e, ToolCallError), isinstance(e, ValueError)]", ["fail", True, False]),
        ("try:\n    await tools.fail({'message': 'a'})\nexcept ToolCallError as first:\n    kept = first\ntry:\n    await tools['fail']({'message': 'a'})\nexcept ToolCallError as e:\n    return [kept.toolName, e.toolName, kept is e]", ["fail", "fail", False]),
        ("class Box:\n    def __init__(self):\n        self.toolName = 'mine'\nreturn Box().toolName", "mine"),
        ("async def attempt():\n    try:\n        await tools.fail({})\n    except ToolCallError as e:\n        return [e.toolName for _ in range(2)]\nreturn await attempt()", ["fail", "fail"]),
        # CODE-189 (D5): both ways to return nothing, and asyncio is there to import
        ("import asyncio\nreturn await asyncio.gather(tools.echo(1), tools.echo(2))", [1, 2]),
        ("import asyncio\nawait asyncio.gather(asyncio.sleep(0.02), asyncio.sleep(0.02))\nreturn 'slept'", "slept"),
        ("import time\ntime.sleep(0.01)\nreturn 'slept'", "slept"),
        ("import json, re, math\nreturn [json.loads('[1]'), re.sub('a', 'b', 'a'), math.floor(1.5)]", [[1], "b", 1]),
        # CODE-93, D41: integers of any size
        ("return [2 ** 53 + 1, 2 ** 60, -(10 ** 30)]", [2**53 + 1, 2**60, -(10**30)]),
        ("return True", True),
        ("return ''", ""),
    ],
)  # fmt: skip
async def test_values(python: RunProgram, program: str, value: Any):
    result = await python(program)
    assert (result.value, result.error) == (value, None)


@pytest.mark.parametrize("program", ["", "return", "return None", "x = 1\nx", "# nothing", "1 + 1", "'text'"])
async def test_no_value(python: RunProgram, program: str):
    # CODE-35, 173, 189 (D5): the last expression is no completion
    assert await python(program) == CodeRunResult([], UNSET)


@pytest.mark.parametrize(
    "value",
    # CODE-85, 93, 189
    [
        "(1, 2)",
        "[(1,)]",
        "{1, 2}",
        "b'x'",
        "{1: 2}",
        "{None: 1}",
        "float('inf')",
        "-0.0",
        "print",
        "int",
        "ValueError('x')",
        "...",
    ]
    + ["range(3)", "tools", "tools.echo", "lambda: 1", "{'a': [tools.echo]}", "iter([])", "tools.echo({})"],
)
async def test_what_json_cannot_hold(python: RunProgram, host: Host, value: str):
    completion = await python(f"return {value}")
    assert completion.error == INVALID and completion.value is UNSET
    argument = await python(f"try:\n    await tools.echo({value})\nexcept ToolCallError as e:\n    return str(e)")
    assert argument.value == "binding arguments must be lossless JSON"
    assert [call for call in host.calls if call[1] != {}] == []


async def test_printing(python: RunProgram):
    # CODE-189 (D5): one entry for each call, without its line end
    result = await python(
        """
print("a", 1, None, sep="-")
print()
print("two\\nlines")
print("no end", end="")
print("back\\\\slash", "\\\\n")
print("x", end="\\n\\n")
print(*[1, 2], flush=True)
import sys
print("to stderr", file=sys.stderr)
print("é😀")
"""
    )
    assert result.error is None
    assert result.logs == ["a-1-None", "", "two\nlines", "no end", "back\\slash \\n", "x\n", "1 2", "to stderr", "é😀"]


@pytest.mark.parametrize(
    ("program", "messages"),
    [
        # CODE-169: a traceback with the program's own lines
        ("def f(x):\n    return x.missing\n\nf(1)", ['File "program.py", line 4, in <program>', 'line 2, in f', "AttributeError"]),
        ("raise ValueError('boom')", ["line 1, in <program>", "ValueError: boom"]),
        ("raise Exception", ["Exception"]),
        ("x = 1 +", ["SyntaxError", "line 1"]),
        ("x = (1", ["SyntaxError"]),
        ("return 1\n  return 2", ["SyntaxError"]),
        ("return missing_name", ["NameError: name 'missing_name' is not defined"]),
        ("missing_function(1)", ["NameError: name 'missing_function' is not defined"]),
        ("EchoArgs(a=1)", ["NameError: name 'EchoArgs' is not defined"]),
        ("tools.missing({})", ["AttributeError", "missing"]),
        ("await tools['missing']({})", ["KeyError", "missing"]),
        ("await tools.echo()", ["TypeError", "takes its arguments as one dict"]),
        ("assert 1 == 2", ["AssertionError"]),
        ("def f(n):\n    return f(n + 1)\nf(0)", ["RecursionError", "more frames"]),
        ("await tools.fail({})", ["line 1", "ToolCallError: deliberate failure"]),
        ("raise KeyboardInterrupt('x')", ["KeyboardInterrupt"]),
        ("raise SystemExit('x')", ["SystemExit"]),
        # A construct that is not there is named.
        ("class A(Exception): pass", ["this Python does not support class inheritance"]),
        ("def g():\n    yield 1", ["this Python does not support yield expressions"]),
        ("x = 1\ndel x", ["this Python does not support the 'del' statement"]),
        ("import asyncio\nasyncio.create_task(tools.echo({}))", ["create_task"]),
        ("async with x:\n    pass", ["this Python does not support"]),
    ],
)  # fmt: skip
async def test_exceptions(python: RunProgram, program: str, messages: list[str]):
    result = await python(program)
    assert result.error is not None and result.error.kind == "exception"
    for message in messages:
        assert message in result.error.message
    assert "__dsh" not in result.error.message
    assert len(result.error.message) < 4000


@pytest.mark.parametrize(
    "attempt",
    # CODE-161, 180 (D3)
    [
        "open('/etc/passwd').read()",
        "open('x', 'w').write('y')",
        "__import__('os').listdir('/')",
        "from pathlib import Path\nPath('/etc/passwd').read_text()",
        "import os\nos.listdir('/')",
        "import os\nos.environ['HOME']",
        "import os\nos.getenv('HOME')",
        "import os\nos.system('ls')",
        "import os\nos.kill(1, 9)",
        "import subprocess",
        "import socket",
        "import urllib.request",
        "import ctypes",
        "import sys\nsys.exit(3)",
        "exit(3)",
        "import builtins",
        "import importlib",
        "import gc\ngc.get_objects()",
        "().__class__.__base__.__subclasses__()",
        "'{0.__class__.__bases__}'.format('')",
        "f'{().__class__}'",
        "(lambda: 0).__globals__",
        "(lambda: 0).__code__",
        "tools.echo.__globals__",
        "tools.__class__.__mro__",
        "type(tools).mro()",
        "print.__self__",
        "class X:\n    def __del__(self): pass\nX().__class__.__subclasses__()",
    ],
)
@pytest.mark.field("field-106")
async def test_no_way_out(python: RunProgram, host: Host, attempt: str):
    *before, last = attempt.split("\n")
    result = await python("\n".join([*before, f"return str({last})" if "import" not in last.split()[0] else last]))
    assert result.error is not None and result.error.kind == "exception", result
    assert host.calls == []


async def test_lone_surrogates_are_refused_where_they_cannot_be(python: RunProgram, host: Host):
    # CODE-84: this interpreter's strings hold whole characters only
    async def surrogates(_args: Any) -> Any:
        return {"a": ["\ud800"]}

    host.echo = surrogates  # type: ignore[method-assign]
    result = await python(
        "try:\n    await tools.echo({})\nexcept ToolCallError as e:\n    return str(e).split(chr(10))[0]"
    )
    assert result.value == "binding resolution must be lossless JSON"
    assert (await python("return '\ud800'")).error is not None

    async def failing(_args: Any) -> Any:
        raise ValueError("bad \ud800 text")

    host.fail = failing  # type: ignore[method-assign]
    caught = await python("try:\n    await tools.fail({})\nexcept ToolCallError as e:\n    return str(e)")
    assert caught.value == "bad \\ud800 text"


CAUGHT = "try:\n    await tools.fail({})\nexcept Exception as e:\n    return "


@pytest.mark.parametrize(
    ("shown", "value"),
    [
        ("type(e).__name__", "ToolCallError"),
        ("ToolCallError.__name__", "ToolCallError"),
        ("f'{type(e).__name__}: {e}'", "ToolCallError: deliberate failure"),
        ("repr(e)", "ToolCallError('deliberate failure')"),
        ("f'{e!r:>40}'", "     ToolCallError('deliberate failure')"),
        ("list(map(repr, [e, 'e', 1]))", ["ToolCallError('deliberate failure')", "'e'", "1"]),
        ("repr(type(e))", "<class 'ToolCallError'>"),
        ("[type(error).__name__ + repr(error) for error in [ValueError('a')]]", ["ValueErrorValueError('a')"]),
        ("[type(x).__name__ for x in [1, tools, [], ToolCallError('mine')]][:3:2]", ["int", "list"]),
        ("repr(ToolCallError('mine'))", "ToolCallError('mine')"),
    ],
)
async def test_a_failure_is_called_what_the_program_calls_it(python: RunProgram, shown: str, value: Any):
    # CODE-137, 188
    result = await python(CAUGHT + shown)
    assert (result.value, result.error) == (value, None)


async def test_an_uncaught_failure_is_shown_with_the_programs_own_line(python: RunProgram):
    # CODE-169
    result = await python(CAUGHT + "f'{type(e).__name__} {e!r}' + e.message  # toolName")
    assert result.error is not None
    assert result.error.message == (
        "Traceback (most recent call last):\n"
        '  File "program.py", line 4, in <program>\n'
        "    return f'{type(e).__name__} {e!r}' + e.message  # toolName\n"
        "AttributeError: 'ToolCallError' object has no attribute 'message'"
    )
    nameless = await python("def f(): pass\nreturn f.__name__")
    assert nameless.error is not None
    assert nameless.error.message.endswith(
        "    return f.__name__\nAttributeError: 'function' object has no attribute '__name__'"
    )


@pytest.mark.parametrize(
    ("call", "usage"),
    [
        ("tools.echo(sku='a', n=1)", "tools.echo takes its arguments as one dict: tools.echo({'sku': 'a', 'n': 1})"),
        ("tools.echo()", "tools.echo takes its arguments as one dict: tools.echo({})"),
        ("tools.echo({}, 1)", "tools.echo takes its arguments as one dict: tools.echo({...})"),
        ("tools.echo(a='x' * 300)", "tools.echo takes its arguments as one dict: tools.echo({...})"),
        ("tools['odd-name'](a=1)", 'tools["odd-name"] takes its arguments as one dict: tools["odd-name"]({\'a\': 1})'),
    ],
)
async def test_a_call_with_keywords_says_how_it_is_written(python: RunProgram, host: Host, call: str, usage: str):
    # CODE-188
    caught = await python(f"try:\n    await {call}\nexcept TypeError as e:\n    return str(e)")
    assert caught.value == usage
    uncaught = await python(f"await {call}")
    assert uncaught.error is not None
    assert uncaught.error.message == (
        f'Traceback (most recent call last):\n  File "program.py", line 1, in <program>\n    await {call}\nTypeError: {usage}'
    )
    assert host.calls == []


async def test_six_error_classes_are_told_apart(host: Host):
    # CODE-137
    from dsh_tools.code_runtime import BindingNamespace, ErrorClassSpec

    spaces = [BindingNamespace(f"n{i}", {"fail": host.fail}, ErrorClassSpec(f"E{i}", f"who{i}")) for i in range(6)]
    attempts = [
        f"try:\n    await n{i}.fail({{}})\nexcept E{i} as e:\n    seen.append([e.who{i}, isinstance(e, E{(i + 1) % 6})])"
        for i in range(6)
    ]
    program = "\n".join(["seen = []", *attempts, "return seen"])
    runtime = MontyRuntime(RuntimeConfig(pool_size=0))
    result = await runtime.run(CodeRunRequest(program, spaces))
    await runtime.dispose()
    assert (result.error, result.value) == (None, [["fail", False]] * 6)


async def test_depth_has_an_end_that_corrupts_nothing(python: RunProgram):
    # CODE-84, 173
    program = "x = None\nfor _ in range({0}):\n    x = [x]\nreturn x"
    assert (await python(program.format(9000))).error == INVALID
    deep = await python("x = 1\nfor _ in range(20000):\n    x = [x]\nreturn x == x")
    assert deep.error is None or deep.error.kind in ("worker-exit", "exception")
    assert (await python("return 1")).value == 1


async def test_output_limits_inside_the_program(python: RunProgram):
    # CODE-150 to 153
    assert (await python("return '€'", max_output_bytes=7)).value == "€"
    assert (await python("return '€'", max_output_bytes=6)).error == CodeRunError("output-limit", "ou")
    large = await python("return ['x' * 1000] * 1000", max_output_bytes=1000)
    assert large.error == CodeRunError("output-limit", "outer output exceeded 1000 bytes")
    entry = await python("print('y' * 1000000)\nawait tools.echo({})", max_output_bytes=1000)
    assert entry.error == CodeRunError("output-limit", "outer output exceeded 1000 bytes")
    assert len(entry.logs[0]) > 900
    free = await python("return len((await tools.echo('y' * 100000)))", max_output_bytes=100)
    assert free.value == 100_000


async def test_a_flood_of_prints_ends_the_run(python: RunProgram):
    # CODE-154, 155
    before = psutil.Process().memory_info().rss
    result = await python("while True:\n    print('spam' * 1000)", max_output_bytes=100_000)
    assert result.error == CodeRunError("output-limit", "outer output exceeded 100000 bytes")
    assert psutil.Process().memory_info().rss - before < 64 << 20


@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "while True:\n    await tools.echo({})",
        "x = 2 ** (10 ** 7)\nwhile True:\n    x = x * 3",
        "sum(range(10 ** 12))",
    ]
    + ["import re\nre.match('(a+)+$', 'a' * 64 + 'b')\nwhile True: pass"],
)
async def test_loops_that_hang(python: RunProgram, program: str):
    # CODE-141, 143
    result = await python(program, compute_ms=250)
    assert result.error == CodeRunError("timeout", "compute budget exhausted (250ms busy)")


async def test_waiting_for_ever_ends_at_the_wall(python: RunProgram):
    # CODE-142
    result = await python("import asyncio\nawait asyncio.sleep(3600)", max_wall_ms=400)
    assert result.error == CodeRunError("timeout", "wall-clock ceiling reached (400ms)")
    blocking = await python("import time\ntime.sleep(3600)", max_wall_ms=400)
    assert blocking.error == result.error


@pytest.mark.field("field-108")
async def test_there_is_nothing_to_wait_for_that_could_not_come(python: RunProgram):
    # CODE-142
    result = await python("import asyncio\nawait asyncio.Future()")
    assert result.error is not None and result.error.kind == "exception" and "Future" in result.error.message


@pytest.fixture
async def quiet() -> AsyncIterator[None]:
    """Start the client's own threads once: it keeps them for the whole process."""
    runtime = MontyRuntime(RuntimeConfig(pool_size=0))
    await runtime.run(CodeRunRequest("print(1)"))
    await runtime.dispose()
    yield


async def test_runs_leave_no_threads(quiet: None):
    # CODE-174, 179
    def count() -> int:
        return psutil.Process().num_threads()

    before, threads = count(), threading.active_count()
    for _ in range(3):
        runtime = MontyRuntime(RuntimeConfig(pool_size=2))
        await asyncio.gather(*(runtime.run(CodeRunRequest("print(1)\nreturn 1")) for _ in range(5)))
        await runtime.dispose()
        assert psutil.Process().children() == []
    # The client keeps as many threads as it ever used at once; they do not grow with runs.
    assert count() - before <= 8 and threading.active_count() - threads <= 1


async def test_the_kernel_limits_what_the_interpreter_does_not(host: Host):
    # CODE-144
    runtime = MontyRuntime(RuntimeConfig(pool_size=0))
    task = asyncio.ensure_future(runtime.run(CodeRunRequest("await tools.slow({'seconds': 30})", [host.namespace()])))
    await asyncio.wait_for(host.started.wait(), 30)
    (child,) = psutil.Process().children()
    if sys.platform == "linux":
        assert child.rlimit(psutil.RLIMIT_DATA) == (1 << 30, 1 << 30)
        assert child.rlimit(psutil.RLIMIT_CPU) == (90, 90)
    await runtime.dispose()
    assert task.done() and not child.is_running()


@pytest.mark.parametrize(
    "module", "asyncio base64 bisect collections copy dataclasses datetime decimal functools".split()
)
async def test_the_subset_tells_the_truth(python: RunProgram, module: str):
    # CODE-188
    from dsh_tools.code_runtime import PYTHON_SUBSET

    assert f" {module}," in PYTHON_SUBSET
    assert (await python(f"import {module}\nreturn 1")).value == 1
