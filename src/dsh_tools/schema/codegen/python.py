"""Python annotations for schemas, and the SDK block of ``TypedDict`` classes and methods (SCHEMA-G, H3 to H12).

The walk keeps its own stack, so a schema may nest to any depth. Rendering never raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from ...json_value import js_number, js_string
from ..nodes import (
    ArrayNode,
    BooleanNode,
    IntegerNode,
    MapNode,
    Node,
    NullNode,
    NumberNode,
    ObjectNode,
    ScalarNode,
    StringNode,
    UnionNode,
    is_set,
)
from .names import (
    NameAllocator,
    camel,
    comment_text,
    docstring_text,
    is_field_name,
    is_method_name,
    join_name,
    utf16_key,
)
from .reading import SchemaInput, SdkTool, node_of

__all__ = ["render_sdk_python", "to_python"]

_MAX_OPEN_LISTS: Final = 180
"""CPython's parser stops at 200 open brackets (SCHEMA-G3)."""
_MAX_DECIMAL_BITS: Final = 14_000
"""CPython reads no decimal integer of more than 4,300 digits; hexadecimal ones have no limit."""
_IMPORTS: Final = ("Any", "Literal", "NotRequired", "Protocol", "TypedDict")
_ERROR_CLASS: Final = "class ToolCallError(Exception):\n    toolName: str"
_OPEN_NOTE: Final = "    # Additional keys beyond those declared are allowed.\n"


def to_python(schema: SchemaInput) -> str:
    """Return the Python annotation of a schema where no class can be declared (SCHEMA-G).

    Total: a document outside the contract's subset is ``Any`` as a whole (SCHEMA-G1). A
    :class:`~dsh_tools.schema.Schema` made from Python types or a raw document is ``Any`` only where
    an annotation cannot say it.
    """
    node = node_of(schema)
    return "Any" if node is None else _Annotations(declare=False).write(node, "")


def render_sdk_python(tools: Sequence[SdkTool]) -> str:
    """Return the fenced ``python`` block that declares every tool, sorted by name (SCHEMA-H1, H3)."""
    annotations = _Annotations(declare=True)
    lines: list[str] = []
    has_method = False
    for tool in sorted(tools, key=lambda tool: utf16_key(tool.name)):
        base = camel(tool.name)
        args = annotations.write(node_of(tool.parameters), join_name(base, "Args"))
        output = annotations.write(node_of(tool.output), join_name(base, "Output"))
        method = is_method_name(tool.name)
        has_method = has_method or method
        lines.append(_method(tool, args, output) if method else _subscript(tool, args, output))
    body = "".join(lines) if has_method else "    pass\n" + "".join(lines)
    used = annotations.used | {"Protocol"}
    sections = [
        "from typing import " + ", ".join(name for name in _IMPORTS if name in used),
        _ERROR_CLASS,
        *annotations.classes,
        "class Tools(Protocol):\n" + body.rstrip("\n"),
        "tools: Tools",
    ]
    return "```python\n" + "\n\n".join(sections) + "\n```"


def _method(tool: SdkTool, args: str, output: str) -> str:
    head = f"    async def {tool.name}(self, args: {args}) -> {output}:"
    text = docstring_text(tool.description)
    return f"{head} ...\n" if text is None else f'{head}\n        """{text}"""\n'


def _subscript(tool: SdkTool, args: str, output: str) -> str:
    head = f"    # tools[{js_string(tool.name)}](args: {args}) -> {output}\n"
    text = comment_text(tool.description)
    return head if text is None else f"{head}    #   {text}\n"


class _Visit(NamedTuple):
    """A node still to be written: the class name its place would give, and how many brackets are open."""

    node: Node
    base: str
    depth: int


class _ClassEnd(NamedTuple):
    """The end of a class body: the text it interrupted, and the name that goes on there."""

    outer: list[str]
    name: str


_Step: TypeAlias = "str | _Visit | _ClassEnd"


