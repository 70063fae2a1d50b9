"""The schema of a Python type: a compiled schema, and the way to the Python value and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import LossyJsonError, ToolArgsError
from ...json_value import FrozenDict, exceeds_depth, snapshot
from ..compiled import Schema
from ..issues import quoted_path
from ..nodes import Node
from .codec import Codec, Fault, Problem, path_of

__all__ = ["MAX_TYPED_DEPTH", "DocumentTypedSchema", "TypedSchema"]

MAX_TYPED_DEPTH = 200
"""How deep a value of a type that contains itself may nest; its objects are built recursively."""


class TypedSchema(Schema):
    """A schema made from a Python type (D31).

    ``load`` turns an admitted JSON value into the Python value, with containers of its own; ``dump``
    turns a Python value into JSON. Attributes beside those of :class:`Schema`:

    * ``trivial``: whether both do nothing: the JSON value is the Python value;
    * ``loads``, ``dumps``: whether each of them does something;
    * ``may_refuse``: whether ``load`` may refuse what the schema admits: validators and constructors
      of the author's, numbers beyond a float's range, nesting beyond ``MAX_TYPED_DEPTH``;
    * ``defaults``: the defaults of a record's fields as JSON, by key (D43).
    """

    __slots__ = ("_codec", "defaults", "dumps", "loads", "may_refuse", "recursive", "trivial")

    def __init__(
        self,
        json: Any,
        node: Node,
        codec: Codec,
        *,
        definitions: Mapping[str, Node],
        defaults: Mapping[str, Any],
        may_refuse: bool,
    ) -> None:
        super().__init__(json, node, "types", definitions=definitions)
        self._codec = codec
        self.defaults: Mapping[str, Any] = FrozenDict(defaults)
        self.loads: bool = codec.load is not None
        self.dumps: bool = codec.dump is not None
        self.trivial: bool = not (self.loads or self.dumps)
        self.recursive: bool = bool(definitions)
        self.may_refuse: bool = may_refuse or self.recursive

    def load(self, value: Any, path: str = "value") -> Any:
        """Return the Python value of a JSON value that the schema admits.

        Raises:
            ToolArgsError: the type itself refuses the value; every violation ends in a path.
        """
        load = self._codec.load
        if load is None:
            return value
        if self.recursive and exceeds_depth(value, MAX_TYPED_DEPTH):
            raise ToolArgsError([f"{quoted_path(path)} nests more than {MAX_TYPED_DEPTH} levels deep"])
        try:
            return load(value)
        except Fault as fault:
            raise ToolArgsError([_violation(problem, path) for problem in fault.problems]) from fault.__cause__

    def refusals(self, value: Any, path: str = "value") -> list[str]:
        """List what the type itself refuses in a value that the schema admits; empty when it takes it."""
        if not self.may_refuse:
            return []
        try:
            self.load(value, path)
        except ToolArgsError as error:
            return list(error.violations)
        return []

    def dump(self, value: object) -> Any:
        """Return a Python value as frozen JSON. A value of another type passes as it is, to be validated.

        Raises:
            LossyJsonError: it is not lossless JSON; ``path`` says where.
        """
        return snapshot(self.encode(value))

    def encode(self, value: Any) -> Any:
        """Do what ``dump`` does, but leave the check and the copy to whoever makes a snapshot anyway.

        Raises:
            LossyJsonError: a part of the value has no JSON form.
        """
        dump = self._codec.dump
        if dump is None:
            return value
        try:
            return dump(value)
        except Fault as fault:
            problem = fault.problems[0]
            raise LossyJsonError(path_of("", problem.path), problem.message) from fault.__cause__
        except RecursionError:
            raise LossyJsonError("", "it contains itself, or nests too deep") from None


class DocumentTypedSchema(TypedSchema):
    """A type whose document says more than nodes can, as pydantic's may: the document is the judge."""

    __slots__ = ("_judge",)

    def __init__(self, judge: Schema, codec: Codec, **facts: Any) -> None:
        super().__init__(judge.json, judge.node, codec, definitions=judge.definitions, **facts)
        self._judge = judge

    def accepts(self, value: Any, depth: int | None = None) -> bool:
        """Whether a lossless value satisfies the document."""
        return self._judge.accepts(value, depth)

    def violations(
        self, value: Any, path: str = "value", depth: int | None = None, *, most: int | None = None
    ) -> list[str]:
        """List what is wrong with a lossless value."""
        return self._judge.violations(value, path, depth, most=most)

    def check(self, value: Any, path: str = "value", depth: int | None = None) -> list[str]:
        """List what is wrong with a lossless value that is probably valid."""
        return self._judge.check(value, path, depth)


def _violation(problem: Problem, root: str) -> str:
    return f"{quoted_path(path_of(root, problem.path))} is not valid: {problem.message}"
