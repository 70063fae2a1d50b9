"""Frames between the host and a worker process: JSON lines, and none of them believed (CODE-181).

Whatever comes out of a worker may have been written by the program in it. A line counts as a frame
only behind the nonce of its process, in the exact shape of one of the classes below, and every
value in it is parsed and checked again here. Everything else is dropped without a word.

Host to worker: ``{"nonce"}`` at the start, one program, then one reply for each call.
Worker to host: ``ready``, then ``call``, ``log``, and one of ``done``, ``fault``, ``idle``. A repeatable
program's timers are ``sleep`` and ``wake``, and its replies carry a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from ..errors import JsonTextError, LossyJsonError
from ..json_value import JsonValue, join_path, parse_json, snapshot, to_json_text
from .deep_json import read_deep_json
from .seam import BindingNamespace, CodeRunError

__all__ = [
    "LONGEST_SLEEP",
    "CallFrame",
    "DoneFrame",
    "FaultFrame",
    "Frame",
    "IdleFrame",
    "LogFrame",
    "Payload",
    "ReadyFrame",
    "SleepFrame",
    "WakeFrame",
    "at_member",
    "failure_reply",
    "find_inexact_integer",
    "greeting",
    "parse_frame",
    "program_line",
    "success_reply",
]

_PROGRAM_KINDS = ("exception", "invalid-output", "output-limit")
_LONG_NUMBER = re.compile("[0-9]{16}")
_SAFE = 2**53

LONGEST_SLEEP = 2**31 - 1
"""The longest timer, in milliseconds."""


class Payload(msgspec.Struct, frozen=True):
    """A value that has arrived as text and is parsed only when it is wanted.

    ``text`` is JSON. ``deep`` says that it may nest deeper than the fast decoder goes.
    """

    text: str
    deep: bool

    def value(self) -> JsonValue:
        """Parse, check and freeze the value.

        Raises:
            LossyJsonError: it is not lossless JSON, or has an integer that no double holds (CODE-186).
        """
        try:
            value = snapshot(read_deep_json(self.text)) if self.deep else parse_json(self.text)
        except JsonTextError as error:
            raise LossyJsonError(error.path, error.reason) from None
        if _LONG_NUMBER.search(self.text):
            fault = find_inexact_integer(value)
            if fault is not None:
                raise LossyJsonError(*fault)
        return value


class ReadyFrame(msgspec.Struct, frozen=True):
    """The worker has warmed up and waits for a program."""


class CallFrame(msgspec.Struct, frozen=True):
    """The program calls a host function."""

    id: int
    namespace: str
    name: str
    arguments: Payload


class LogFrame(msgspec.Struct, frozen=True):
    """The program printed something."""

    text: str


class SleepFrame(msgspec.Struct, frozen=True):
    """A repeatable program wants an answer in so many milliseconds."""

    id: int
    milliseconds: float


class WakeFrame(msgspec.Struct, frozen=True):
    """A repeatable program doesn't want that answer any more."""

    id: int


class DoneFrame(msgspec.Struct, frozen=True):
    """The program has ended. At most one of the fields says something; none means: no value.

    ``over`` says that the outcome was too large to send.
    """

    value: Payload | None = None
    error: CodeRunError | None = None
    over: bool = False


class FaultFrame(msgspec.Struct, frozen=True):
    """Something failed beside the program's own course: a floating rejection, a timer callback (CODE-171)."""

    message: str


class IdleFrame(msgspec.Struct, frozen=True):
    """The program waits, and nothing is left that could wake it."""


Frame: TypeAlias = ReadyFrame | CallFrame | LogFrame | SleepFrame | WakeFrame | DoneFrame | FaultFrame | IdleFrame


class _Wire(msgspec.Struct):
    """All members that a frame can have; values stay text. Unknown members are dropped."""

    t: str
    id: int | msgspec.UnsetType = msgspec.UNSET
    ms: float | msgspec.UnsetType = msgspec.UNSET
    ns: str | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET
    text: str | msgspec.UnsetType = msgspec.UNSET
    message: str | msgspec.UnsetType = msgspec.UNSET
    args: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    deep: str | msgspec.UnsetType = msgspec.UNSET
    error: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    over: bool | msgspec.UnsetType = msgspec.UNSET


_decode = msgspec.json.Decoder(_Wire).decode


def parse_frame(line: bytes | bytearray) -> Frame | None:
    """Read one line behind its nonce; None for anything that is not exactly a frame."""
    try:
        wire = _decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        fallback = _read_slowly(bytes(line))
        if fallback is None:
            return None
        wire = fallback
    build = _BUILDERS.get(wire.t)
    return None if build is None else build(wire)


def _read_slowly(line: bytes) -> _Wire | None:
    """Read a frame with lone surrogate escapes, which the fast decoder refuses."""
    try:
        parsed: Any = json.loads(line)
        if not isinstance(parsed, dict):
            return None
        members = cast("dict[str, Any]", parsed)
        for key in ("args", "value"):
            if key in members:
                members[key] = msgspec.Raw(json.dumps(members[key]).encode())
        known = {key: value for key, value in members.items() if key in _Wire.__struct_fields__}
        return _checked(_Wire(**known))
    except (ValueError, TypeError, RecursionError):
        return None