class _Annotations:
    """Writes annotations and collects the classes and imports they need."""

    __slots__ = ("_declare", "_names", "classes", "used")

    def __init__(self, *, declare: bool) -> None:
        self._declare = declare
        self._names = NameAllocator()
        self.classes: list[str] = []
        self.used: set[str] = set()

    def write(self, node: Node | None, base: str) -> str:
        """Return the annotation of a node; classes are named in reading order and written inner first."""
        if node is None:
            return self._any()
        out: list[str] = []
        todo: list[_Step] = [_Visit(node, base, 0)]
        while todo:
            step = todo.pop()
            if isinstance(step, str):
                out.append(step)
            elif isinstance(step, _ClassEnd):
                self.classes.append("".join(out).rstrip("\n"))
                out = step.outer
                out.append(step.name)
            elif self._declare and isinstance(step.node, ObjectNode) and _has_class(step.node):
                name = self._names.allocate(step.base)
                todo.append(_ClassEnd(out, name))
                todo.extend(reversed(self._class_steps(step.node, name)))
                out = []
            else:
                todo.extend(reversed(self._steps(step)))
        return "".join(out)

    def _steps(self, visit: _Visit) -> list[_Step]:
        """Return the pieces of an annotation that declares no class itself, in writing order."""
        node, base, depth = visit
        if isinstance(node, UnionNode):
            return self._union_steps(node, base, depth)
        if isinstance(node, ArrayNode):
            if node.items is None:
                # Never capped: one more bracket always fits (decision 0031).
                return [f"list[{self._any()}]"]
            return self._bracket_steps("list[", node.items, visit)
        if isinstance(node, MapNode):
            return self._bracket_steps("dict[str, ", node.values, visit)
        if isinstance(node, ObjectNode):
            return [f"dict[str, {self._any()}]"]
        if isinstance(node, ScalarNode):
            return [self._scalar(node)]
        return [self._any()]

    def _bracket_steps(self, head: str, child: Node, visit: _Visit) -> list[_Step]:
        if visit.depth >= _MAX_OPEN_LISTS:
            return [self._any()]
        return [head, _Visit(child, visit.base, visit.depth + 1), "]"]

    def _union_steps(self, node: UnionNode, base: str, depth: int) -> list[_Step]:
        steps: list[_Step] = []
        for number, branch in enumerate(node.branches, 1):
            name = join_name(base, str(number)) if self._declare else ""
            steps += (" | ", _Visit(branch, name, depth)) if steps else (_Visit(branch, name, depth),)
        return steps or [self._any()]

    def _class_steps(self, node: ObjectNode, name: str) -> list[_Step]:
        self.used.add("TypedDict")
        steps: list[_Step] = [f"class {name}(TypedDict):\n"]
        required = frozenset(node.required)
        for field, child in node.properties.items():
            text = comment_text(child.description)
            head = "" if text is None else f"    # {text}\n"
            visit = _Visit(child, join_name(name, camel(field)), 1)
            if field in required:
                steps += (f"{head}    {field}: ", visit, "\n")
            else:
                self.used.add("NotRequired")
                steps += (f"{head}    {field}: NotRequired[", visit, "]\n")
        if not node.properties:
            steps.append("    pass\n")
        elif node.additional:
            steps.append(_OPEN_NOTE)
        return steps

    def _scalar(self, node: ScalarNode) -> str:
        if isinstance(node, NullNode):
            return "None"
        if is_set(node.const):
            values: Sequence[object] = (node.const,)
        elif node.enum:
            values = node.enum
        else:
            return _base(node)
        self.used.add("Literal")
        return "Literal[" + ", ".join(_literal(value) for value in values) + "]"

    def _any(self) -> str:
        self.used.add("Any")
        return "Any"


def _has_class(node: ObjectNode) -> bool:
    """Tell whether an object becomes a class: every field can be declared, or it is closed and empty (SCHEMA-H6)."""
    if not node.properties:
        return not node.additional
    return all(map(is_field_name, node.properties))


def _base(node: ScalarNode) -> str:
    if isinstance(node, StringNode):
        return "str"
    if isinstance(node, IntegerNode):
        return "int"
    if isinstance(node, NumberNode):
        return "float"
    assert isinstance(node, BooleanNode)
    return "bool"


def _literal(value: object) -> str:
    """Write a literal: integers exactly, other numbers in JavaScript's form (SCHEMA-G2, D41)."""
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, float):
        if not value.is_integer():
            return js_number(value)
        value = int(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _MAX_DECIMAL_BITS else hex(value)
    return js_string(value) if isinstance(value, str) else "None"
