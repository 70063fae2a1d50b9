"""Rules over calls, and how several are combined: deny over ask over allow (D33)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
import pydantic

from ...json_value import js_number, to_json_text
from ...tools.trace import MissedRule
from .globs import Glob
from .paths import MISSING, ArgumentPath

__all__ = ["Action", "Rule", "RuleConfig", "Rules", "Verdict"]

Action: TypeAlias = Literal["allow", "ask", "deny"]
"""What a rule does with the calls that it matches."""

Scalar: TypeAlias = str | bool | int | float | None

_RANK: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}
_UP = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)")


class RuleConfig(pydantic.BaseModel):
    """One rule as it is written down.

    Parameters:
        tool: a pattern over tool names.
        arguments: by path, a pattern for text, a value for anything else, or a list of alternatives. An ``ask`` or
            ``deny`` compares a pattern with the JSON text of numbers, booleans and null as well, and its ``"*"``
            matches whatever is there.
        action: ``allow``, ``ask`` or ``deny``.
        reason: shown to the person who is asked, or to the model whose call is denied.
    """

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    tool: str = "*"
    arguments: dict[str, Scalar | list[Scalar]] = pydantic.Field(default_factory=dict)
    action: Action
    reason: str | None = None

    @pydantic.field_validator("tool")
    @classmethod
    def _check_tool(cls, value: str) -> str:
        if not value:
            raise ValueError('a pattern over tool names cannot be empty; "*" matches all')
        Glob(value)
        return value

    @pydantic.field_validator("arguments")
    @classmethod
    def _check_arguments(cls, value: dict[str, Scalar | list[Scalar]]) -> dict[str, Scalar | list[Scalar]]:
        for path, wanted in value.items():
            Predicate(path, wanted)
        return value


class Predicate:
    """What one argument has to be."""

    __slots__ = ("_globs", "_values", "path")

    def __init__(self, path: str, wanted: Scalar | list[Scalar]) -> None:
        alternatives = wanted if isinstance(wanted, list) else [wanted]
        if not alternatives:
            raise ValueError(f"{path}: a list of alternatives cannot be empty")
        self.path = ArgumentPath(path)
        self._globs = [Glob(one) for one in alternatives if isinstance(one, str)]
        self._values = [one for one in alternatives if not isinstance(one, str)]

    def holds(self, arguments: Any, action: Action) -> bool:
        """Whether the arguments fit. Where the path leads to several places, an ``allow`` needs all of them to."""
        places = self.path.select(arguments)
        if action == "allow":
            return bool(places) and all(self._fits(value, careful=True) for value in places)
        return any(self._fits(value, careful=False) for value in places)

    def _fits(self, value: Any, *, careful: bool) -> bool:
        if value is MISSING:
            return False
        if isinstance(value, str):
            return any(glob.matches(value) and not (careful and _reaches_up(glob, value)) for glob in self._globs)
        if any(_same(value, one) for one in self._values):
            return True
        # What forbids or asks must not pass a call because its author took a number for a text.
        return not careful and any(_matches_json(glob, value) for glob in self._globs)


def _matches_json(glob: Glob, value: Any) -> bool:
    """Whether the pattern matches the JSON text of a value that is no text; of objects and lists, only ``*`` does."""
    if isinstance(value, (dict, list)):
        return glob.matches_all
    return glob.matches(to_json_text(value)) or (isinstance(value, float) and glob.matches(js_number(value)))


def _reaches_up(glob: Glob, value: str) -> bool:
    """Whether a wildcard stands for a ``..`` in a path, which nobody who wrote the pattern meant to allow."""
    return not glob.is_exact and _UP.search(value) is not None and _UP.search(glob.pattern) is None


def _same(value: Any, wanted: Scalar) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool) or value is None or wanted is None:
        return value is wanted
    return isinstance(value, (int, float)) and value == wanted


def _name_of(number: int, config: RuleConfig) -> str:
    """Name a rule so that whoever wrote it finds it: its place, from 1, and what it says."""
    arguments = f" with {to_json_text(config.arguments)}" if config.arguments else ""
    return f"{number}: {config.action} {config.tool}{arguments}"


class Rule:
    """One rule, ready to match.

    Parameters:
        config: the rule as it is written down.
        number: its place among the others, from 1.
    """

    __slots__ = ("action", "name", "predicates", "reason", "tool")

    def __init__(self, config: RuleConfig, number: int = 1) -> None:
        self.name = _name_of(number, config)
        self.tool = Glob(config.tool)
        self.predicates = [Predicate(path, wanted) for path, wanted in config.arguments.items()]
        self.action: Action = config.action
        self.reason = config.reason

    def matches(self, tool_name: str, arguments: Any) -> bool:
        """Whether the rule is about this call."""
        return self.tool.matches(tool_name) and self.kept_by(arguments) is None

    def kept_by(self, arguments: Any) -> Predicate | None:
        """Return the first argument that keeps the rule from a call of its tool; None where none does."""
        return next((each for each in self.predicates if not each.holds(arguments, self.action)), None)


class Verdict(msgspec.Struct, frozen=True):
    """What the rules, or one ``rule`` of them, say about a call."""

    action: Action
    reason: str | None = None
    rule: str | None = None


class Rules:
    """All rules together.

    Parameters:
        rules: in any order.
        default: the verdict over calls that no rule matches.
    """

    def __init__(self, rules: Sequence[Rule], default: Action = "allow") -> None:
        # The strongest first, so that the first that matches is the one that counts.
        self._rules = sorted(rules, key=lambda rule: -_RANK[rule.action])
        self._default = Verdict(default)

    def judge(self, tool_name: str, arguments: Any) -> Verdict:
        """Return the strongest matching rule's verdict; among equals the one written first gives the reason."""
        for rule in self._rules:
            if rule.matches(tool_name, arguments):
                return Verdict(rule.action, rule.reason)
        return self._default

    def matching(self, tool_name: str, arguments: Any) -> list[Verdict]:
        """Return the verdicts of all rules that match, the one that counts first; the default's where none does."""
        found = [
            Verdict(rule.action, rule.reason, rule.name) for rule in self._rules if rule.matches(tool_name, arguments)
        ]
        return found or [self._default]

    def missed(self, tool_name: str, arguments: Any) -> list[MissedRule]:
        """Return the rules that are about this tool and do not match, with the argument that keeps each from it."""
        about = [(rule, rule.kept_by(arguments)) for rule in self._rules if rule.tool.matches(tool_name)]
        return [MissedRule(rule.name, kept_by.path.text) for rule, kept_by in about if kept_by is not None]

    def __iter__(self) -> Iterator[Rule]:
        """All rules, the strongest first."""
        return iter(self._rules)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all rules, the strongest first."""
        return tuple(rule.name for rule in self._rules)

    @property
    def can_deny(self) -> bool:
        """Whether any call can be denied by these rules."""
        return self._default.action == "deny" or any(rule.action == "deny" for rule in self._rules)
