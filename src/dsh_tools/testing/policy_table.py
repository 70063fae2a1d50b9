"""Tables of calls and verdicts: their rows, and which rules they cover."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from ..errors import LossyJsonError
from ..json_value import to_json_text

if TYPE_CHECKING:
    from ..pipeline import Explanation

__all__ = ["Case", "CaseLike", "Coverage", "Verdict", "read_calls", "read_table", "shown"]

Verdict: TypeAlias = Literal["allow", "ask", "deny", "invalid"]
"""What policy says about a call; ``invalid`` is a call that could not run whatever policy said."""

_VERDICTS: Final = ("allow", "ask", "deny", "invalid")


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of a table.

    Parameters:
        tool: the tool's name.
        arguments: the arguments, a JSON value or a model's text.
        verdict: what policy must say.
        by: a part of the name of the rule, guard or listener that must say it; "" for any.
        reason: a part of the reason; "" for any.
    """

    tool: str
    arguments: Any
    verdict: Verdict
    by: str = ""
    reason: str = ""


CaseLike: TypeAlias = (
    Case | tuple[str, Any, Verdict] | tuple[str, Any, Verdict, str] | tuple[str, Any, Verdict, str, str]
)
"""A case, or its fields in a tuple; a reason may follow."""


class Coverage:
    """Which rules a table has put to the test.

    A rule is *covered* if it decided about a case. One that matched, but was outweighed each time, is not. The
    default for calls that no rule matches is no rule.
    """

    def __init__(self) -> None:
        self.rules: dict[str, int] = {}
        self.matched: set[str] = set()

    def add(self, explanation: Explanation, rules: Iterable[str]) -> None:
        """Take in one explained call, and the rules that were in force."""
        for rule in rules:
            self.rules.setdefault(rule, 0)
        for asked in explanation.consulted:
            if asked.kind == "rule":
                self.matched.add(asked.name)
        decided = (explanation.decided_by or "").removeprefix("rule ")
        if decided in self.rules:
            self.rules[decided] += 1

    def merge(self, other: Coverage) -> None:
        """Take in what another table has covered."""
        for rule, count in other.rules.items():
            self.rules[rule] = self.rules.get(rule, 0) + count
        self.matched |= other.matched

    def dump(self) -> dict[str, Any]:
        """Return this as a JSON value, for another process; :meth:`load` reads it."""
        return {"rules": dict(self.rules), "matched": sorted(self.matched)}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Coverage:
        """Read what :meth:`dump` returned."""
        coverage = cls()
        coverage.rules.update(data["rules"])
        coverage.matched.update(data["matched"])
        return coverage

    @property
    def uncovered(self) -> tuple[str, ...]:
        """The rules that decided about no case."""
        return tuple(rule for rule, count in self.rules.items() if count == 0)

    def report(self) -> str:
        """Return a line for each rule: how many cases it decided, or why it decided none."""
        if not self.rules:
            return "no rule was seen: there was no case, or no policy is mounted where the calls are made"
        lines: list[str] = []
        for rule, count in self.rules.items():
            outweighed = ", matched but always outweighed" if rule in self.matched else ""
            lines.append(f"{count or 'never':>5}  {rule}{'' if count else outweighed}")
        covered = sum(count > 0 for count in self.rules.values())
        return "\n".join([*lines, f"{covered} of {len(self.rules)} rules covered"])

    def require_all(self) -> None:
        """Raise unless there are rules, and every one of them decided about some case.

        Raises:
            AssertionError: the report, which says which did not; or that no rule was in force at all.
        """
        if self.uncovered or not self.rules:
            raise AssertionError(self.report())


def read_table(rows: Iterable[CaseLike]) -> list[Case]:
    """Return the cases of a table.

    Raises:
        ValueError: a row is no case; it is named by its place, from 1.
    """
    return [_case(row, f"row {place} of the table") for place, row in enumerate(rows, 1)]


def read_calls(calls: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return pairs of a tool's name and arguments.

    Raises:
        ValueError: one of them is no such pair; it is named by its place, from 1.
    """
    made: list[tuple[str, Any]] = []
    for place, given in enumerate(calls, 1):
        fields = _fields(given)
        if fields is None or len(fields) != 2 or not isinstance(fields[0], str):
            raise ValueError(f"call {place}: expected (tool, arguments), got {given!r}")
        made.append((fields[0], fields[1]))
    return made


def shown(tool: str, arguments: Any) -> str:
    """Return how a message names a call, also one whose arguments are no JSON."""
    if isinstance(arguments, str):
        return f"{tool} {arguments}"
    try:
        return f"{tool} {to_json_text(arguments)}"
    except LossyJsonError:
        return f"{tool} {arguments!r}"


def _fields(row: object) -> list[Any] | None:
    """The fields of a row; a text is none, although it can be taken apart as well."""
    return list(cast("Iterable[Any]", row)) if isinstance(row, (tuple, list)) else None


def _case(row: object, where: str) -> Case:
    case = row
    if not isinstance(case, Case):
        fields = _fields(row)
        if fields is None:
            raise ValueError(f"{where}: expected a Case or a tuple (tool, arguments, verdict, …), got {row!r}")
        if not 3 <= len(fields) <= 5:
            raise ValueError(f"{where}: expected 3 to 5 fields, got {len(fields)}: {row!r}")
        case = Case(*fields)
    for name, value in (("the tool", case.tool), ("by", case.by), ("reason", case.reason)):
        if not isinstance(cast("object", value), str):
            kind = "a name" if name == "the tool" else "a string"
            raise ValueError(f"{where}: {name} must be {kind}, got {type(value).__name__}")
    if case.verdict not in _VERDICTS:
        raise ValueError(f"{where}: the verdict must be allow, ask, deny or invalid, got {case.verdict!r}")
    return case
