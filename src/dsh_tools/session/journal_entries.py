"""What stores keep of journals: entries in order, each a JSON array under the place of its call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from ..code_mode import JournalStep, ProgramFacts
from ..errors import LossyJsonError, SessionError
from ..json_value import snapshot, to_json_text
from .codec import read_line
from .journal import JournalContents, JournalRun, ParkedCall, RunState

__all__ = ["announced_entry", "contents_of", "parked_entry", "run_entry", "state_entry", "step_entry"]

_encode = msgspec.json.Encoder().encode

# What an entry is: its array begins with one of these.
_RUN: Final = 0
_STATE: Final = 1
_STEP: Final = 2
_PARKED: Final = 3
_ANNOUNCED: Final = 4
# What follows. A step that has only begun is shorter than one that has its outcome.
_Kind = Literal["call", "timer"]
_BEGUN: Final = tuple[int, _Kind, str, str, Literal["started"]]
_SETTLED: Final = tuple[int, _Kind, str, str, Literal["value", "error"], int | None, int | None, Any, Any]
_SHAPES: Final[dict[object, Any]] = {
    _RUN: tuple[str, str, str, dict[str, str], str, int],
    _STATE: tuple[RunState],
    _STEP: _SETTLED,
    _PARKED: tuple[str, Any, str, str, Literal["parked", "started"]],
    _ANNOUNCED: tuple[()],
}


def run_entry(run: JournalRun) -> str:
    """A program begins."""
    facts = run.facts
    return _text([_RUN, facts.language, facts.runtime, facts.program, dict(facts.tools), run.seed, run.started_at])


def state_entry(state: RunState) -> str:
    """A program runs again, waits, or has ended."""
    return _text([_STATE, state])


def step_entry(step: JournalStep) -> bytes:
    """A step has begun, or has its outcome. Its values are frozen, and mostly what the encoder takes at once."""
    entry: list[Any] = [_STEP, step.number, step.kind, step.name, step.arguments, step.state]
    if step.state != "started":
        entry += (step.delivery, step.at, step.outcome, step.inherited)
    try:
        return _encode(entry)
    except (UnicodeEncodeError, RecursionError, ValueError):
        return _text(entry).encode()


def parked_entry(call: ParkedCall) -> str:
    """A call of the model waits, or has begun after it did."""
    return _text([_PARKED, call.name, call.arguments, call.arguments_digest, call.schema, call.state])


def announced_entry() -> str:
    """A program is about to be run."""
    return _text([_ANNOUNCED])


def contents_of(entries: Iterable[tuple[int, str | bytes]]) -> JournalContents:
    """Put the entries of one session together.

    Raises:
        SessionError: ``CORRUPT_LOG``: an entry is none, or belongs to a program that has not begun.
    """
    found = JournalContents()
    steps: dict[int, dict[int, JournalStep]] = {}
    for key, line in entries:
        kind, values = _read(line)
        if kind in (_STATE, _STEP) and key not in found.runs:
            raise _damaged(f"an entry belongs to call {key}, which has no program")
        if kind == _RUN:
            found.runs[key] = JournalRun(ProgramFacts(*values[:4]), *values[4:])
        elif kind == _STATE:
            found.runs[key] = msgspec.structs.replace(found.runs[key], state=values[0])
        elif kind == _STEP:
            steps.setdefault(key, {})[values[0]] = JournalStep(*values)
        elif kind == _PARKED:
            found.parked[key] = ParkedCall(key, *values)
        else:
            found.announced.add(key)
    for key, by_number in steps.items():
        ordered = [by_number[number] for number in sorted(by_number)]
        found.runs[key] = msgspec.structs.replace(found.runs[key], steps=ordered)
    return found


def _read(line: str | bytes) -> tuple[int, list[Any]]:
    """Read an entry: its kind, and what follows. Only what is a value in it has to be frozen; most have none."""
    try:
        entry: Any = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        entry = read_line(line)
    try:
        kind, *found = msgspec.convert(entry, list[Any])
        shape = _BEGUN if kind == _STEP and "started" in found[4:5] else _SHAPES[kind]
        values: list[Any] = list(msgspec.convert(found, shape))
        if kind == _STEP:
            values[7:] = [snapshot(value) for value in values[7:]]
        elif kind == _PARKED:
            values[1] = snapshot(values[1])
    except (msgspec.MsgspecError, ValueError, LookupError, TypeError, LossyJsonError) as error:
        raise _damaged(f"an entry is none: {error}") from error
    return kind, values


def _damaged(what: str) -> SessionError:
    return SessionError(f"the journal is damaged: {what}", "CORRUPT_LOG")


def _text(entry: list[Any]) -> str:
    return to_json_text(entry)
