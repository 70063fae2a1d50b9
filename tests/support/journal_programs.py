"""The same course in both languages and by calls of the model: effects once, again, beside each other, and allowed."""

from __future__ import annotations

from dsh_tools.model import ScriptedModel, call, say

from .journal import program_of, say_result

__all__ = ["EFFECTS", "ONCE", "model_for"]

EFFECTS = ("first", "second", "third", "fourth", "fifth", "sixth")
ONCE = frozenset({"first", "third", "fourth", "fifth", "sixth"})
"""What must never be done twice; the second may be done again."""

_TYPESCRIPT = """
const attempt = async (made: Promise<string>) => { try { return await made } catch (error) { return error.message } };
const value = Math.floor(Math.random() * 1e9);
const out = [await attempt(tools.effect({ name: "first", value }))];
out.push(await attempt(tools.again({ name: "second", value })));
await new Promise((wake) => setTimeout(wake, 2));
out.push(...await Promise.all(["third", "fourth"].map((name) => attempt(tools.beside({ name, value })))));
out.push(await attempt(tools.pay({ name: "fifth", value: Date.now() % 1000 })));
out.push(await attempt(tools.effect({ name: "sixth", value })));
return out;
"""
_PYTHON = """
import asyncio, random, time
async def attempt(made):
    try:
        return await made
    except ToolCallError as error:
        return str(error)
value = random.randint(0, 10**9)
out = [await attempt(tools.effect({"name": "first", "value": value}))]
out.append(await attempt(tools.again({"name": "second", "value": value})))
await asyncio.sleep(0.002)
made = [tools.beside({"name": name, "value": value}) for name in ("third", "fourth")]
for later in made:
    out.append(await attempt(later))
out.append(await attempt(tools.pay({"name": "fifth", "value": int(time.time() * 1000) % 1000})))
out.append(await attempt(tools.effect({"name": "sixth", "value": value})))
return out
"""


def model_for(language: str, mode: str) -> ScriptedModel:
    """Return the model that takes this course."""
    if mode == "code":
        return program_of(_TYPESCRIPT if language == "typescript" else _PYTHON)
    names = {"second": "again", "third": "beside", "fourth": "beside", "fifth": "pay"}
    calls = (call(names.get(name, "effect"), name=name, value=1) for name in EFFECTS)
    return ScriptedModel([say("", *calls), say_result])
