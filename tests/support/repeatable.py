"""Hosts for repeatable programs: one answers by chance and notes it all, the other answers the same again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from dsh_tools.code_runtime import (
    BindingNamespace,
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
    Determinism,
    ErrorClassSpec,
    HostAnswer,
)

START = 1_700_000_000_000


@dataclass
class Delivery:
    """What was answered: to which call, with what, and when."""

    number: int
    error: str | None
    value: Any
    at: int | None


@dataclass
class Host:
    """Numbers the calls of a program, timers among them, and keeps what it owes."""

    calls: list[tuple[str, Any]] = field(default_factory=list)
    owed: dict[int, HostAnswer] = field(default_factory=dict)

    def call(self, name: str, arguments: Any) -> HostAnswer:
        """Take one call."""
        number = len(self.calls)
        self.calls.append((name, arguments))
        answer = HostAnswer(loop=asyncio.get_running_loop())
        self.owed[number] = answer
        self.attend()
        return answer

    def attend(self) -> None:
        """See to what is owed; for subclasses."""
        raise TypeError("a host answers")

    def deliver(self, delivery: Delivery) -> None:
        """Give one answer, unless nobody wants it any more."""
        answer = self.owed.pop(delivery.number)
        if answer.done():
            return
        answer.at = delivery.at
        if delivery.error is None:
            answer.set_result(delivery.value)
        else:
            answer.set_exception(ValueError(delivery.error))

    def request(self, program: str, seed: str = "c0ffee") -> CodeRunRequest:
        """Return a request whose every answer is this host's."""
        names = ("echo", "fail", "other")
        functions: dict[str, Callable[[Any], HostAnswer]] = {
            name: lambda arguments, name=name: self.call(name, arguments) for name in names
        }
        space = BindingNamespace("tools", functions, ErrorClassSpec("ToolCallError", "toolName"))
        sleep = lambda milliseconds: self.call("sleep", milliseconds)  # noqa: E731
        return CodeRunRequest(program, [space], determinism=Determinism(seed, START, sleep))


class Recorder(Host):
    """Answers in any order, several at once or each alone, and notes what it answers."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.deliveries: list[Delivery] = []
        self.clock = START
        self._due = False

    def attend(self) -> None:
        if not self._due and self.owed:
            self._due = True
            loop = asyncio.get_running_loop()
            pause = self.random.choice((0, 0, 0.001, 0.003))
            loop.call_later(pause, self._answer) if pause else loop.call_soon(self._answer)

    def _answer(self) -> None:
        self._due = False
        wanted = [number for number, answer in self.owed.items() if not answer.done()]
        for number in self.random.sample(wanted, min(len(wanted), self.random.randint(1, 4))):
            self.clock += self.random.choice((0, 1, 1, 1000, -500))
            at = self.random.choice((self.clock, self.clock, None))
            name, arguments = self.calls[number]
            error = f"failure {number}" if name == "fail" else None
            value = {"of": arguments, "chance": self.random.random()} if name == "other" else arguments
            delivery = Delivery(number, error, value, at)
            self.deliveries.append(delivery)
            self.deliver(delivery)
        if any(not answer.done() for answer in self.owed.values()):
            self.attend()


class Replayer(Host):
    """Gives the answers of an earlier run in their order, as soon as they are owed or with pauses in between."""

    def __init__(self, deliveries: list[Delivery], random: Random | None) -> None:
        super().__init__()
        self._left = deliveries[::-1]
        self._random = random

    def attend(self) -> None:
        loop = asyncio.get_running_loop()
        # Never at once: an answer that is there before its call has returned goes out behind later ones.
        if self._random is None or self._random.random() < 0.5:
            loop.call_soon(self._answer)
        else:
            loop.call_later(self._random.choice((0.0005, 0.002)), self._answer)

    def _answer(self) -> None:
        if self._random is not None:
            if self._left and self._left[-1].number in self.owed:
                self.deliver(self._left.pop())
                self.attend()
            return
        while self._left and self._left[-1].number in self.owed:
            self.deliver(self._left.pop())


async def compare(runtime: CodeRuntime, program: str, random: Random) -> tuple[CodeRunResult, Recorder]:
    """Run a program once by chance and twice again, and check that nothing can be told apart."""
    first = Recorder(random)
    result = await runtime.run(first.request(program))
    for replayer in (Replayer(first.deliveries, None), Replayer(first.deliveries, random)):
        again = await runtime.run(replayer.request(program))
        assert replayer.calls == first.calls
        assert again == result
    return result, first


async def run_answered(
    runtime: CodeRuntime, program: str, *answers: tuple[int, int | None], seed: str = "00ff"
) -> CodeRunResult:
    """Run a program that gets these answers: to which call, and with which time after the start."""
    deliveries = [Delivery(number, None, number, None if at is None else START + at) for number, at in answers]
    return await runtime.run(Replayer(deliveries, None).request(program, seed))
