"""What is kept of a program's run so that it can go on in another process, and who keeps it (D34).

A program runs again from its start; what the outside once said to it is read from the journal. So the
journal has every answer, in the order and with the times in which the program got them, and the facts
without which the program would take another path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import msgspec

from ..json_value import JsonValue, digest
from ..tools.registry import RESERVED_NAME

if TYPE_CHECKING:
    from ..code_runtime import CodeRuntime
    from ..tools.registered import RegisteredTool
    from ..tools.visibility import View

__all__ = [
    "DurableProgram",
    "JournalStep",
    "ProgramFacts",
    "ProgramJournal",
    "StepKind",
    "StepState",
    "program_facts",
    "schema_digest",
]

StepKind = Literal["call", "timer"]
StepState = Literal["started", "value", "error"]


class ProgramFacts(msgspec.Struct, frozen=True, rename="camel"):
    """What a program's course depends on, beside the answers that it gets.

    Parameters:
        language: the language of the program.
        runtime: interpreter, worker and machine, as the runtime names them.
        program: the digest of the program's text.
        tools: the digest of each tool's schema, by name: all that the program could see.
    """

    language: str
    runtime: str
    program: str
    tools: Mapping[str, str]

    def changes(self, now: ProgramFacts) -> list[str]:
        """Say what is not as it was; ``[]`` where the program can go on."""
        found: list[str] = []
        if self.language != now.language:
            found.append(f"the language was {self.language} and is {now.language}")
        if self.program != now.program:
            found.append(f"the program was {self.program[:12]} and is {now.program[:12]}")
        if self.language == now.language and self.runtime != now.runtime:
            found.append(f'the runtime was "{self.runtime}" and is "{now.runtime}"')
        for name, schema in self.tools.items():
            if name not in now.tools:
                found.append(f'the tool "{name}" is not there any more')
            elif now.tools[name] != schema:
                found.append(f'the schema of the tool "{name}" has changed')
        found += [f'the tool "{name}" is new' for name in now.tools if name not in self.tools]
        return found


class JournalStep(msgspec.Struct, frozen=True):
    """One request of a program to the host: a call, or a timer.

    Parameters:
        number: its place among the program's requests, from 1.
        kind: what was requested.
        name: the tool, or ``sleep``.
        arguments: the digest of the canonical arguments.
        state: ``started`` before the body runs; ``value`` or ``error`` once it has an outcome.
        delivery: its place among the answers that the program got, from 1; None before that.
        at: what the program's clock showed with the answer, in milliseconds since the epoch.
        outcome: the canonical value, or the error's message; a frozen JSON value, null before there is one.
        inherited: what the outer call gets of it, as JSON (CODE-112 to 114); None for nothing.
    """

    number: int
    kind: StepKind
    name: str
    arguments: str
    state: StepState
    delivery: int | None = None
    at: int | None = None
    outcome: JsonValue = None
    inherited: JsonValue = None


class ProgramJournal(Protocol):
    """The journal of one program's run. What a method returns, unless it is None, is to be awaited."""

    @property
    def seed(self) -> str:
        """Where the program's random numbers come from; hexadecimal digits."""
        ...

    @property
    def started_at(self) -> int:
        """When the program was run first, in milliseconds since the epoch."""
        ...

    @property
    def steps(self) -> Sequence[JournalStep]:
        """What is in the journal from earlier runs, by number."""
        ...

    @property
    def logged(self) -> Mapping[str, object | None]:
        """The calls that the session's log has already, by their id: the entry of the start, None once settled."""
        ...

    def write(self, step: JournalStep) -> asyncio.Future[None] | None:
        """Keep a step as it is now, in place of what was kept of it.

        Raises:
            SessionError: it could not be kept.
        """
        ...

    async def end(self, state: Literal["suspended", "done"]) -> None:
        """Say that the program has been suspended or has ended. A suspended one is durable when this returns."""
        ...

    def close(self) -> None:
        """Let go of the journal; it can be opened again."""
        ...


@runtime_checkable
class DurableProgram(Protocol):
    """A call of ``run_code`` whose state is kept: :class:`DurableCall`, and a journal for its program."""

    async def open_program(self, facts: ProgramFacts) -> ProgramJournal:
        """Begin the journal of a program, or open the one that there is.

        Raises:
            SessionError: ``RESUME_REFUSED``: there is one of a program that was another in some respect.
        """
        ...

    def goes_on(self) -> None:
        """Take note that the program calls the body of a tool, beyond what its journal had when it was opened."""
        ...


def program_facts(runtime: CodeRuntime, view: View, program: str) -> ProgramFacts:
    """Return what the course of a program depends on now."""
    tools = {name: schema_digest(view.entries[name]) for name in sorted(view.entries) if name != RESERVED_NAME}
    return ProgramFacts(runtime.language, runtime.version, digest(program), tools)


def schema_digest(tool: RegisteredTool) -> str:
    """Return the digest of what a tool takes and gives."""
    return digest({"parameters": tool.schema.parameters, "output": tool.output.json})
