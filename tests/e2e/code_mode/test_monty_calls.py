"""Real Python programs whose calls go through the whole pipeline."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.agents import LoggedAgent
from tests.support.calls import Body, make_tool, text_of

from dsh_tools.kernel import AbortController
from dsh_tools.tools import Deny

from .conftest import Run


async def test_a_program_sees_values_errors_and_prints(py: Any, run: Run) -> None:
    # CODE-35, 94, 95, 96, 121, 123
    py.tools.register(make_tool("count", Body(lambda args, _r: {"n": len(args["text"])})))
    py.tools.register(make_tool("my-tool", Body(["a", 1.5, None])))
    py.tools.register(make_tool("boom", Body(ValueError("deliberate failure"))))
    result = await run(
        py,
        """
counted = await tools.count({"text": "four"})
print("counted", counted["n"])
try:
    await tools.boom({})
except ToolCallError as error:
    print(error.toolName, str(error))
return {"odd": await tools["my-tool"]({}), "n": counted["n"]}
""",
    )
    assert result.value == {
        "logs": ["counted 4", "boom deliberate failure"],
        "result": {"odd": ["a", 1.5, None], "n": 4},
    }
    failed = await run(py, 'print("before")\nawait tools.boom({})')
    assert text_of(failed).startswith("Error: code run failed (exception): ")
    assert "deliberate failure" in text_of(failed)
    assert text_of(failed).endswith("\nCaptured output:\nbefore")


async def test_no_value_and_none_are_the_same(py: Any, run: Run) -> None:
    # CODE-35, 189, D5
    for program in ("", "x = 1", "return None"):
        result = await run(py, program)
        assert result.value == {"logs": []}
        assert text_of(result) == "(run_code completed with no output)"
    assert text_of(await run(py, "return (1, 2)")) == (
        "Error: code run failed (invalid-output): program completion must be lossless JSON"
    )


async def test_overlap_by_gather_and_integers_of_any_size(py: Any, run: Run) -> None:
    # CODE-93, 100, 101, D41
    running, most = 0, 0

    async def body(args: Any, execution: Any) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return args["x"] + 2**70

    py.tools.register(make_tool("read", body, is_concurrency_safe=lambda _a: True))
    result = await run(
        py,
        "import asyncio\nreturn await asyncio.gather(tools.read({'x': 1}), tools.read({'x': 2}), tools.read({'x': 3}))",
    )
    assert result.value["result"] == [2**70 + 1, 2**70 + 2, 2**70 + 3]
    assert most == 3


async def test_policy_and_log(py: Any, run: Run) -> None:
    # CODE-96, 98, 106 to 108
    py.tools.register(make_tool("t"))
    py.tools.register(make_tool("denied"))

    async def pre(execution: Any, next: Any) -> Any:
        return Deny("no") if execution.name == "denied" else await next()

    py.on("tools/pre-execute", pre)
    agent = LoggedAgent(py.create_scope("agent").scope)
    result = await run(
        py,
        """
said = [await tools.t({})]
try:
    await tools.denied({})
except Exception as error:
    said.append(str(error))
return said
""",
        agent=agent,
    )
    assert result.value["result"] == ["ok", "no"]
    events = agent.events("tool/code-dispatch")
    assert [data["subCallId"] for _, data in events] == ["outer:code:1"] * 2 + ["outer:code:2"] * 2
    assert [data["isError"] for kind, data in events if kind == "tool/code-dispatch"] == [False, True]


async def test_lossy_arguments_use_no_number(py: Any, run: Run) -> None:
    # CODE-89, 90, 93
    py.tools.register(make_tool("t", Body(lambda _a, r: r.call_id)))
    result = await run(
        py,
        """
said = []
for value in [{"a": float("nan")}, {"a": -0.0}, {"a": (1, 2)}, {1: 2}, {"a": {1, 2}}]:
    try:
        await tools.t(value)
    except ToolCallError as error:
        said.append(str(error))
return [said, await tools.t({})]
""",
    )
    said, call_id = result.value["result"]
    assert said == ["binding arguments must be lossless JSON"] * 5
    assert call_id == "outer:code:1"


async def test_an_abort_stops_a_hung_program(py: Any, run: Run) -> None:
    # CODE-115, 120
    started = asyncio.Event()

    async def begin(args: Any, execution: Any) -> str:
        started.set()
        return "ok"

    py.tools.register(make_tool("begin", begin))
    controller = AbortController()
    task = asyncio.create_task(run(py, "await tools.begin({})\nwhile True:\n    pass", signal=controller.signal))
    await started.wait()
    controller.abort("enough")
    assert text_of(await task) == "Error: code run failed (abort): enough"