def _checked(wire: _Wire) -> _Wire | None:
    """Check the types that the fast decoder would have checked."""
    texts = (wire.t, wire.ns, wire.name, wire.text, wire.message, wire.deep)
    if not all(item is msgspec.UNSET or type(item) is str for item in texts):
        return None
    if wire.id is not msgspec.UNSET and type(wire.id) is not int:
        return None
    if wire.ms is not msgspec.UNSET and type(wire.ms) not in (int, float):
        return None
    if wire.over is not msgspec.UNSET and type(wire.over) is not bool:
        return None
    if wire.error is not msgspec.UNSET:
        error: Any = wire.error
        if not isinstance(error, dict) or not all(type(text) is str for text in error.values()):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType, reportUnknownMemberType]
            return None
    return wire


def _payload(raw: msgspec.Raw | msgspec.UnsetType, deep: str | msgspec.UnsetType) -> Payload | None:
    if isinstance(deep, str):
        return Payload(deep, deep=True)
    return None if isinstance(raw, msgspec.UnsetType) else Payload(bytes(raw).decode(), deep=False)


def _call(wire: _Wire) -> Frame | None:
    arguments = _payload(wire.args, wire.deep)
    if arguments is None or not isinstance(wire.id, int):
        return None
    if not isinstance(wire.ns, str) or not isinstance(wire.name, str):
        return None
    return CallFrame(wire.id, wire.ns, wire.name, arguments)


def _sleep(wire: _Wire) -> Frame | None:
    if not isinstance(wire.id, int) or isinstance(wire.ms, msgspec.UnsetType) or not 0 <= wire.ms <= LONGEST_SLEEP:
        return None
    return SleepFrame(wire.id, wire.ms)


def _done(wire: _Wire) -> Frame | None:
    # With both an error and a value, the error wins (CODE-184).
    if wire.error is not msgspec.UNSET:
        kind, message = wire.error.get("kind"), wire.error.get("message")
        if kind not in _PROGRAM_KINDS or message is None:
            return None
        if kind == "output-limit":
            return DoneFrame(over=True)  # the wording is the host's
        return DoneFrame(error=CodeRunError(kind, message))
    return DoneFrame(value=_payload(wire.value, wire.deep), over=wire.over is True)


_BUILDERS: dict[str, Callable[[_Wire], Frame | None]] = {
    "ready": lambda _: ReadyFrame(),
    "call": _call,
    "log": lambda wire: LogFrame(wire.text) if isinstance(wire.text, str) else None,
    "sleep": _sleep,
    "wake": lambda wire: WakeFrame(wire.id) if isinstance(wire.id, int) else None,
    "done": _done,
    "fault": lambda wire: FaultFrame(wire.message) if isinstance(wire.message, str) else None,
    "idle": lambda _: IdleFrame(),
}


# ── host to worker ────────────────────────────────────────────────────────────


def greeting(nonce: str) -> bytes:
    """The first line to a worker: what it must put before each of its frames."""
    return b'{"nonce":"%b"}\n' % nonce.encode()


def program_line(program: str, bindings: Sequence[BindingNamespace], terms: dict[str, Any]) -> bytes:
    """The second line to a worker: what to run, what it may call, and on what terms."""
    namespaces = [
        {
            "global": binding.global_name,
            "functions": list(binding.functions),
            "error": None
            if binding.error_class is None
            else {"name": binding.error_class.name, "member": binding.error_class.member_name_property},
        }
        for binding in bindings
    ]
    # The standard encoder writes lone surrogates as escapes, so that they arrive as they are.
    return json.dumps({"program": program, "bindings": namespaces, **terms}).encode() + b"\n"


def success_reply(call_id: int, value: JsonValue, more: str = "") -> bytes:
    """A reply with a lossless value, in one line; ``more`` is what :func:`at_member` gives.

    Raises:
        LossyJsonError: the value has an integer that no double holds; the path says where (D7).
    """
    text = to_json_text(value)
    if _LONG_NUMBER.search(text):
        fault = find_inexact_integer(value)
        if fault is not None:
            raise LossyJsonError(*fault)
    return f'{{"id":{call_id},"ok":true{more},"value":{text}}}\n'.encode()


def failure_reply(call_id: int, message: str, more: str = "") -> bytes:
    """A reply that rejects the call."""
    return f'{{"id":{call_id},"ok":false{more},"message":{json.dumps(message)}}}\n'.encode()


def at_member(at: int | None) -> str:
    """The part of a reply that a repeatable program needs: the time to show from now on, if any."""
    return ',"at":null' if at is None else f',"at":{at}'


def find_inexact_integer(root: JsonValue) -> tuple[str, str] | None:
    """Find an integer that a double can't hold exactly: its path and what is wrong; None without one."""
    # Each entry knows its parent's, so that a path is spelt only once, for the fault.
    stack: list[_Place] = [(root, None, "")]
    while stack:
        place = stack.pop()
        value = place[0]
        if type(value) is int and not -_SAFE <= value <= _SAFE and not _is_exact(value):
            shown = str(value) if abs(value) < 10**40 else "of that size"
            return _spell(place), f"integer {shown} has no exact double; send it as a string"
        if isinstance(value, dict):
            stack.extend((child, place, key) for key, child in value.items())
        elif isinstance(value, list):
            stack.extend((child, place, index) for index, child in enumerate(value))
    return None


_Place: TypeAlias = "tuple[JsonValue, _Place | None, str | int]"


def _spell(place: _Place) -> str:
    keys: list[str | int] = []
    parent = place[1]
    while parent is not None:
        keys.append(place[2])
        place, parent = parent, parent[1]
    path = ""
    for key in reversed(keys):
        path = join_path(path, key)
    return path


def _is_exact(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False
