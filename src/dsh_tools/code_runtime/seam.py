"""The seam between whoever runs programs and where they run (CODE-129 to 138).

A runtime knows nothing of tools: a program gets namespaces of host functions, and that is all.
Whatever a program does comes back as a :class:`CodeRunResult`; ``run`` raises only for misuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import UNSET, UnsetType

from ..json_value import JsonValue
from ..kernel import AbortSignal

__all__ = [
    "FAILURE_KINDS",
    "BindingFunction",
    "BindingNamespace",
    "CodeRunError",
    "CodeRunRequest",
    "CodeRunResult",
    "CodeRuntime",
    "Determinism",
    "ErrorClassSpec",
    "FailureKind",
    "HostAnswer",
]

FailureKind: TypeAlias = Literal["exception", "timeout", "abort", "worker-exit", "invalid-output", "output-limit"]
"""How a run can fail (CODE-132)."""

FAILURE_KINDS: tuple[FailureKind, ...] = (
    "exception",
    "timeout",
    "abort",
    "worker-exit",
    "invalid-output",
    "output-limit",
)


class HostAnswer(asyncio.Future[JsonValue]):
    """What a host function may return instead of a coroutine: a future that hands its result on at once.

    Other futures tell of their result one turn of the event loop later, which each call of a program
    would have to wait for. One that has its result before the function returns it is sent when the
    function has returned, behind all that was answered meanwhile. ``receiver`` belongs to the runtime.

    ``at`` is for deterministic programs: set it before the answer, and the program's clock shows that time
    from the answer on, in milliseconds since the epoch, unless it shows a later one; None leaves it alone.
    """

    receiver: Callable[[HostAnswer], object] | None = None
    at: int | None = None

    def set_result(self, result: JsonValue, /) -> None:
        """Answer with a value."""
        super().set_result(result)
        if self.receiver is not None:
            self.receiver(self)

    def set_exception(self, exception: type | BaseException, /) -> None:
        """Answer with an error; one that nobody waits for is not reported as forgotten."""
        super().set_exception(exception)
        self.exception()
        if self.receiver is not None:
            self.receiver(self)


BindingFunction: TypeAlias = Callable[[JsonValue], Awaitable[JsonValue]]
"""A host function: one frozen JSON value in, one lossless JSON value out. Whatever it raises, the
program sees as a rejection with that message."""


@dataclass(frozen=True, slots=True)
class ErrorClassSpec:
    """The class that a namespace's failures have inside the program (CODE-131).

    Parameters:
        name: what the program calls the class; an identifier.
        member_name_property: the property that holds the name of the function that failed.
    """

    name: str
    member_name_property: str


@dataclass(frozen=True, slots=True)
class BindingNamespace:
    """One global of the program: a record of host functions.

    Parameters:
        global_name: what the program calls it; an identifier in TypeScript and in Python (CODE-133).
        functions: name to function. Any string is a name; the program sees own members only.
        error_class: the class of failures; without one they are plain errors (CODE-137).
    """

    global_name: str
    functions: Mapping[str, BindingFunction]
    error_class: ErrorClassSpec | None = None


@dataclass(frozen=True, slots=True)
class Determinism:
    """What a program needs to take the same path whenever it gets the same answers in the same order.

    Each answer of the host, to a call or to a timer, is a step of its own: the program gets the next one
    only when it has done all it can. Between them only being read moves its clock on, a little each time;
    its random numbers come from the seed, and what would let the outside decide is not there. So the order
    of the answers, their values and their times are all that a second run must repeat; the calls come in the
    same order, timers among them, and so do the logs and the end. Host functions must not raise before they
    have returned an awaitable: such a rejection has no place among the answers.

    Parameters:
        seed: where random numbers come from; hexadecimal digits.
        started_at: what the clock shows at first, in milliseconds since the epoch. It never goes back.
        sleep: called for each timer with its milliseconds, in order with the calls of host functions; the
            host answers when the time is up, with whatever value. The clock then shows the timer's end at
            least, since the host has not seen it being read. A timer that the program clears has its
            answer cancelled, and one that is answered all the same is ignored, its time included.
    """

    seed: str
    started_at: int
    sleep: Callable[[float], HostAnswer]


@dataclass(frozen=True, slots=True)
class CodeRunRequest:
    """One program to run. Budgets are the runtime's configuration, never the request's (CODE-130).

    Parameters:
        program: the body of an async function, in the runtime's language.
        bindings: the namespaces that the program may call.
        signal: aborts the run; None never does.
        determinism: makes the run repeatable; None gives the program the real clock, chance and timers.
    """

    program: str
    bindings: Sequence[BindingNamespace] = ()
    signal: AbortSignal | None = None
    determinism: Determinism | None = None


@dataclass(frozen=True, slots=True)
class CodeRunError:
    """Why a run failed: its kind, and a message for whoever wrote the program."""

    kind: FailureKind
    message: str


@dataclass(frozen=True, slots=True)
class CodeRunResult:
    """What a run ended in (CODE-132).

    ``logs`` holds what the program printed, one entry a call, whatever the end. ``value`` is what
    it returned, frozen, or ``UNSET`` where it returned nothing. With ``error`` there is no value.
    """

    logs: list[str] = field(default_factory=list[str])
    value: JsonValue | UnsetType = UNSET
    error: CodeRunError | None = None


@runtime_checkable
class CodeRuntime(Protocol):
    """A place where untrusted programs run.

    ``language`` names the SDK that programs are written against: ``"typescript"`` or ``"python"``.
    ``isolation`` is a label for people, not a claim of security by itself (CODE-129).
    """

    @property
    def language(self) -> str:
        """The language of programs."""
        ...

    @property
    def isolation(self) -> str:
        """What keeps a program apart from the host: ``"process"`` or ``"interpreter"`` (D4)."""
        ...

    @property
    def version(self) -> str:
        """What a program's course depends on beside itself and the host: interpreter, worker, machine.

        A deterministic program repeats its course only where this text is the same.
        """
        ...

    async def run(self, request: CodeRunRequest) -> CodeRunResult:
        """Run one program to its end, and return only after everything it used has stopped.

        Host functions that the program did not wait for are cancelled and awaited first.

        Raises:
            CodeRuntimeError: the bindings are wrong, or the runtime is disposed. Nothing has run.
        """
        ...

    async def dispose(self) -> None:
        """End every run with kind ``abort`` and wait until nothing of the runtime is left (CODE-174)."""
        ...
