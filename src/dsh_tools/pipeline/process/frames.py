"""What host and worker tell each other."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ...errors import HarnessError
from ...tools.imported import BodyPlace

__all__ = ["MAX_FRAME_BYTES", "BodyError", "End", "Failure", "Job", "error_of", "pack", "unpack"]

MAX_FRAME_BYTES = 64 << 20
"""The largest value that comes out of a process, in bytes of JSON."""


class Job(msgspec.Struct, frozen=True):
    """One call, on its way to a worker. ``arguments`` is JSON text."""

    place: BodyPlace
    name: str
    call_id: str
    root_call_id: str
    arguments: str
    folder: str
    path: list[str]
    environment: dict[str, str]


class Failure(msgspec.Struct, frozen=True):
    """What a body raised: its text for a model, its class, the code of a typed error, and the trace for the log."""

    message: str
    type: str
    code: str | None
    name: str | None
    cancelled: bool
    trace: str


class End(msgspec.Struct, frozen=True):
    """How a worker ended, as its keeper saw it.

    Parameters:
        code: its exit code, negative for a signal's number; None if it could not be ended.
        killed: it had to be killed.
        leftovers: how many processes it had left, which were ended.
        survivors: pids of processes that could not be ended.
    """

    code: int | None
    killed: bool = False
    leftovers: int = 0
    survivors: tuple[int, ...] = ()


class BodyError(Exception):
    """What a body raised in its process, that is no typed error: the same text for the model.

    Parameters:
        type_name: the class that was raised there.
    """

    def __init__(self, message: str, type_name: str) -> None:
        super().__init__(message)
        self.type_name = type_name


class _FarTrace(Exception):
    """Where it was raised in the worker; for logs, as the cause of what is raised here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def error_of(failure: Failure) -> Exception:
    """Return the exception that stands for a body's failure here."""
    if failure.code is not None and failure.name is not None:
        error: Exception = HarnessError(failure.message, failure.code, name=failure.name)
    else:
        error = BodyError(failure.message, failure.type)
    error.__cause__ = _FarTrace(failure.trace)
    return error


def pack(job: Job) -> bytes:
    """Write a job as one line of ASCII: names of files and variables may hold what no UTF-8 can carry."""
    return json.dumps(msgspec.to_builtins(job)).encode()


def unpack(line: bytes) -> Job:
    """Read a job."""
    fields: Any = json.loads(line)
    return msgspec.convert(fields, Job)
