"""Our tools for the OpenAI Agents SDK, and one of its here. It needs: pip install openai-agents"""

from __future__ import annotations

import asyncio
from typing import Any

try:
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
except ImportError as missing:
    raise SystemExit(f"{missing}; it needs: pip install openai-agents") from None

from dsh_tools import ToolCall, standard, tool
from dsh_tools.toolkits.adapters.openai_agents import from_openai_agents, function_tools


@tool
async def stock(item: str) -> int:
    """How many there are of an item."""
    return {"apples": 3}.get(item, 0)


@function_tool
def reverse(text: str) -> str:
    """Turn a text around."""
    return text[::-1]


class StandIn(Model):
    """Stands in for a language model, so that the example runs anywhere."""

    async def get_response(self, *, input: Any, **_: Any) -> ModelResponse:
        outputs = [item["output"] for item in input if "output" in item]
        answer: Any = ResponseFunctionToolCall(
            type="function_call", id="f", call_id="c", name="stock", arguments='{"item": "apples"}'
        )
        if outputs:
            text = ResponseOutputText(type="output_text", text=f"There are {outputs[0]} apples.", annotations=[])
            answer = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[answer], usage=Usage(), response_id=None)

    def stream_response(self, **_: Any) -> Any:
        raise RuntimeError("this model answers at once")


async def main() -> None:
    async with standard() as ctx:
        ctx.tools.register(stock)
        agent = Agent(name="clerk", model=StandIn(), tools=list(function_tools(ctx)))
        question = "How many apples are there?"
        print((await Runner.run(agent, question, run_config=RunConfig(tracing_disabled=True))).final_output)

        ctx.tools.register(from_openai_agents(reverse))
        print((await ctx.tools.execute(ToolCall("reverse", {"text": "apples"}))).content[0].text)


asyncio.run(main())
