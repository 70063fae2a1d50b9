"""Lossless snapshots: one pass that checks, copies and freezes (SCHEMA-A1 to A11).

The fast path recurses over shallow values and only knows "fine" or "not for me".
Everything else, faults included, goes to the walk with an explicit stack,
which knows the path and bears any depth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import copysign
from types import CoroutineType
from typing import Any, cast

from ..errors import LossyJsonError
from .frozen import CONTAINER_TYPES, FrozenDict, FrozenList, JsonValue, members

__all__ = ["depth_of", "exceeds_depth", "is_lossless", "join_path", "snapshot", "snapshot_depth", "thaw"]

_SHALLOW = 40
_INERT: frozenset[type] = frozenset({str, int, bool, type(None)})
_FROZEN: frozenset[type] = frozenset({FrozenDict, FrozenList})
# The frozen containers are filled through the base class, past their own refusal.
_put = cast("Callable[[dict[str, Any], str, Any], None]", dict.__setitem__)  # pyright: ignore[reportUnknownMemberType]
_put_item = cast("Callable[[list[Any], int, Any], None]", list.__setitem__)  # pyright: ignore[reportUnknownMemberType]


class _NotShallow(Exception):
    """The value is deep, lossy or odd: the fast path hands it over."""


def snapshot(value: object) -> JsonValue:
    """Return a frozen, independent copy of a lossless JSON value.

    Args:
        value: None, bool, int of any size, finite float other than -0.0, str, or plain dicts
            with str keys and plain lists of those, to any depth. Lone surrogates are data.

    A value that is frozen already is returned as it is.

    Raises:
        LossyJsonError: the value is something else somewhere; ``path`` says where (``a.b[0]``,
            ``""`` for the value itself) and ``reason`` says what was found (SCHEMA-A1, A2, A5, A7; D24, D26).
    """
    kind = type(value)
    try:
        if kind is dict:
            return _freeze_dict(value, _SHALLOW)  # pyright: ignore[reportArgumentType]
        if kind is list:
            return _freeze_list(value, _SHALLOW)  # pyright: ignore[reportArgumentType]
    except (_NotShallow, RecursionError):
        return _freeze_deep(value)
    if kind in _INERT or kind in _FROZEN:
        return value  # pyright: ignore[reportReturnType]
    reason = scalar_fault(value)
    if reason is not None:
        raise LossyJsonError("", reason)
    return value  # pyright: ignore[reportReturnType]


def freeze_shallow(value: dict[str, Any] | list[Any]) -> FrozenDict | FrozenList | None:
    """Freeze a plain container that is shallow and lossless; None when the long way is needed."""
    try:
        if type(value) is dict:
            return _freeze_dict(value, _SHALLOW)
        return _freeze_list(value, _SHALLOW)  # pyright: ignore[reportArgumentType]
    except (_NotShallow, RecursionError):
        return None


def snapshot_depth(value: object) -> tuple[JsonValue, int]:
    """Return :func:`snapshot` of the value and how deep its containers nest (a scalar is 0, ``[]`` is 1)."""
    frozen = snapshot(value)
    return frozen, depth_of(frozen)


def is_lossless(value: object) -> bool:
    """Whether :func:`snapshot` would accept the value (SCHEMA-A11)."""
    try:
        snapshot(value)
    except LossyJsonError:
        return False
    return True


def scalar_fault(value: object) -> str | None:
    """Say why something that is no plain container is not a JSON scalar; None when it is one."""
    kind = type(value)
    if kind is float:
        if value - value != 0.0:  # pyright: ignore[reportOperatorIssue]
            return f"{value!r} is not a finite number"
        if value == 0.0 and copysign(1.0, value) < 0:  # pyright: ignore[reportArgumentType]
            return "-0.0 is not lossless JSON; use 0"
        return None
    if kind in _INERT:
        return None
    for base in (dict, list, str, int, float):
        if isinstance(value, base):
            return f"{kind.__name__} is a subclass of {base.__name__}, not a plain JSON value"
    if kind is CoroutineType:
        return "coroutine is not a JSON value; await it"
    return f"{kind.__name__} is not a JSON value"


def join_path(parent: str, key: str | int) -> str:
    """Extend a path: ``[i]`` for an index, ``.key`` for a key, the key alone at the root (SCHEMA-D3)."""
    if type(key) is int:
        return f"{parent}[{key}]"
    return f"{parent}.{key}" if parent else str(key)


def _freeze_dict(source: dict[str, Any], room: int) -> FrozenDict:
    """Freeze a shallow record. Copying first means that what is checked is what is kept."""
    out = FrozenDict(source)
    for key, value in out.items():
        if type(key) is not str:
            raise _NotShallow
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind in _INERT:
            continue
        if kind is float:
            if value - value != 0.0 or (value == 0.0 and copysign(1.0, value) < 0):
                raise _NotShallow
        elif room == 0:
            raise _NotShallow
        elif kind is dict:
            _put(out, key, _freeze_dict(value, room - 1))
        elif kind is list:
            _put(out, key, _freeze_list(value, room - 1))
        elif kind not in _FROZEN:
            raise _NotShallow
    return out


def _freeze_list(source: list[Any], room: int) -> FrozenList:
    """Freeze a shallow list."""
    out = FrozenList(source)
    for value in out:
        if type(value) not in _INERT:
            break
    else:
        return out
    if room == 0:
        raise _NotShallow
    for index, value in enumerate(out):
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is dict:
            _put_item(out, index, _freeze_dict(value, room - 1))
        elif kind is list:
            _put_item(out, index, _freeze_list(value, room - 1))
        elif kind is float:
            if value - value != 0.0 or (value == 0.0 and copysign(1.0, value) < 0):
                raise _NotShallow
        elif kind not in _INERT and kind not in _FROZEN:
            raise _NotShallow
    return out


class _Frame:
    """One container on the way down: its copy, what is left of it, and the key being looked at."""

    __slots__ = ("entries", "key", "out", "source_id")

    def __init__(self, source: dict[str, Any] | list[Any]) -> None:
        self.source_id = id(source)
        self.key: Any = None
        self.out: FrozenDict | FrozenList
        self.entries: Iterator[tuple[Any, Any]]
        if type(source) is dict:
            self.out = FrozenDict(source)
            self.entries = iter(dict(self.out).items())
        else:
            self.out = FrozenList(source)
            self.entries = iter(enumerate(list(self.out)))

    def fill(self, value: object) -> None:
        """Put the frozen copy of the current child in its place."""
        if isinstance(self.out, FrozenDict):
            _put(self.out, self.key, value)
        else:
            _put_item(self.out, self.key, value)


def _freeze_deep(root: object) -> JsonValue:
    """Freeze a value of any depth, or raise with the path of the first fault."""
    if type(root) not in (dict, list):
        return snapshot(root)
    frames = [_Frame(root)]  # pyright: ignore[reportArgumentType]
    # Only ancestors count: one object used twice side by side is no cycle (SCHEMA-A7).
    ancestors = {id(root)}
    while frames:
        frame = frames[-1]
        child = _next_container(frames, frame)
        if child is None:
            ancestors.discard(frame.source_id)
            frames.pop()
            if not frames:
                return frame.out
            frames[-1].fill(frame.out)
            continue
        if id(child) in ancestors:
            raise LossyJsonError(_path_of(frames), "circular reference")
        ancestors.add(id(child))
        frames.append(_Frame(child))
    raise AssertionError("unreachable: the loop returns with its last frame")


def _next_container(frames: list[_Frame], frame: _Frame) -> dict[str, Any] | list[Any] | None:
    """Check scalars up to the next plain container and return it; None at the end of the frame."""
    is_record = type(frame.out) is FrozenDict
    for key, value in frame.entries:
        frame.key = key
        if is_record and type(key) is not str:
            frames.pop()
            raise LossyJsonError(_path_of(frames), f"key {_short(key)} is not a string")
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind in _INERT or kind in _FROZEN:
            continue
        if kind is dict or kind is list:
            return value
        reason = scalar_fault(value)
        if reason is not None:
            raise LossyJsonError(_path_of(frames), reason)
    return None


def _short(key: object) -> str:
    """Name a key that is no string, whatever its repr does."""
    try:
        text = repr(key)
    except Exception:
        text = f"<{type(key).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."


def _path_of(frames: list[_Frame]) -> str:
    path = ""
    for frame in frames:
        path = join_path(path, frame.key)
    return path


def thaw(value: object) -> Any:
    """Return a plain, mutable, independent copy of a JSON value, of any depth.

    Containers become plain dicts and lists; everything else is passed on as it is.
    """
    if type(value) not in CONTAINER_TYPES:
        return value
    root = _plain(value)
    pending: list[dict[str, Any] | list[Any]] = [root]
    while pending:
        out = pending.pop()
        entries = out.items() if type(out) is dict else enumerate(out)
        for key, child in entries:
            if type(child) in CONTAINER_TYPES:
                copy = _plain(child)
                out[key] = copy  # pyright: ignore[reportArgumentType, reportCallIssue]
                pending.append(copy)
    return root


def _plain(value: Any) -> dict[str, Any] | list[Any]:
    return dict(value) if isinstance(value, dict) else list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def depth_of(value: object) -> int:
    """Return how deep the containers of a lossless value nest; a scalar is 0, ``[]`` is 1."""
    return _levels(value, None)


def exceeds_depth(value: object, limit: int) -> bool:
    """Whether the containers of a lossless value nest deeper than ``limit``; stops looking there."""
    return _levels(value, limit) > limit


def _levels(value: object, limit: int | None) -> int:
    level: list[Any] = [value] if type(value) in CONTAINER_TYPES else []
    depth = 0
    while level:
        depth += 1
        if limit is not None and depth > limit:
            break
        below: list[Any] = []
        for container in level:
            below.extend([child for child in members(container) if type(child) in CONTAINER_TYPES])
        level = below
    return depth
